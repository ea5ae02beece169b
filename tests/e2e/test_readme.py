"""README's configurations are valid and complete, and its programs print what README says they print."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness import Daemon, limit, run_framed

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
pytestmark = [pytest.mark.skipif(not README.exists(), reason="the portable folder has no README"), pytest.mark.memory]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


def test_configurations_are_valid(place):
    assert len(blocks("yaml")) == 4
    for number, text in enumerate(blocks("yaml")):
        file = place / f"{number}.yaml"
        file.write_text(text)
        done = run_framed("--check", "-c", file)
        assert done.returncode == 0, done.stderr


PYTHON_CLIENT = README.with_name("tools") / "client/python/src"


def prints_what_is_shown(place, program, text):
    shown = README.read_text().partition(program + "```\n\n")[2].partition("\n\n")[0]
    with Daemon(place, text=text, before=lambda: os.chdir(place)) as daemon:
        done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True, check=True,
                              timeout=limit(30), env={**os.environ, "PYTHONPATH": str(PYTHON_CLIENT)})
        assert done.stdout.splitlines() == [line.strip() for line in shown.splitlines()] != []
        daemon.account("numbers", came=3, emitted=3)


def test_programs_print_what_is_shown(place):
    programs, texts = blocks("python"), [text for text in blocks("yaml") if "numbers.sock" in text]
    assert len(programs) == len(texts) == 2
    for number, (program, text) in enumerate(zip(programs, texts)):
        folder = place / str(number)
        folder.mkdir()
        prints_what_is_shown(folder, program, text)


def test_every_key_and_every_stage_is_there():
    keys, stages = run_framed("--print-manual").stdout.split(".SH STAGES")
    example = next(text for text in blocks("yaml") if "limits:" in text)
    keys = re.findall(r"^\\fB(\w+)\\fR: ", keys.partition(".SS pipelines.NAME.sink")[0], re.MULTILINE)  # as for a source
    assert [key for key in keys if len(re.findall(rf"\b{key}:", example)) < keys.count(key)] == []
    table = README.read_text().partition("| stage |")[2].partition("\n\n")[0]
    shown = {row[0]: row[1] for row in re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", table, re.MULTILINE)}
    described = {text.partition("\n")[0]: text for text in stages.split(".SS ")[1:]}
    assert set(shown) == set(described) - {"fault"}
    for stage, row in shown.items():
        parameters = re.findall(r"^\\fB(\w+)\\fR: .*\n.*?(?:Default: (.*)|Required)\.$", described[stage], re.MULTILINE)
        assert len(parameters) == described[stage].count(".TP")
        for name, default in parameters:
            told = {"0.00392156862745098": "1/255"}.get(default, default)
            assert re.search(rf"`{name}` \(`?{re.escape(told)}\b" if told else f"`{name}`(?! \\()", row), (stage, name, default)
