# Completion of framed-link for bash.
_framed-link() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == @(-c|--config) ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "-c --config --check --version --help" -- "$word")
  fi
}
complete -o filenames -F _framed-link framed-link
