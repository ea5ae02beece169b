#!/bin/bash
# Every test that needs no GPU, from a clean checkout: what `make check` runs. Two processes work at a time, or four where they
# mostly wait.
# The order puts what breaks most often first and the summaries of Check and pytest last.
set -euo pipefail
cd "$(dirname "$0")/.."
export WERROR=1
export architectures='-gencode arch=compute_90,code=sm_90' # one will do to see that kernels compile
exec </dev/null
started=$SECONDS
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

make=(make --no-print-directory)
step() { printf '\n== %s (after %d s)\n' "$1" $((SECONDS - started)); }

# How far a run is, by its log: the last program of the unit tests, or the step after them.
place() { { echo begun && grep -oE '\[ *[0-9]+%\]|^== .*' "$1"; } | tail -n 1 | sed -E 's,^== (the |[^ ]*/),in ,'; }

say_progress() { # until the logs are gone, if nobody ends it before
  while sleep 15 >/dev/null 2>&1 && [ -d "$logs" ]; do
    printf '   after %d s: %s %s, %s %s\n' $((SECONDS - started)) "$1" "$(place "$logs/first")" "$2" "$(place "$logs/second")"
  done
}

# both COMMAND COMMAND NAME NAME: runs two commands side by side, with a line now and then, and shows their output one after
# the other.
both() {
  local status=0
  : >"$logs/first"
  : >"$logs/second"
  say_progress "$3" "$4" &
  local progress=$!
  bash -c "$1" >"$logs/first" 2>&1 &
  local first=$!
  bash -c "$2" >"$logs/second" 2>&1 || status=$?
  wait $first || status=$?
  kill $progress 2>/dev/null || true
  wait $progress 2>/dev/null || true
  cat "$logs/first" "$logs/second"
  return $status
}

# The sanitizers of older compilers do not bear the address randomisation of newer kernels.
steady=
if setarch -R true 2>/dev/null; then steady="setarch -R"; fi
variant() { echo "$steady make --no-print-directory NO_CUDA=1 VARIANT=$1 $2"; }

step "release build, warnings are errors"
"${make[@]}" -j2 programs
for name in check asan tsan; do
  step "build of the $name variant"
  "${make[@]}" -j2 NO_CUDA=1 VARIANT=$name programs unit-programs
done
step "build of the fuzz targets"
"${make[@]}" -j2 NO_CUDA=1 VARIANT=fuzz fuzz-programs

step "installation"
tests/install.sh
step "the unit's sandbox"
tests/gpu/sandbox.sh cpu
# They slow everything down: what is about programs of one thread, about stages alone, or measures, is left to the end,
# and to ASan what is about calls that fail, processes and clients that come back, and what the loop does alone.
alone='framebench or test_load or python_client or bad_config or protocol_page or images or examples or doctor or overlap or monitoring'
alone+=' or what_they_cost'
memory='injection or test_kill.py or kill_meets or kill_moments or managers or nonsense or resume or soak or upgrade or journal or readme'
memory+=' or bad_clients or attacks_http or attacks_limits or attacks_time or handover_refused or handover_oddities or supervision or sleep'
waits='health or unread' # for nearly all of their time, and are left to the end by both, where they run beside the others
# Of tests with many sets of parameters, whose threads are the same, some will do for TSan, which is the slower one.
few() { [ "$1" != tsan ] || echo '--one-in 5'; }
# What is about threads is left to TSan,
threads='kill_load or handover_storm or trace or lanes'
# and what takes long and passed with ASan is not run once more without.
seen='test_kill.py or kill_meets or kill_moments or chaos or nonsense or resume or test_upgrade or handover_refused or handover_oddities or handover_again'
seen+=' or attacks or managers or keeper or shared_control or shared_consumers or libframed or overload or acks or restart_meets'
seen+=' or reload_moments or test_faults or test_handover.py or handover_random or handover_removed or test_reload.py or hostile'
seen+=' or churn or test_files or test_sinks or test_raw or test_native or test_shared.py or test_status.py or refusals or fifo'
# Most of their time they wait, so that two halves at once take little more than half of it.
tough='handover or lanes or hostile or shared or attacks or churn or chaos or reload or resume'
# These measure, one thing after the other.
measures='framebench or test_load or soak or python_client or overlap'
# shellcheck disable=SC2016 # what it prints is for another shell
at_once() { # NAME COMMAND...: the output of each stands whole, one after the other
  local name=$1 number=0
  shift
  printf 'status=0; pids=; '
  for command in "$@"; do
    number=$((number + 1))
    printf '%s >%s 2>&1 & pids="$pids $!"; ' "$command" "$logs/$name-$number"
  done
  printf 'for pid in $pids; do wait $pid || status=1; done; cat %s; exit $status' "$logs/$name-"'[0-9]'
}
sanitized() { # VARIANT PATTERN: end-to-end tests but for those, in two halves
  local few
  few="-m \"not slow\" $(few "$1")"
  echo "echo '== the end-to-end tests';"
  at_once "$1" "$(variant "$1" "e2e PYTEST='$few -k \"not ($2 or $tough)\"'")" \
    "$(variant "$1" "e2e PYTEST='$few -k \"($tough) and not ($2)\"'")"
}
step "TSan, fuzzing, systemd, packages and what measures, beside ASan with UBSan, end-to-end and unit tests"
mapfile -t targets < <(find tests/fuzz -name 'fuzz_*.c' -printf '%f\n' | sed 's/^fuzz_//; s/\.c$//' | sort)
last="make --no-print-directory NO_CUDA=1 VARIANT=check"
plain() { echo "FRAMED_SLOW=2 $last e2e PYTEST='-k \"($1) and (slow or $threads or not ($seen))\"'"; }
both "$(variant tsan unit) && ( $(sanitized tsan "$alone or $waits or $memory") ) &&
    FUZZ_JOBS=1 FUZZ_SECONDS=3 $steady tests/fuzz/run.sh ${targets[*]} && tests/systemd/run.sh && tests/packaging/run.sh &&
    $(plain "$measures")" \
  "$(variant asan unit) && ( $(sanitized asan "$alone or $waits or $threads") ) && ( echo '== the rest of the end-to-end tests';
    $(at_once plain "$(plain "($tough) and not ($measures or $waits)")" "$(plain "not ($tough or $measures or $waits)")" \
      "$(plain "($waits) and not ($measures)")") ) && $last unit" \
  "TSan to packages and what measures" "ASan to end-to-end and unit tests"
