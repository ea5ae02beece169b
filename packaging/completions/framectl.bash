# Completion of framectl for bash. A running daemon supplies the names of pipelines.

_framectl_pipelines() {
  framectl "$@" status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2
}

_framectl() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" words="" i
  local commands="status health watch metrics top reload upgrade device drain pause resume record check push pull trace plan doctor models stages try camera replay repair"
  local -a socket=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      -s | --socket) socket=(-s "${COMP_WORDS[++i]}") ;;
      -o | --output | -i | --input | --credentials | --format | --frames | --seconds | --h2d | --kernel | --d2h | --turnaround | --host | --slots | --chunks | --from) ((i++)) ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; fi ;;
    esac
  done
  case $before in
    -s | --socket | -o | --output | -i | --input | --credentials) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --from) mapfile -t COMPREPLY < <(compgen -W "$(_framectl_pipelines "${socket[@]}")" -- "$word"); return ;;
    --frames | --format | --seconds | --h2d | --kernel | --d2h | --turnaround | --host | --slots | --chunks) return ;;
  esac
  case $command in
    "") words="$commands help --json --version" ;;
    help) words=$commands ;;
    status | doctor | drain | pause | resume | record) words="--json" ;;
    device) words="--json drain resume" ;;
    health | watch | reload | upgrade) words="--json" ;;
    check) if [[ $word != -* ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; fi ;;
    push) words="--shm --force" ;;
    pull) words="--frames --shm --force" ;;
    models) words="install remove --cuda"; if [[ $word != -* && ${COMP_WORDS[*]} == *install* ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; fi ;;
    trace) words="-o --output --seconds" ;;
    try) words="-i --input -o --output --format --cpu" ;;
    camera) words="try find --json -o --output --credentials --terminal --seconds" ;;
    replay) words="--against --config"; if [[ $word != -* ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; fi ;;
    repair) if [[ $word != -* ]]; then mapfile -t COMPREPLY < <(compgen -f -- "$word"); return; fi ;;
    stages)
      if [[ $word != -* ]]; then words=$(framectl stages 2>/dev/null | sed -n 's/^  \([^ ]*\) .*/\1/p'); fi
      ;;
    plan) words="--json --h2d --kernel --d2h --chunks --frames --slots --turnaround --host --from" ;;
  esac
  case $command in
    status | top | doctor | drain | pause | resume | record | push | pull)
      if [[ $word != -* ]]; then words+=" $(_framectl_pipelines "${socket[@]}")"; fi
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words -s --socket -h --help" -- "$word")
}
complete -o filenames -F _framectl framectl
