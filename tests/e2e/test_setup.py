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
