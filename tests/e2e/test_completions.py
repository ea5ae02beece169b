"""Completions: the options that they offer are those that each command takes, no more and no fewer."""

import pathlib
import re
import subprocess

import pytest

from harness import BINARY, FRAMECTL, Daemon, environment, limit, pipeline

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "packaging/completions"
if not FOLDER.exists():
    pytest.skip("the portable folder has no completions", allow_module_level=True)
pytestmark = [pytest.mark.host, pytest.mark.plain]

COMMANDS = {"framectl": "status health watch metrics top reload upgrade device drain pause resume check push pull trace plan doctor models stages try camera"
                        " record replay repair".split(),
            "framebench": "limits overlap stages model daemon transport scale load report".split()}
ALWAYS = {"framectl": {"-s", "--socket", "-h", "--help"}, "framebench": {"--help"}}
FORMAT = {"dtype": "uint8", "shape": [16]}


def program(name):
    return FRAMECTL if name == "framectl" else BINARY.with_name(name)


def offered(name, *words):
    """What bash offers for the last of the words."""
    script = f'. {FOLDER}/{name}.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _{name}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    paths = f"{pathlib.Path(program(name)).parent}:/usr/bin:/bin"
    done = subprocess.run(["/bin/bash", "-c", script, "bash", name, *map(str, words)], capture_output=True, text=True,
                          env={**environment(), "PATH": paths}, timeout=limit(20), check=True)
    assert not done.stderr, done
    return set(done.stdout.split())


def taken(name, command):
    """The options of a command as its help has them."""
    done = subprocess.run([program(name), command, "--help"], capture_output=True, text=True, env=environment(), timeout=limit(20),
                          check=True)
    usage = done.stdout.split("\n\n")[0] if name == "framectl" else done.stdout
    return set(re.findall(r"(?<![\w-])--[a-z0-9-]+", usage)) - {"--help"}


def test_commands_are_all_there():
    for name, commands in COMMANDS.items():
        told = subprocess.run([program(name), "--help"], capture_output=True, text=True, env=environment(), check=True).stdout
        assert set(commands) == set(re.findall(r"^  ([a-z]+)\b", told, re.M)) - {"help"}, name
        assert set(commands) <= offered(name, "")


@pytest.mark.parametrize("name,command", [(name, command) for name in COMMANDS for command in COMMANDS[name] if command != "report"])
def test_options_are_those_of_the_command(name, command):
    short = {"-o"} if command in ("trace", "camera") else {"-i", "-o"} if command == "try" else {"-s"} if command == "load" else set()
    assert offered(name, command, "-") == taken(name, command) | short | ALWAYS[name]
    described = set(re.findall(r"--[a-z0-9][a-z0-9-]*", (FOLDER / f"{name}.zsh").read_text()))
    assert taken(name, command) <= described


@pytest.mark.parametrize("name", ["framed", "framed-link"])
def test_options_of_the_daemon_and_the_link(name):
    if not program(name).exists():
        pytest.skip("it was built without libnats-dev")
    told = subprocess.run([program(name), "--help"], capture_output=True, text=True, env=environment(), check=True).stdout
    options = set(re.findall(r"(?<!\w)--[a-z-]+", told))
    assert offered(name, "-") == options | {"-c"}
    assert options <= set(re.findall(r"--[a-z-]+", (FOLDER / f"{name}.zsh").read_text()))


@pytest.mark.parametrize("words", [("status", ""), ("pull", "--frames", 5, ""), ("plan", "--from", ""), ("push", "fr")], ids=str)
def test_pipelines_are_those_of_the_daemon(place, words):
    with Daemon(place, {"front": pipeline(FORMAT), "rear": pipeline(FORMAT)}) as daemon:
        names = {name for name in offered("framectl", "-s", daemon.socket, *words) if not name.startswith("-")}
        assert names == ({"front"} if words[-1] == "fr" else {"front", "rear"})
