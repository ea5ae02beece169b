#!/bin/bash
# Every test that needs no GPU, from a clean checkout: what `make check` runs. The markers in tests/e2e/pytest.ini choose which
# end-to-end tests run where.
cd "$(dirname "$0")/.."
# shellcheck source=tests/steps.sh
. tests/steps.sh check
left_out "and what needs a GPU, 'make check-gpu'"
[ -n "${NVCC:-}" ] || left_out "no nvcc to build kernels with"

step "release build, warnings are errors" make --no-print-directory -j2 programs
for name in check asan tsan; do
  step "build of the $name variant" variant "$name" -j2 programs unit-programs
done
step "build of the fuzz targets" variant fuzz -j2 fuzz-programs
step "what end-to-end tests there are" variant check e2e PYTEST=--collect-only
step "installation" tests/install.sh || true
step "the unit's sandbox" tests/gpu/sandbox.sh cpu || true

mapfile -t targets < <(find tests/fuzz -name 'fuzz_*.c' -printf '%f\n' | sed 's/^fuzz_//; s/\.c$//' | sort)

# Of tests with many sets of parameters some will do with a sanitizer, since their threads and most of their ways are the same.
sanitized='"not (slow or plain or measures or waits or threads)"'

threads_and_services() {
  step "unit tests with TSan" variant tsan -j3 -k --output-sync=target unit || true
  step "end-to-end tests with TSan" end_to_end tsan 3 '--one-in 10 -m "not (slow or plain or measures or waits or memory)"' || true
  FUZZ_JOBS=1 FUZZ_SECONDS=3 step "fuzzing" "${steady[@]}" tests/fuzz/run.sh "${targets[@]}" || true
  step "systemd tests" tests/systemd/run.sh || true
  step "package tests" tests/packaging/run.sh || true
  FRAMED_SLOW=2 step "end-to-end tests that measure" end_to_end check 1 '-m measures' || true
}

memory_and_the_rest() {
  step "unit tests with ASan" variant asan -j3 -k --output-sync=target unit || true
  step "end-to-end tests with ASan" end_to_end asan 3 "--one-in 5 -m $sanitized" || true
  FRAMED_SLOW=2 step "end-to-end tests with other parameters" end_to_end check 4 "--but-one-in 5 -m $sanitized" || true
  FRAMED_SLOW=2 step "the rest of the end-to-end tests" end_to_end check 4 '-m "(slow or plain or waits or threads) and not measures"' || true
  step "unit tests" variant check -j3 -k --output-sync=target unit || true
}
beside threads_and_services memory_and_the_rest
again
