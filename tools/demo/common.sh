# Shared by demo.sh and demo-model.sh: steps with a time limit, and a clean-up of all processes and sockets.
# Read by `. tools/demo/common.sh NAME FOLDER`.
# shellcheck shell=bash
set -euo pipefail
exec </dev/null 3>&2 # 3: for messages of this script while a command's output goes to a file
demo=$1
here=$2
# Seconds that a step may take, on a slow machine too.
step_limit=${DEMO_LIMIT:-120}
framed=
children=()

# Every long command runs in the background: bash handles a signal during `wait`, but not during a command in the foreground.
# A process that hangs after SIGTERM gets SIGKILL.
clean_up() {
  trap '' INT TERM HUP
  local child
  for child in "${children[@]}" $framed; do
    kill "$child" 2>/dev/null || continue
    for _ in $(seq 100); do
      kill -0 "$child" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
  done
  rm -f "$here"/*.sock
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the error and the remedy.
fail() {
  {
    echo "$demo: $1"
    [ $# = 1 ] || echo "$demo: $2"
    if [ -s "$here/framed.log" ]; then
      echo "$demo: the log of framed ($here/framed.log):"
      cat "$here/framed.log"
    fi
  } >&3
  exit 1
}

# begin COMMAND...: starts it in its own process group, which is ended after step_limit. Sets `begun` to its process number.
begin() {
  timeout --kill-after=5 "$step_limit" "$@" &
  begun=$!
  children+=("$begun")
}

# finish NUMBER WHAT: waits for a command and returns its status. WHAT describes it in the message after a timeout.
finish() {
  local status=0
  wait "$1" || status=$?
  children=("${children[@]/#$1}")
  case $status in
    124 | 137) fail "$2 took more than $step_limit s" "on a slow machine, set DEMO_LIMIT to more seconds for each step" ;;
  esac
  return $status
}

run() { # WHAT COMMAND...: both
  local what=$1
  shift
  begin "$@"
  finish "$begun" "$what"
}

# wait_until WHAT COMMAND...: waits until the command succeeds, or the daemon has ended.
wait_until() {
  local what=$1 end=$((SECONDS + step_limit))
  shift
  until "$@" >/dev/null 2>&1; do
    kill -0 "$framed" 2>/dev/null || fail "framed ended before $what"
    [ $SECONDS -lt $end ] || fail "waited $step_limit s until $what, in vain"
    sleep 0.1
  done
}

framectl() { timeout --foreground 5 build/framectl -s "$here/status.sock" "$@"; }

# start_framed CONFIGURATION
start_framed() {
  echo "-- starting build/framed -c $1"
  build/framed -c "$1" 2>"$here/framed.log" &
  framed=$!
  wait_until "framed answers on $here/status.sock" framectl status
}

has_readers() { # PIPELINE NUMBER
  framectl --json status "$1" | tr -d ' \n' | grep -q "\"readers\":$2,"
}

stop_framed() {
  kill -TERM "$framed"
  for _ in $(seq $((10 * step_limit))); do
    kill -0 "$framed" 2>/dev/null || break
    sleep 0.1
  done
  kill -0 "$framed" 2>/dev/null && fail "framed did not end within $step_limit s of SIGTERM"
  wait "$framed" || fail "framed ended with status $?"
  framed=
}
