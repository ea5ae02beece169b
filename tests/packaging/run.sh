#!/bin/bash
# Builds the packages, lets lintian look at them, and has them installed, used, upgraded and removed under a real systemd
# on a throw-away root, where that can be done.
set -euo pipefail
cd "$(dirname "$0")/../.."

make --no-print-directory deb
complaints=$(lintian build/deb/*.changes 2>&1 | grep -v 'running with root privileges' || true)
if [ -n "$complaints" ]; then
  printf 'lintian complains:\n%s\n' "$complaints" >&2
  exit 1
fi
echo "lintian: nothing to complain about"
exec tests/systemd/run.sh --packages build/deb "$@"
