"""Configurations on README and the pages for readers of the sources are valid and complete, programs print the output that is
shown below them, and each figure of README has its row, with machine and command, on the page of results."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from harness import BINARY, Daemon, limit, run_framed

TOP = pathlib.Path(__file__).resolve().parents[2]
README = TOP / "README.md"
CLIENTS = TOP / "tools/client/README.md"
RESULTS = TOP / "tools/framebench/results/README.md"
pytestmark = [pytest.mark.skipif(not README.exists(), reason="the portable folder has no README"), pytest.mark.memory]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page, count", [(README, 2), (CLIENTS, 2)], ids=["README", "clients"])
def test_configurations_are_valid(place, page, count):
    assert len(blocks(page, "yaml")) == count
    for number, text in enumerate(blocks(page, "yaml")):
        file = place / f"{number}.yaml"
        file.write_text(text)
        (place / "yard").write_text("USER:PASSWORD\n")
        (place / "yard").chmod(0o600)
        done = run_framed("--check", "-c", file, env={"CREDENTIALS_DIRECTORY": str(place), "FRAMED_CAMERA": str(BINARY)})
        assert done.returncode == 0, done.stderr


PYTHON_CLIENT = CLIENTS.with_name("python") / "src"


def prints_what_is_shown(place, program, text):
    shown = CLIENTS.read_text().partition(program + "```\n\n")[2].partition("\n\n")[0]
    with Daemon(place, text=text, before=lambda: os.chdir(place)) as daemon:
        done = subprocess.run([sys.executable, "-c", program], cwd=place, capture_output=True, text=True, check=True,
                              timeout=limit(30), env={**os.environ, "PYTHONPATH": str(PYTHON_CLIENT)})
        assert done.stdout.splitlines() == [line.strip() for line in shown.splitlines()] != []
        daemon.account("numbers", came=3, emitted=3)


def test_programs_print_what_is_shown(place):
    programs, texts = blocks(CLIENTS, "python"), [text for text in blocks(CLIENTS, "yaml") if "numbers.sock" in text]
    assert len(programs) == len(texts) == 2
    for number, (program, text) in enumerate(zip(programs, texts)):
        folder = place / str(number)
        folder.mkdir()
        prints_what_is_shown(folder, program, text)


def test_every_key_and_every_stage_is_there():
    keys, stages = run_framed("--print-manual").stdout.split(".SH STAGES")
    example = (TOP / "config/framed.yaml").read_text()
    keys = re.findall(r"^\\fB(\w+)\\fR: ", keys.partition(".SS pipelines.NAME.sink")[0], re.MULTILINE)  # as for a source
    assert [key for key in keys if len(re.findall(rf"\b{key}:", example)) < keys.count(key)] == []
    listed = README.read_text().partition("The stages there are:")[2].partition(".")[0]
    described = re.findall(r"^\.SS (\w+)$", stages, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == set(described) - {"fault"}


def figures(page):
    """Rows of tables as `framebench report` prints them."""
    return [line for line in page.read_text().splitlines() if re.fullmatch(r"\| .*\| (yes|no) \|", line)]


def test_figures_of_readme_are_on_the_page_of_results():
    assert figures(README) and set(figures(README)) <= set(figures(RESULTS))


def test_what_is_read_first_is_short():
    assert len(README.read_text().splitlines()) <= 250 and len(figures(README)) <= 10
    assert [file for file in RESULTS.parent.rglob("*.json") if file.stat().st_size > 100_000] == []


def test_the_first_screen_names_two_commands():
    first = README.read_text().partition("## A network camera")[0]
    assert len(first.splitlines()) <= 30
    commands = re.findall(r"^    (.*?)(?: +#.*)?$", first, re.MULTILINE) + re.findall(r"`((?:make|framed|framectl) .*?)`", first)
    assert commands == ["make demo", "make check"]


def test_manual_pages_have_each_section_and_option_once():
    for page in sorted((TOP / "packaging/man").glob("*.[1-9]*")):
        lines = page.read_text().splitlines()
        sections = [line for line in lines if line.startswith(".SH ")]
        assert len(sections) == len(set(sections)), (page.name, sections)
        for start in [number for number, line in enumerate(lines) if line.startswith(".SH OPTIONS")]:
            end = next(number for number in range(start + 1, len(lines)) if lines[number].startswith(".SH "))
            options = [lines[n + 1] for n in range(start, end) if lines[n] == ".TP"]
            assert len(options) == len(set(options)), (page.name, options)
