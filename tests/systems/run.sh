#!/bin/bash
# Runs README's commands on each system that README names, and prints a line for each: `make check-systems`.
#
#   tests/systems/run.sh [SYSTEM]...       default: debian-12 debian-13 ubuntu-22.04 ubuntu-24.04
#
# mmdebstrap makes a small root of each system, once, as build/systems/SYSTEM.tar. A copy of it gets the files of HEAD. There an
# ordinary user with sudo runs `make demo` and `make quick`; on Debian 12 first `make portable`, on Ubuntu 24.04 also a build with
# Ubuntu's own CUDA toolkit.
# The copy runs in new namespaces for mounts and processes, so no mount or process remains at its end. Needs root, or sudo.
#
# Variables:
#   DEBIAN_MIRROR, UBUNTU_MIRROR  where packages come from
#   PASS      names of further variables that the commands inside get; those of proxies and pip are always passed
#   STEPS     which of the steps "portable demo quick check cuda" to run, in this order; default: all but check
#   KEEP=1    keeps the copy in build/systems/SYSTEM
#
# The copy uses this machine's certificate authorities, since it reaches the mirrors through the same network.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
debian=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
ubuntu=${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}
folder=$PWD/build/systems
keyrings=/usr/share/keyrings
all=(debian-12 debian-13 ubuntu-22.04 ubuntu-24.04)
passed=(http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_TRUSTED_HOST)

die() {
  echo "check-systems: $*" >&2
  exit 2
}

root=()
[ "$(id -u)" = 0 ] || root=(sudo)

# Debian 12 has no package of Ubuntu's keys. Debian 13 has such a package, signed with Debian's own keys.
fetch_ubuntu_keys() {
  local apt=$folder/keys options
  mkdir -p "$apt"/{lists/partial,archives/partial}
  touch "$apt/status"
  echo "deb [signed-by=$keyrings/debian-archive-keyring.gpg] $debian trixie main" >"$apt/sources.list"
  options=(-qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$apt"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  (cd "$apt" && apt-get "${options[@]}" download ubuntu-keyring)
  dpkg-deb -x "$apt"/ubuntu-keyring_*.deb "$apt/unpacked"
  mv "$apt/unpacked$keyrings/ubuntu-archive-keyring.gpg" "$folder/"
  rm -rf "$apt"
}

ubuntu_keys() { # prints the file with Ubuntu's keys
  local file
  for file in $keyrings/ubuntu-archive-keyring.gpg "$folder/ubuntu-archive-keyring.gpg"; do
    [ ! -s "$file" ] || break
  done
  [ -s "$file" ] || fetch_ubuntu_keys >&2
  echo "$file"
}

# Prints the list of sources for mmdebstrap.
sources() { # SYSTEM
  case $1 in
    debian-12) printf "deb $debian %s main\n" bookworm bookworm-updates ;;
    debian-13) printf "deb $debian %s main\n" trixie trixie-updates ;;
    ubuntu-22.04) printf "deb $ubuntu %s main universe\n" jammy jammy-updates jammy-security ;;
    ubuntu-24.04) printf "deb $ubuntu %s main universe multiverse\n" noble noble-updates noble-security ;; # multiverse: CUDA
    *) return 1 ;;
  esac
}

make_root() { # SYSTEM
  local keys=$keyrings/debian-archive-keyring.gpg suite
  [ ! -s "$folder/$1.tar" ] || return 0
  [ "${1%-*}" = debian ] || keys=$(ubuntu_keys)
  suite=$(sources "$1" | awk '{print $3; exit}')
  # The packages that README installs first, and those of every machine with users.
  sources "$1" | "${root[@]}" mmdebstrap --format=tar --variant=apt --keyring="$keys" --include=ca-certificates,git,make,passwd,sudo \
    --dpkgopt=force-unsafe-io "$suite" "$folder/$1.tar.new" -
  mv "$folder/$1.tar.new" "$folder/$1.tar"
}

variables() { # those of `passed` and PASS that are set, as NAME=VALUE
  local name
  # shellcheck disable=SC2086 # a list of names
  for name in "${passed[@]}" ${PASS:-}; do
    [ -z "${!name+set}" ] || printf '%s\0' "$name=${!name}"
  done
}

steps_of() { # SYSTEM
  local step
  for step in ${STEPS:-portable demo quick cuda}; do
    case "$step $1" in
      "portable debian-12" | "cuda ubuntu-24.04") ;;
      portable* | cuda*) continue ;;
    esac
    echo "$step"
  done
}

noted() { # KIND SYSTEM: prints the steps' notes of that kind, with commas
  sed -n "s/^$1 //p" "$folder/$2.notes" | awk '{ printf "%s%s", (NR > 1 ? ", " : ""), $0 }'
}

# Prints the line of a system: facts, and each step with its result.
say() { # SYSTEM SECONDS
  local facts passed failed step
  facts=$(noted fact "$1") passed=$(noted passed "$1") failed=$(noted failed "$1")
  for step in $(steps_of "$1"); do
    grep -qE "^(passed|failed) $step" "$folder/$1.notes" || failed="${failed:+$failed, }$step (not run)"
  done
  echo "$1: ${facts:-no system}: ${passed:+passed: $passed; }${failed:+FAILED: $failed, see build/systems/$1.log; }$2 s"
  [ -z "$failed" ] && [ -n "$passed" ]
}

# Runs in the background, so that this script handles signals at once.
check_system() { # SYSTEM
  local begun=$SECONDS
  : >"$folder/$1.notes"
  variables >"$folder/$1.environment"
  if make_root "$1" >"$folder/$1.log" 2>&1; then
    # shellcheck disable=SC2016 # for the inner shell
    "${root[@]}" sh -c 'echo $$ >"$1/$2.running"; exec unshare --mount --pid --ipc --uts --fork --kill-child --propagation private \
      tests/systems/enter.sh "$@"' sh "$folder" "$1" "$(steps_of "$1" | paste -sd' ')" >>"$folder/$1.log" 2>&1 &
    wait $! || true
  fi
  clean_up "$1"
  say "$1" $((SECONDS - begun))
}

# The first process of a namespace takes all others with it. unshare itself heeds no other signal.
clean_up() { # SYSTEM
  [ ! -s "$folder/$1.running" ] || "${root[@]}" kill -KILL "$(cat "$folder/$1.running")" 2>/dev/null || true
  "${root[@]}" rm -f "$folder/$1.running"
  [ -n "${KEEP:-}" ] || "${root[@]}" rm -rf "${folder:?}/$1"
}

systems=("$@")
[ $# -gt 0 ] || systems=("${all[@]}")
for system in "${systems[@]}"; do sources "$system" >/dev/null || die "there is no system '$system': ${all[*]}"; done
command -v mmdebstrap >/dev/null || die "mmdebstrap is not here (Debian, Ubuntu: apt install mmdebstrap)"
"${root[@]}" unshare --mount --pid --fork true || die "namespaces for mounts and processes need root, on a machine or in a container that may mount"
mkdir -p "$folder"
git archive HEAD >"$folder/framed.tar"
trap 'clean_up "$system"; exit 130' INT TERM
status=0
for system in "${systems[@]}"; do check_system "$system" || status=1; done
exit $status
