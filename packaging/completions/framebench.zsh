#compdef framebench
# A running daemon supplies the names of pipelines.

_framebench_pipelines() {
  local -a names
  local socket=${opt_args[-s]:-${opt_args[--socket]}}
  names=(${(f)"$(framectl ${socket:+-s} $socket status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2)"})
  _describe pipeline names
}

_framebench() {
  local state line
  typeset -A opt_args
  local -a measured=(
    '--json[print one JSON document]' '--quick[small sizes and few rounds]' '--backend[where stages run]:backend:(cpu cuda)'
    '--device[number of the GPU]:number' '(- *)--help[say what the command does]')
  _arguments -C \
    '(- *)--help[print a summary]' \
    '(- *)--version[print the version]' \
    '1:command:((limits\:"what this machine allows" overlap\:"the same work serially and with 1 to 8 slots"
      stages\:"every stage beside what memory allows" model\:"a model in the daemon, beside one process"
      daemon\:"the daemon from socket to socket"
      transport\:"client to daemon to client in shared memory"
      scale\:"a pipeline on 1, 2, 4 and more devices"
      load\:"frames into a running daemon" report\:"the table of results in a folder"))' \
    '*::argument:->argument'
  [[ $state == argument ]] || return
  case $line[1] in
    limits|stages|daemon|transport) _arguments $measured ;;
    model) _arguments $measured '1:file:_files' ;;
    scale)
      _arguments '--json[print one JSON document]' '--quick[small sizes and few rounds]' '--backend[where stages run]:backend:(cpu cuda)' \
        '--devices[at most so many]:number' '(- *)--help[say what the command does]' '1:file:_files'
      ;;
    overlap) _arguments $measured '--witness[compare with CUPTI]' ;;
    load)
      _arguments '(-s --socket)'{-s,--socket}'[status socket of the daemon]:socket:_files' \
        '--rate[frames a second]:number or max:(max)' '--in-flight[frames under way of each client]:number' \
        '--clients[producers of each pipeline]:number' '--search[the highest rate at which it holds]:goal' \
        '--duration[of each measurement]:time' '--warm-up[before each measurement]:time' \
        '--spin[never sleep]' '--transport[of native pipelines]:transport:(shm stream)' '--json[print one JSON document]' '(- *)--help[say what the command does]' \
        '*:pipeline:_framebench_pipelines'
      ;;
    report) _arguments '1:folder:_files -/' ;;
  esac
}
_framebench "$@"
