#!/bin/bash
# Runs the named fuzz targets, FUZZ_JOBS (2) at a time, each for FUZZ_SECONDS (30) over a copy of its corpus. A crash, leak
# or hang fails, and its input is kept and named.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-30}
kept=build/fuzz/found
mkdir -p "$kept"
copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT

run() {
  local name=$1 log=$copies/$1.log
  mkdir "$copies/$name"
  if [ -d "tests/fuzz/corpus/$name" ]; then
    cp -r "tests/fuzz/corpus/$name/." "$copies/$name/"
  fi
  if "build/fuzz/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$kept/$name-" "$copies/$name" >"$log" 2>&1 </dev/null; then
    echo "fuzz: $name: nothing found in $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs"
  else
    tail -n 60 "$log"
    echo "fuzz: $name: FAILED; reproduce with: build/fuzz/fuzz_$name $(find "$kept" -name "$name-*" -newer "$copies/$name.began" | head -n 1)"
    touch "$copies/failed"
  fi
}

for name in "$@"; do
  while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-2}" ]; do wait -n; done
  touch "$copies/$name.began"
  run "$name" &
done
wait
[ ! -e "$copies/failed" ]
