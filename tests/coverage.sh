#!/bin/bash
# Prints the lines of daemon/, config/ and gpu/ (without CUDA files) that the unit and end-to-end tests reach.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
make=(make --no-print-directory NO_CUDA=1 VARIANT=coverage)
"${make[@]}" -j2 programs unit-programs
find build/coverage -name '*.gcda' -delete
"${make[@]}" unit
"${make[@]}" e2e
gcovr --root . --object-directory build/coverage --filter 'daemon/' --filter 'config/' --filter 'gpu/' \
  --exclude 'gpu/cuda' --exclude-unreachable-branches --txt build/coverage/lines.txt --html-details build/coverage/index.html \
  --fail-under-line 85 --print-summary build/coverage || status=$?
cat build/coverage/lines.txt
echo "each line: build/coverage/index.html"
exit "${status:-0}"
