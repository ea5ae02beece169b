#!/bin/bash
# Builds the packages, lets lintian look at them, and has them installed, used, upgraded and removed under a real systemd
# on a throw-away root, where that can be done.
set -euo pipefail
cd "$(dirname "$0")/../.."

DEBFULLNAME='Who builds' DEBEMAIL=builder@framed.example make --no-print-directory deb
for package in build/deb/*.deb; do
  maintainer=$(dpkg-deb -f "$package" Maintainer)
  if [ "$maintainer" != 'Who builds <builder@framed.example>' ]; then
    echo "$package names another maintainer than who builds it: $maintainer" >&2
    exit 1
  fi
done
complaints=$(lintian build/deb/*.changes 2>&1 | grep -v 'running with root privileges' || true)
if [ -n "$complaints" ]; then
  printf 'lintian complains:\n%s\n' "$complaints" >&2
  exit 1
fi
echo "lintian: nothing to complain about"
exec tests/systemd/run.sh --packages build/deb "$@"
