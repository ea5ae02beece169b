# Completion of framebench for bash. A running daemon supplies the names of pipelines.

_framebench_pipelines() {
  framectl "$@" status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2
}

_framebench() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words i
  local measured="--json --quick --backend --device --help"
  local -a socket=()
  case $before in
    -s | --socket) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
    --backend) mapfile -t COMPREPLY < <(compgen -W "cpu cuda" -- "$word"); return ;;
    --transport) mapfile -t COMPREPLY < <(compgen -W "shm stream" -- "$word"); return ;;
    --rate) mapfile -t COMPREPLY < <(compgen -W "max" -- "$word"); return ;;
    --device | --devices | --in-flight | --clients | --search | --duration | --warm-up) return ;;
  esac
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == @(-s|--socket) ]]; then socket=(-s "${COMP_WORDS[i + 1]}"); fi
  done
  if ((COMP_CWORD == 1)); then command=""; fi
  case $command in
    "") words="limits overlap stages model daemon transport scale load report --help --version" ;;
    limits | stages | daemon | transport) words=$measured ;;
    overlap) words="$measured --witness" ;;
    model)
      mapfile -t COMPREPLY < <(compgen -W "$measured" -- "$word"; [[ $word == -* ]] || compgen -f -- "$word")
      return
      ;;
    scale)
      words="--json --quick --backend --devices --help"
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word"; [[ $word == -* ]] || compgen -f -- "$word")
      return
      ;;
    load)
      words="-s --socket --rate --in-flight --clients --search --duration --warm-up --spin --transport --json --help"
      [[ $word == -* ]] || words+=" $(_framebench_pipelines "${socket[@]}")"
      ;;
    report)
      mapfile -t COMPREPLY < <(compgen -W "--help" -- "$word"; compgen -d -- "$word")
      return
      ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _framebench framebench
