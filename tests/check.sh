#!/bin/bash
# `make check`: runs every test that needs no GPU, from a clean checkout. The markers in tests/e2e/pytest.ini choose which
# end-to-end tests run where.
cd "$(dirname "$0")/.."
# shellcheck source=tests/steps.sh
. tests/steps.sh check
left_out "and what needs a GPU, 'make check-gpu', and each end-to-end test with both sanitizers, 'make soak'"
[ -n "${NVCC:-}" ] || left_out "no nvcc to build kernels with"

step "build of the check variant" variant check -j2 programs unit-programs
step "release build, warnings are errors" make --no-print-directory -j2 programs

mapfile -t targets < <(find tests/fuzz -name 'fuzz_*.c' -printf '%f\n' | sed 's/^fuzz_//; s/\.c$//' | sort)

# Every test runs without a sanitizer. Half of each file's tests also run with ASan and the other half with TSan, since the tests
# of a file use similar threads and code. Three rows of steps run at a time, since tests mostly wait.
plain() {
  FRAMED_SLOW=3 step "end-to-end tests" end_to_end check 6 '-m "not measures"' || true
  step "unit tests" variant check -j3 -k --output-sync=target unit || true
  step "build of the fuzz targets" variant fuzz -j2 fuzz-programs || return
  FUZZ_JOBS=1 FUZZ_SECONDS=3 step "fuzzing" "${steady[@]}" tests/fuzz/run.sh "${targets[@]}" || true
}

measures_and_services() {
  FRAMED_SLOW=3 step "end-to-end tests that measure" end_to_end check 1 '-m measures' || true
  step "installation" tests/install.sh || true
  step "the unit's sandbox" tests/gpu/sandbox.sh cpu || true
  step "systemd tests" tests/systemd/run.sh || true
  step "package tests" tests/packaging/run.sh || true
}

sanitizers() {
  step "build of the asan variant" variant asan -j2 programs unit-programs || return
  step "unit tests with ASan" variant asan -j3 -k --output-sync=target unit || true
  step "end-to-end tests with ASan" end_to_end asan 6 '--part 0/2 --one-in 5 -m "not (slow or plain or measures or waits or threads)"' || true
  step "build of the tsan variant" variant tsan -j2 programs unit-programs || return
  step "unit tests with TSan" variant tsan -j3 -k --output-sync=target unit || true
  step "end-to-end tests with TSan" end_to_end tsan 6 '--part 1/2 --one-in 5 -m "not (slow or plain or measures or waits or memory)"' || true
}
beside plain measures_and_services sanitizers
again
