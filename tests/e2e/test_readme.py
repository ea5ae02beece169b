"""README's configurations are valid, and its program prints what README says it prints."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness import Daemon, limit, run_framed

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
pytestmark = pytest.mark.skipif(not README.exists(), reason="the portable folder has no README")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_configurations_are_valid(place):
    assert len(blocks("yaml")) == 3
    for number, text in enumerate(blocks("yaml")):
        file = place / f"{number}.yaml"
        file.write_text(text)
        done = run_framed("--check", "-c", file)
        assert done.returncode == 0, done.stderr


def test_the_program_prints_what_is_shown(place):
    (program,) = blocks("python")
    shown = re.search(r"```\n\n((?:    \[.*\]\n)+)", README.read_text()).group(1)
    text = next(text for text in blocks("yaml") if "numbers.sock" in text)
    with Daemon(place, text=text, before=lambda: os.chdir(place)) as daemon:
        done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True,
                              timeout=limit(30), check=True)
        assert done.stdout == shown.replace("    ", "")
        daemon.account("numbers", came=3, emitted=3)
