#!/bin/bash
# The steps of tests/systems/run.sh, as an ordinary user runs them on a fresh system. Writes facts such as the compiler as
# "fact ...", and each step as "passed ..." or "failed ...".
#
#   inside.sh NOTES STEPS
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
exec </dev/null
notes=$1

step() { # NAME COMMAND...: runs a step with a time limit
  local name=$1 begun=$SECONDS
  shift
  echo "== $name: $*"
  if timeout --kill-after=30 5400 "$@"; then
    echo "passed $name$(detail "$name")" >>"$notes"
  else
    echo "failed $name (status $?, $((SECONDS - begun)) s)$(detail "$name")" >>"$notes"
  fi
}

detail() { # STEP: prints the figures of its last line
  case $1 in
    quick | check) [ ! -s "$1.log" ] || sed -n 's/^[a-z]*: \(.*passed, [0-9,]* failed\).*, \([0-9,]* left out\).*/ (\1, \2)/p' "$1.log" ;;
    cuda) tools/setup.sh backend 2>/dev/null | sed -n 's/.*nvcc \([0-9.]*\) .*/ \1/p' ;;
  esac
}

run_demo() {
  make demo && [ -s build/demo/before-after.png ]
}

run_quick() {
  make quick 2>&1 | tee quick.log
}

run_check() {
  make check 2>&1 | tee check.log
}

# This step installs no program that only tests need.
run_portable() {
  make -j2 portable && build/portable/framed --version && grep 'copy' build/portable/README && ! command -v clang && ! command -v lintian
}

# This step only builds with the distribution's toolkit, since running needs a GPU.
run_cuda() {
  sudo DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends nvidia-cuda-toolkit | tail -n 5
  make -j2 programs && tools/setup.sh backend | grep '^backends: cuda'
}

facts() {
  echo "fact $(gcc --version | sed -n '1s/^\(gcc\).* \([0-9.]*\)$/\1 \2/p')"
  echo "fact $(ffmpeg -version 2>/dev/null | sed -n '1s/^\(ffmpeg\) version \([0-9.]*\).*/\1 \2/p')"
  echo "fact $(/usr/bin/python3 --version 2>/dev/null | sed 's/P/p/')"
}

export -f run_portable run_demo run_quick run_check run_cuda
for name in $2; do step "$name" bash -o pipefail -c "run_$name"; done
facts | sed '/^fact $/d' >>"$notes"
