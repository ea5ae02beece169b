"""tools/setup.sh on a machine that lacks something, where apt-get and dpkg are made up and install nothing."""

import os
import pathlib
import shutil
import subprocess

import pytest

pytestmark = [pytest.mark.host, pytest.mark.plain]
SETUP = pathlib.Path(__file__).parents[2] / "tools/setup.sh"
STUBS = {
    "dpkg": "test -e installed",
    "apt-cache": "true",
    "apt-get": 'echo "$*" >> asked && touch installed',
    "sudo": 'exec "$@"',
}


def say_backend(**environment):
    return subprocess.run([SETUP, "backend"], env={**os.environ, "NO_CUDA": "", **environment}, capture_output=True, text=True,
                          timeout=30, check=False)


def nvcc_of(tmp_path, version):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.1'\n")
    nvcc.chmod(0o755)
    return str(nvcc)


def test_an_nvcc_that_is_too_old_is_refused(tmp_path):
    assert "nvcc 12.0 found" in say_backend(NVCC=nvcc_of(tmp_path, "12.0")).stdout
    old = nvcc_of(tmp_path, "11.5")
    done = say_backend(NVCC=old)
    assert done.returncode == 1 and "CUDA 11.5" in done.stderr and "NO_CUDA=1" in done.stderr, done
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "NO_CUDA")}
    make = ["make", "-n", "-C", SETUP.parents[1], f"NVCC={old}"]
    for goal, status, said in (("programs", 2, "needs 12.0 or later"), ("help", 0, "")):
        done = subprocess.run([*make, "VARIANT=release", goal], env=inherited, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == status and said in done.stderr, done


@pytest.mark.parametrize("release, said", [
    ("ID=debian\nVERSION_ID='12'", ""), ("ID=debian", ""), ("ID=ubuntu\nVERSION_ID='22.04'", ""), ("ID=fedora\nVERSION_ID=1", ""),
    ("ID=ubuntu\nVERSION_ID='26.04'", ""), ("ID=debian\nVERSION_ID='11'", "debian 12 or later"),
    ("ID=ubuntu\nVERSION_ID='20.04'", "ubuntu 22.04 or later"),
])
def test_a_system_that_is_too_old_is_named(tmp_path, release, said):
    (tmp_path / "release").write_text(release + "\n")
    done = say_backend(NVCC=nvcc_of(tmp_path, "13.0"), OS_RELEASE=str(tmp_path / "release"))
    assert done.returncode == 0 and ("setup: this is" in done.stdout) == bool(said) and said in done.stdout, done


def test_packages_are_built_with_what_debian_takes_for_granted(tmp_path):
    stubs = tmp_path / "stubs"
    for folder in (stubs, tmp_path / "tools"):
        folder.mkdir()
    shutil.copy(SETUP, tmp_path / "tools")
    for name, script in (STUBS | dict.fromkeys(("dpkg-buildpackage", "dh", "dh_python3"), "true")).items():
        (stubs / name).write_text(f"#!/bin/sh\n{script}\n")
        (stubs / name).chmod(0o755)
    done = subprocess.run([tmp_path / "tools/setup.sh", "deb"], env={**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"},
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert "installing build-essential (" in done.stdout
    assert (tmp_path / "asked").read_text().splitlines()[-1].endswith("install --no-install-recommends build-essential")
