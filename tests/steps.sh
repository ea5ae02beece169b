# Shared by tests/check.sh and tests/quick.sh. A step prints a line and its summaries after a success, and all output after a
# failure. End-to-end tests run in several processes, and the last line is the verdict. Read by `. tests/steps.sh NAME`.
# shellcheck shell=bash
set -euo pipefail
export WERROR=1
export architectures='-gencode arch=compute_90,code=sm_90' # one is enough to check that kernels compile
exec </dev/null
run_name=$1
logs=$(mktemp -d)
trap 'finish $?' EXIT

finish() { # STATUS: prints the verdict, however the script ends
  local status=$1
  /usr/bin/python3 tests/verdict.py "$run_name" "$logs" "$SECONDS" "$status" || status=1
  rm -rf "$logs"
  exit "$status"
}

# step NAME COMMAND...: prints one line, and after a success Check's and pytest's summaries and the skipped tests.
step() {
  local name=$1 begun=$SECONDS status=0 log
  shift
  log=$(mktemp "$logs/step.XXXXXX")
  "$@" >"$log" 2>&1 || status=$?
  {
    flock 9 # parallel steps must not mix their output
    if [ $status = 0 ] && grep -qE '^(FAILED|ERROR) ' "$log"; then
      printf '\n== %s: what failed gets a second try\n' "$name"
      cat "$log"
      printf '== end of %s\n\n' "$name"
    elif [ $status = 0 ]; then
      printf '%s: %d s\n' "$name" $((SECONDS - begun))
      grep -E '^[0-9]+%: Checks: |^[0-9]+ [a-z].* in [0-9.]+s|left out: ' "$log" || true
    else
      printf '\n== %s: FAILED with status %d after %d s\n' "$name" $status $((SECONDS - begun))
      cat "$log"
      printf '== end of %s\n\n' "$name"
      echo "$name" >>"$logs/failed"
    fi
  } 9>"$logs/lock"
  return $status
}

# beside FUNCTION...: runs functions with steps in parallel. The verdict includes their failures.
beside() {
  local each running=()
  for each in "$@"; do
    "$each" &
    running+=($!)
  done
  for each in "${running[@]}"; do wait "$each" || true; done
}

# The sanitizers of older compilers fail with the address randomisation of newer kernels.
steady=()
if setarch -R true 2>/dev/null; then steady=(setarch -R); fi
variant() { # VARIANT TARGET...
  local name=$1
  shift
  "${steady[@]}" make --no-print-directory NO_CUDA=1 VARIANT="$name" "$@"
}

# left_out WORDS: adds a skipped part to the verdict, as REASON: NUMBER or in words.
left_out() { echo "$*" >>"$logs/left-out"; }

# end_to_end VARIANT PROCESSES ARGUMENTS [REASON]: uses many processes, since tests mostly wait. REASON says why other tests are
# skipped. A few failed tests without a sanitizer's report run again in again(), when no other step runs.
end_to_end() {
  local folder status=0
  folder=$(mktemp -d "$logs/failed.XXXXXX")
  variant "$1" e2e PYTEST="--processes $2 --failed $folder $3" >"$folder/log" 2>&1 || status=$?
  cat "$folder/log"
  [ -z "${4:-}" ] || left_out "$4: $(grep -oE '[0-9]+ deselected' "$folder/log" | grep -oE '^[0-9]+' || echo 0)"
  if [ -e "$folder/failed" ] && [ ! -e "$folder/certain" ] && ! grep -q '^INTERNALERROR' "$folder/log" && [ "$(sort -u "$folder/failed" | wc -l)" -le 5 ]; then
    cat "$folder/failed" >>"$logs/again.$1"
    return 0
  fi
  return $status
}

# again: runs tests that failed beside others once more, alone. The verdict names them in any case.
again() {
  local list
  for list in "$logs"/again.*; do
    [ -e "$list" ] || continue
    step "a second try, alone, of $(sort -u "$list" | wc -l) with ${list##*.}" variant "${list##*.}" e2e PYTEST="--only $list" || true
  done
}
