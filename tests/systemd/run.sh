#!/bin/bash
# Boots a real systemd as PID 1 in new namespaces, on a temporary overlay over this machine's root. Installs framed there, and
# runs tests/systemd/test_*.py as a unit. When that unit ends, PID 1 ends.
#
#   tests/systemd/run.sh [--packages FOLDER] [PYTEST ARGUMENTS]
#
# With --packages it runs tests/packaging/test_*.py instead, which install the packages in FOLDER.
#
# PID 1 sees only the units that boot() puts into its search path, so no unit of this machine starts. If this is not possible
# (no root, no cgroup v2, no overlay), it prints the reason and skips the tests.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
python=${PYTHON:-/usr/bin/python3}

skip() {
  echo "systemd tests: left out: $*"
  exit 0
}

# -- on the machine: checks, a cgroup, and the end ---------------------------------------------------------------------

find_cgroup_root() {
  awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts
}

outside() {
  [ "$(id -u)" = 0 ] || skip "they need root"
  [ -x /lib/systemd/systemd ] || skip "there is no systemd on this machine"
  local root
  root=$(find_cgroup_root)
  [ -n "$root" ] || skip "there is no cgroup v2"
  unshare --mount --pid --fork --ipc --uts --net --cgroup true 2>/dev/null || skip "namespaces are not allowed here"

  report=$(mktemp -d)
  cgroup=$root/framed-test-$$
  trap clean_up EXIT
  mkdir "$cgroup" 2>/dev/null || skip "the cgroup hierarchy cannot be written"
  printf '#!/bin/sh\nFRAMED_SOAK=%s FRAMED_PACKAGES=%s exec %s -m pytest %s -q -rs -p no:cacheprovider %s\n' "${FRAMED_SOAK:-}" "$packages" "$python" "$tests" "$*" >"$report/command"
  chmod +x "$report/command"

  local status=0
  (
    echo "$BASHPID" >"$cgroup/cgroup.procs"
    exec timeout --kill-after=5 "$([ -n "${FRAMED_SOAK:-}" ] && echo 1800 || echo 600)" unshare --mount --pid --fork --ipc --uts --net --cgroup --kill-child \
      "$source/tests/systemd/run.sh" --boot "$report" "$packages"
  ) >"$report/boot" 2>&1 || status=$?
  if [ -e "$report/skip" ]; then skip "$(cat "$report/skip")"; fi
  if [ ! -s "$report/output" ]; then
    echo "systemd tests: PID 1 did not come as far as the tests (status $status):" >&2
    cat "$report/boot" >&2
    exit 1
  fi
  cat "$report/output"
  return $status
}

clean_up() {
  for _ in $(seq 50); do
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [ -d "$cgroup" ] || break
    sleep 0.1
  done
  rm -rf "$report"
}

# -- inside the namespaces, as PID 1, until systemd takes its place ------------------------------------------------------

boot() {
  report=$1 packages=$2
  mount --make-rprivate /
  place=$report/place
  mkdir "$place"
  mount -t tmpfs tmpfs "$place"
  mkdir "$place"/{installed,upper,work,root}
  [ -n "$packages" ] || make --no-print-directory DESTDIR="$place/installed" PREFIX=/usr install >/dev/null
  mount -t overlay overlay -o "lowerdir=$place/installed:/,upperdir=$place/upper,workdir=$place/work" "$place/root" ||
    { echo "overlay mounts are not allowed here" >"$report/skip"; exit 1; }
  cd "$place/root"
  mount --rbind /dev dev
  mount -t proc proc proc
  mount -t sysfs sysfs sys
  mount -t cgroup2 cgroup2 sys/fs/cgroup ||
    { echo "cgroup v2 cannot be mounted here" >"$report/skip"; exit 1; }
  for folder in run tmp var/log var/tmp; do mount -t tmpfs tmpfs "$folder"; done
  mkdir -p run/lock run/framed-report run/framed-source run/framed-units
  mount --bind "$report" run/framed-report
  mount --bind "$source" run/framed-source
  echo 00000000000000000000000000000001 >etc/machine-id

  cp "$source"/tests/systemd/units/* run/framed-units/
  units=(basic.target sockets.target shutdown.target systemd-journald.service systemd-journald.socket
    systemd-journald-dev-log.socket)
  if [ -n "$packages" ]; then
    # dpkg has its way: no policy of a container's against starting services, no manual pages to index.
    rm -f usr/sbin/policy-rc.d var/lib/man-db/auto-update
    searched=/run/framed-units:/etc/systemd/system:/lib/systemd/system
    copy_units
    mount -t tmpfs tmpfs usr/lib/systemd/system
    mount -t tmpfs tmpfs etc/systemd/system
  else
    systemd-sysusers --root="$PWD" framed.conf
    searched=/run/framed-units
    units+=(framed.service framed@.socket)
    copy_units
  fi
  mkdir -p run/systemd/journald.conf.d
  printf '[Journal]\nReadKMsg=no\n' >run/systemd/journald.conf.d/test.conf
  hostname framed-test
  pivot_root . mnt
  umount -l /mnt
  exec env -i container=framed-test SYSTEMD_UNIT_PATH=$searched PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=framed-test.target --log-target=null --show-status=no
}

copy_units() {
  for unit in "${units[@]}"; do cp "usr/lib/systemd/system/$unit" run/framed-units/; done
}

packages='' tests=tests/systemd
if [ "${1:-}" = --boot ]; then
  boot "$2" "$3"
else
  if [ "${1:-}" = --packages ]; then
    packages=/run/framed-source/$2 tests=tests/packaging
    shift 2
  fi
  outside "$@"
fi
