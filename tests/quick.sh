#!/bin/bash
# What `make quick` runs, for whoever works on it: the build, the unit tests with and without ASan, and each end-to-end test once.
cd "$(dirname "$0")/.."
# shellcheck source=tests/steps.sh
. tests/steps.sh quick

left_out "and what only 'make check' runs"

step "release build" make --no-print-directory -j2 programs
step "build of the check variant" variant check -j2 programs unit-programs
step "build of the unit tests with ASan" variant asan -j2 unit-programs

unit_tests() {
  step "unit tests" variant check -j3 -k --output-sync=target unit || true
  step "unit tests with ASan" variant asan -j3 -k --output-sync=target unit || true
}
end_to_end_tests() {
  FRAMED_SLOW=2 step "end-to-end tests" end_to_end check 6 '-m "not (slow or measures)"' "slow, or measures" || true
}
beside unit_tests end_to_end_tests
again
