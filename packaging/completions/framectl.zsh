#compdef framectl
# A running daemon supplies the names of pipelines.

_framectl_pipelines() {
  local -a names
  local at=${opt_args[-s]:-${opt_args[--socket]:-$socket}}
  names=(${(f)"$(framectl ${at:+-s} $at status --json 2>/dev/null |
    tr -d ' \n' | sed 's/.*"pipelines":{//' | grep -o '"[A-Za-z0-9_.-]*":{"state"' | cut -d'"' -f2)"})
  _describe pipeline names
}

_framectl() {
  local state line socket
  typeset -A opt_args
  local -a always=(
    '(-s --socket)'{-s,--socket}'[status socket of the daemon]:socket:_files'
    '(- *)'{-h,--help}'[print a summary, or what the command does]')
  local -a json=('--json[print JSON]')
  local -a transfer=('--shm[in shared memory, on native pipelines]' '--force[also with a terminal]')
  _arguments -C $always $json \
    '(- *)--version[print the version]' \
    '1:command:((status\:"the state of all pipelines, or of one" health\:"whether all pipelines are healthy"
      watch\:"a line whenever health changes" metrics\:"metrics as Prometheus reads them" top\:"a live table" reload\:"read the configuration again"
      upgrade\:"replace the running program by the installed one" device\:"free a GPU, or bring it back" drain\:"finish what is in flight, take nothing new"
      pause\:"take no frames until resume" resume\:"take frames again" check\:"check a configuration file"
      push\:"send standard input to a pipeline" pull\:"write results to standard output"
      trace\:"record the timeline of each frame" plan\:"predict the gain of slots" doctor\:"name possible improvements"
      models\:"list, install or remove ONNX Runtime" stages\:"list stages, or parameters of one"
      try\:"put one frame through stages" camera\:"find cameras, or say what one sends" record\:"record the frames around this moment" replay\:"compare two configurations on a recording" repair\:"finish unfinished recordings" help\:"print the help of a command"))' \
    '*::argument:->argument'
  [[ $state == argument ]] || return
  socket=${opt_args[-s]:-${opt_args[--socket]}}
  case $line[1] in
    help) compadd status health watch metrics top reload upgrade device drain pause resume record check push pull trace plan doctor models stages try camera replay repair ;;
    status|doctor|drain|pause|resume|record) _arguments $always $json '1:pipeline:_framectl_pipelines' ;;
    device) _arguments $always $json '1:number:' '2:action:(drain resume)' ;;
    top) _arguments $always '1:pipeline:_framectl_pipelines' ;;
    health|watch|reload|upgrade) _arguments $always $json ;;
    metrics) _arguments $always ;;
    models) _arguments $always '--cuda[with the libraries of CUDA]' '1:action:(install remove)' '*:wheel:_files -g "*.whl"' ;;
    check) _arguments $always '1:configuration:_files' ;;
    push) _arguments $always $transfer '1:pipeline:_framectl_pipelines' ;;
    pull) _arguments $always $transfer '--frames[end after that many results]:number' '1:pipeline:_framectl_pipelines' ;;
    trace)
      _arguments $always '(-o --output)'{-o,--output}'[file for it]:file:_files' '--seconds[how long it is taken]:number'
      ;;
    camera)
      _arguments $always $json '(-o --output)'{-o,--output}'[file for the first picture]:file:_files' \
        '--credentials[file with USER\:PASSWORD]:file:_files' '--terminal[show the first picture here]' '--seconds[how long to wait for answers]:number' '1:action:(try find)' '2:URL or address:'
      ;;
    replay) _arguments $always '--against[the new configuration]:file:_files' '--config[the one before]:file:_files' '1:recording:_files' ;;
    repair) _arguments $always '1:segment or folder:_files' ;;
    stages) _arguments $always '1:stage:' ;;
    try)
      _arguments $always '(-i --input)'{-i,--input}'[picture or raw frame]:file:_files' \
        '(-o --output)'{-o,--output}'[file for the result]:file:_files' '--format[of a raw frame]:format' \
        '--cpu[on the CPU backend in any case]' '*:stage:'
      ;;
    plan)
      _arguments $always $json '--h2d[time of the copy in]:time' '--kernel[time of the kernel]:time' \
        '--d2h[time of the copy out]:time' '--turnaround[time of the host between two frames of a slot]:time' \
        '--host[the host'\''s own work on a frame]:time' '--slots[number of slots]:number' \
        '--frames[times are of each of that many frames]:number' '--chunks[pieces that the work is cut into]:number' \
        '--from[pipeline whose measured times are taken]:pipeline:_framectl_pipelines'
      ;;
  esac
}
_framectl "$@"
