#!/bin/bash
# Makes all measurements of the tables in results/README.md, and writes a JSON document for each into a folder. This takes
# about five minutes on a machine with a GPU.
#
#   measure.sh FOLDER [--quick] [--backend cpu|cuda]
#
# `framebench report FOLDER` makes the table. Programs are searched beside this script (as in build/portable), then in build/.
# PROGRAMS names another folder. Measurements that fail here are reported and skipped, and the exit status is not 0.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

fail() {
  echo "measure: $*" >&2
  exit 1
}

case ${1:-} in
  '' | -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit ;;
esac
folder=$1
shift
options=("$@")
mkdir -p "$folder" || fail "cannot make $folder"
folder=$(cd "$folder" && pwd)

programs=
for candidate in "${PROGRAMS:-$here}" "$here" "$here/../../build"; do
  if [ -z "$programs" ] && [ -x "$candidate/framebench" ]; then programs=$(cd "$candidate" && pwd); fi
done
[ -n "$programs" ] || fail "no framebench here: run make first"

failed=()
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

measure() { # NAME SECONDS COMMAND...: runs the command with that time limit; its output becomes NAME.json
  local name=$1 seconds=$2 began=$SECONDS
  shift 2
  if timeout --kill-after=5 "$seconds" "$@" >"$folder/$name.part" 2>"$errors"; then
    mv "$folder/$name.part" "$folder/$name.json"
    echo "measure: $name in $((SECONDS - began)) s"
  else
    rm -f "$folder/$name.part"
    failed+=("$name")
    echo "measure: $name cannot be measured here:" >&2
    sed 's/^/  /' "$errors" >&2
  fi
}

# CUPTI may be missing, or may need rights that this user does not have.
witness=()
if [ -e /dev/nvidiactl ] && [[ " ${options[*]-} " != *" cpu "* ]]; then
  if timeout 60 "$programs/framebench" overlap --quick --witness >/dev/null 2>"$errors"; then
    witness=(--witness)
  else
    failed+=(witness)
    echo "measure: CUPTI cannot witness here:" >&2
    sed 's/^/  /' "$errors" >&2
  fi
fi

measure limits 130 "$programs/framebench" limits --json "${options[@]}"
measure overlap 180 "$programs/framebench" overlap --json "${witness[@]}" "${options[@]}"
measure stages 90 "$programs/framebench" stages --json "${options[@]}"
if "$programs/framebench" daemon --help >/dev/null 2>&1; then
  measure daemon 90 "$programs/framebench" daemon --json "${options[@]}"
fi
if "$programs/framebench" transport --help >/dev/null 2>&1; then
  measure transport 60 "$programs/framebench" transport --json "${options[@]}"
fi
peers=$here/peers
if [ -e "$peers/compare.py" ]; then
  measure peers 120 "${PYTHON:-python3}" "$peers/compare.py" --framed "$programs/framed" "${options[@]}"
fi
if [ -e "$here/system_calls.py" ] && command -v strace >/dev/null; then
  quick=()
  if [[ " ${options[*]-} " == *" --quick "* ]]; then quick=(--quick); fi
  measure system_calls 60 "${PYTHON:-python3}" "$here/system_calls.py" --programs "$programs" --json "${quick[@]}"
fi
if [ -e "$here/instructions.py" ] && command -v valgrind >/dev/null; then
  quick=()
  if [[ " ${options[*]-} " == *" --quick "* ]]; then quick=(--quick); fi
  measure instructions 60 "${PYTHON:-python3}" "$here/instructions.py" --programs "$programs" --json "${quick[@]}"
fi

echo
"$programs/framebench" report "$folder"
[ ${#failed[@]} = 0 ] || fail "left out: ${failed[*]}"
