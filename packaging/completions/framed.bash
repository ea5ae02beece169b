# Completion of framed for bash.
_framed() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == @(-c|--config) ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -W "-c --config --check --state --print-config --print-schema --print-manual --print-stages --try --replay --against --version --help" -- "$word")
  fi
}
complete -o filenames -F _framed framed
