#!/bin/bash
# `make quick`, for developers: builds, and runs the unit tests with and without ASan, and each end-to-end test with some of its
# sets of parameters.
cd "$(dirname "$0")/.."
# shellcheck source=tests/steps.sh
. tests/steps.sh quick

left_out "and what only 'make check' runs"

step "build of the check variant" variant check -j2 programs unit-programs

release() {
  step "release build" nice -n 5 make --no-print-directory -j2 programs || true # no step waits for this build
}
unit_tests() {
  step "build of the unit tests with ASan" variant asan -j2 unit-programs || return
  # The comparison of stages takes five times as long with a sanitizer.
  step "unit tests" variant check -j3 -k --output-sync=target unit run-parity || true
  step "unit tests with ASan" variant asan -j3 -k --output-sync=target unit-rooms || true
}
end_to_end_tests() {
  # Of many sets of parameters, some are enough here.
  FRAMED_SLOW=3 step "end-to-end tests" end_to_end check 10 '--one-in 3 -m "not (slow or measures)"' \
    "slow, measures, or another set of parameters" || true
}
beside release unit_tests end_to_end_tests
again
