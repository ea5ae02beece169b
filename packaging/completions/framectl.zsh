#compdef framectl
# Names of pipelines come from the daemon itself, where one answers.

_framectl_pipelines() {
  local -a names
  local socket=${opt_args[-s]:-${opt_args[--socket]}}
  names=(${(f)"$(framectl ${socket:+-s} $socket status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2)"})
  _describe pipeline names
}

_framectl() {
  local state line
  typeset -A opt_args
  _arguments -C \
    '(-s --socket)'{-s,--socket}'[status socket of the daemon]:socket:_files' \
    '--json[print JSON]' \
    '--frames[pull\: end after that many results]:number' \
    '(-o --output)'{-o,--output}'[trace\: file for it]:file:_files' \
    '--seconds[trace\: how long it is taken]:number' \
    '--h2d[plan\: time of the copy in]:time' \
    '--kernel[plan\: time of the kernel]:time' \
    '--d2h[plan\: time of the copy out]:time' \
    '--turnaround[plan\: time of the host between two frames of a slot]:time' \
    '--host[plan\: the host'\''s own work on a frame]:time' \
    '--slots[plan\: number of slots]:number' \
    '--chunks[plan\: pieces that the work is cut into]:number' \
    '--from[plan\: pipeline whose measured times are taken]:pipeline:_framectl_pipelines' \
    '--shm[push, pull\: in shared memory, on native pipelines]' \
    '--force[push, pull\: also with a terminal]' \
    '(- *)--help[print a summary]' \
    '(- *)--version[print the version]' \
    '1:command:((status\:"the state of all pipelines, or of one" health\:"whether all is well"
      metrics\:"metrics as Prometheus reads them" top\:"a live table" reload\:"read the configuration again"
      upgrade\:"have the installed program take over" drain\:"finish what is in flight, take nothing new"
      pause\:"take no frames until resume" resume\:"take frames again" check\:"check a configuration file"
      push\:"send standard input to a pipeline" pull\:"write results to standard output"
      trace\:"record when each frame was where" plan\:"say what slots would win" doctor\:"say what could be better" help\:"say what a command does"))' \
    '*::argument:->argument'
  [[ $state == argument ]] || return
  case $line[1] in
    help) compadd status health metrics top reload upgrade drain pause resume check push pull trace plan doctor ;;
    check) _files ;;
    status|top|doctor|drain|pause|resume|push|pull) _framectl_pipelines ;;
  esac
}
_framectl "$@"
