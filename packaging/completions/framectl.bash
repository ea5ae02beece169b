# Completion of framectl for bash. Names of pipelines come from the daemon itself, where one answers.

_framectl_pipelines() {
  framectl "$@" status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2
}

_framectl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" i
  local -a socket=()
  case $before in
    -s | --socket) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
  esac
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -s | --socket) socket=(-s "${COMP_WORDS[++i]}") ;;
      -*) ;;
      *) command=${COMP_WORDS[i]}; break ;;
    esac
  done
  case $command in
    "") mapfile -t COMPREPLY < <(compgen -W "status health metrics top reload upgrade drain pause resume check push pull trace plan doctor help -s --json --frames --shm --force --help --version" -- "$word") ;;
    plan)
      if [[ $before == --from ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_framectl_pipelines "${socket[@]}")" -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -W "--json --h2d --kernel --d2h --chunks --frames --slots --turnaround --host --from" -- "$word")
      fi
      ;;
    trace)
      if [[ $before == -o || $before == --output ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
      else
        mapfile -t COMPREPLY < <(compgen -W "--output --seconds" -- "$word")
      fi
      ;;
    help) mapfile -t COMPREPLY < <(compgen -W "status health metrics top reload upgrade drain pause resume check push pull trace plan doctor" -- "$word") ;;
    health | reload | upgrade) mapfile -t COMPREPLY < <(compgen -W "--json" -- "$word") ;;
    check) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    status | top | doctor | drain | pause | resume | push | pull)
      mapfile -t COMPREPLY < <(compgen -W "--json $(_framectl_pipelines "${socket[@]}")" -- "$word")
      ;;
  esac
}
complete -o filenames -F _framectl framectl
