#!/bin/bash
# Runs the daemon under the limits, the mounts and the system-call filter of framed.service, where no systemd runs: on a
# machine with a GPU, to show that CUDA works in it. The same frames go through the CPU backend outside, and the results
# must not differ. Needs build/ or the folder that `make portable` made.
#
#   sandbox.sh [cuda | cpu] [DIRECTIVE=VALUE...]      default: cuda; directives are added to the unit's
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
frames=64

fail() {
  echo "sandbox: $*" >&2
  [ ! -s "$folder/log" ] || tail -n 20 "$folder/log" >&2
  exit 1
}

folder=$(mktemp -d)
daemon=
clean_up() {
  [ -z "$daemon" ] || kill -KILL "$daemon" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT

if [ -x "$here/framed" ]; then
  programs=$here unit=$here/framed.service sandbox=$here/tests/sandbox.py
else
  sandbox=$here/sandbox.py
  programs=$here/../../build
  [ -x "$programs/framed" ] || fail "there is no build/framed: run make"
  programs=$(cd "$programs" && pwd)
  unit=$here/../../packaging/systemd/framed.service.in
fi
backend=cuda
case ${1:-} in cuda | cpu) backend=$1 && shift ;; esac
added=()
for directive in "$@"; do
  [[ $directive == *=* ]] || fail "'$directive' is no DIRECTIVE=VALUE"
  added+=(--set "$directive")
done

configure() { # BACKEND FOLDER
  cat <<YAML
status: {socket: $2/status.sock}
gpu: {backend: $1}
pipelines:
  cam0:
    source: {socket: $2/cam0.sock, format: {pixels: gray, width: 640, height: 480}}
    slots: 3
    graph: $([ "$1" = cuda ] && echo on || echo auto)
    stages: [{blur: {sigma: 1.5}}, {motion: {rate: 0.05, threshold: 25}}, {sobel: {}}]
    sink: {socket: $2/cam0.out.sock, overload: block}
YAML
}

# Sends the frames through a daemon in FOLDER that the rest of the arguments start, and keeps the results there.
send_through() { # BACKEND FOLDER COMMAND...
  local backend=$1 place=$2
  shift 2
  configure "$backend" "$place" >"$place/framed.yaml"
  "$@" "$folder/programs/framed" -c "$place/framed.yaml" >>"$folder/log" 2>&1 &
  daemon=$!
  local framectl=("$programs/framectl" -s "$place/status.sock")
  for _ in $(seq 600); do
    if "${framectl[@]}" status >/dev/null 2>&1; then break; fi
    kill -0 "$daemon" 2>/dev/null || fail "the daemon did not start"
    sleep 0.1
  done
  [ -z "${observe:-}" ] || observe "$daemon"
  timeout 60 "${framectl[@]}" pull --frames $frames cam0 >"$place/results" 2>>"$folder/log" &
  local reader=$!
  timeout 60 "${framectl[@]}" push cam0 <"$folder/frames" 2>>"$folder/log" || fail "the daemon did not take the frames"
  wait $reader || fail "the results did not come"
  "${framectl[@]}" status --json >"$place/status.json"
  kill -TERM "$daemon"
  wait "$daemon" || fail "the daemon ended with status $?"
  daemon=
}

observe() { # PID: what the kernel says of it; without the filter there is nothing to show
  grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$1/status"
  grep -E '^Max (locked memory|open files)' "/proc/$1/limits"
  grep -q '^Seccomp:[[:space:]]*2' "/proc/$1/status" || fail "no system-call filter is in force"
}

head -c $((frames * 640 * 480)) /dev/urandom >"$folder/frames"
mkdir "$folder/outside" "$folder/inside" "$folder/programs"
chmod 755 "$folder"
# The unit's user need not reach the folder from which this is run.
cp "$programs/framed" "$programs/framed-worker" "$folder/programs/"
if [ -d "$programs/lib" ]; then
  mkdir "$folder/programs/lib"
  find "$programs/lib" -type f ! -name 'libcupti*' -exec cp -t "$folder/programs/lib" {} +
fi
send_through cpu "$folder/outside" env
observe=yes
echo "== in the sandbox, backend $backend${*:+, with $*}"
send_through "$backend" "$folder/inside" "$python" "$sandbox" --unit "$unit" "${added[@]}" --writable "$folder/inside" \
  --visible "$folder/programs" --
grep '^sandbox:' "$folder/log" || true
grep -oE '"(version|backend|device)": *"[^"]*"' "$folder/inside/status.json" | paste -sd' '
cmp "$folder/outside/results" "$folder/inside/results" || fail "the results differ from those of the CPU backend outside"
echo "sandbox: $frames frames on $backend, the same results as on the CPU outside"
