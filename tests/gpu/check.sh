#!/bin/bash
# The tests that need an NVIDIA GPU. Builds here where that is possible; else it needs the folder that `make portable`
# made on another machine, and runs from within that too.
#
#   check-gpu.sh [unit] [parity] [sanitizer] [faults] [many] [e2e] [PYTEST ARGUMENT...]     default: every part
#
# unit: tests of gpu/ and of the CUDA backend; parity: the stages on both backends; sanitizer: parity under
# compute-sanitizer, left out where that is not installed, unless it is asked for; faults: a device that fails 70 times
# under load, and what clients notice of it; many: the same of one device among several, which also is drained and breaks for
# good, left out where there is one; e2e: the end-to-end tests on the CUDA backend, to which the remaining arguments go (-k raw).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "check-gpu: $*" >&2
  exit 1
}

parts=()
while [[ ${1:-} =~ ^(unit|parity|sanitizer|faults|many|e2e)$ ]]; do
  parts+=("$1")
  shift
done
asked=${parts[*]:-}
[ -n "$asked" ] || parts=(unit parity sanitizer faults many e2e)
case ${1:-} in
  -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit ;;
  '' | -* | */*) ;;
  *) fail "there is no part '$1': one of unit, parity, sanitizer, faults, many, e2e, then the arguments of pytest" ;;
esac
case " ${parts[*]} " in
  *" e2e "*) ;;
  *) [ $# = 0 ] || fail "only e2e takes arguments, so nobody would read: $*" ;;
esac

# The end-to-end tests need numpy, which on machines for computing is often another Python's than the system's.
python=
for candidate in "${PYTHON:-python3}" python3 /usr/bin/python3; do
  if [ -z "$python" ] && "$candidate" -c 'import numpy' 2>/dev/null; then python=$candidate; fi
done
[ -n "$python" ] || fail "no Python with numpy here; set PYTHON to one"

if ! [ -e /dev/nvidiactl ] && ! nvidia-smi >/dev/null 2>&1; then
  fail "there is no NVIDIA GPU here (neither /dev/nvidiactl nor nvidia-smi)"
fi
can_compile() { command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; }
has_libraries() { pkg-config --exists libuv yaml-0.1 libsystemd libmicrohttpd jansson ncursesw check 2>/dev/null; }

use_folder() { # FOLDER: the portable one
  programs=$1/check units=$1/tests
  # Machines for computing seldom have pytest; the folder brings it.
  "$python" -c 'import pytest' 2>/dev/null || export PYTHONPATH=$1/tests/python${PYTHONPATH:+:$PYTHONPATH}
}

if [ -x "$here/framed" ]; then
  use_folder "$here"
  e2e=$here/tests/e2e tests=$here/tests
else
  cd "$here/../.."
  e2e=$PWD/tests/e2e tests=$PWD/tests/gpu
  if [ -x build/portable/framed ] && ! { can_compile && has_libraries; }; then
    use_folder "$PWD/build/portable"
  elif can_compile; then
    tools/setup.sh build check
    make --no-print-directory -j"$(nproc)" VARIANT=check programs unit-programs
    programs=$PWD/build/check units=$PWD/build/check/tests
  else
    fail "no nvcc here, and no build/portable: run 'make portable' on a machine with nvcc and copy that folder here"
  fi
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true

# Without a usable device the tests of the CUDA backend would be skipped; here that is a failure.
export FRAMED_REQUIRE_GPU=1 FRAMED_BACKEND=cuda
export FRAMED_BINARY=$programs/framed FRAMED_WORKER=$programs/framed-worker FRAMECTL=$programs/framectl FRAMED_FAIL_CALL=$units/fail-call.so PYTHONDONTWRITEBYTECODE=1

run_unit() {
  echo "== unit tests of gpu/ on the device"
  "$units/unit-gpu"
  echo "== the CUDA backend"
  "$units/gpu-backend"
}

run_parity() {
  echo "== parity of the stages on both backends"
  "$units/gpu-parity"
}

run_sanitizer() {
  local sanitizer tool
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -z "$sanitizer" ]; then
    [ -z "$asked" ] || fail "compute-sanitizer is not installed here"
    echo "== compute-sanitizer is not installed here: left out"
    return
  fi
  for tool in memcheck racecheck; do
    echo "== compute-sanitizer $tool"
    "$sanitizer" --tool "$tool" --error-exitcode 9 "$units/gpu-parity" --small
  done
}

run_faults() {
  echo "== faults of the device under load"
  "$python" "$tests/faults.py" --backend cuda ${FRAMED_FAULTS_JSON:+--json "$FRAMED_FAULTS_JSON"}
}

run_many() {
  local devices
  devices=$(nvidia-smi -L | wc -l)
  if [ "$devices" -lt 2 ]; then
    [ -z "$asked" ] || fail "there is one device here"
    echo "== there is one device here: what several do is left out"
    return
  fi
  echo "== one of $devices devices under load"
  "$python" "$tests/many.py" --backend cuda --devices "$devices"
}

run_e2e() {
  echo "== end-to-end tests on the CUDA backend"
  # Three at once: what takes the time is making a CUDA context, and with many at once each takes longer.
  local workers=()
  if "$python" -c 'import xdist' 2>/dev/null; then workers=(-n 3); fi
  "$python" -m pytest "$e2e" -q -m "not host" "${workers[@]}" "$@"
}

for part in "${parts[@]}"; do
  "run_$part" "$@"
done
echo "check-gpu: ${parts[*]}: no failure in $SECONDS s"
