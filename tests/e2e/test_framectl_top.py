"""framectl top on terminals: what it shows, and that it leaves nothing behind."""

import itertools
import os
import shutil
import signal
import subprocess

import pytest

from harness import FRAMECTL, Daemon, pipeline, wait_until
from harness.terminal import Terminal
from test_framectl import FORMAT, SIZE, framectl

pytestmark = pytest.mark.host


def test_top_shows_pipelines_and_ends_at_q(place):
    with Daemon(place, {"front": pipeline(FORMAT), "rear": pipeline(FORMAT)}) as daemon:
        with Terminal(FRAMECTL, "-s", daemon.socket, "top") as terminal:
            terminal.shows(b"front")
            terminal.shows(b"rear")
            os.write(terminal.master, b"?")
            terminal.shows(b"FPS, bytes and latencies are of the last ten seconds")
            os.write(terminal.master, b"?")
            for size in ((5, 20), (1, 1), (50, 200)):  # also where there is hardly any room
                terminal.resize(*size)
                terminal.read()
            os.write(terminal.master, b"q")
            assert terminal.ends() == 0


def test_top_survives_the_end_of_its_daemon(place):
    with Daemon(place, {"front": pipeline(FORMAT)}) as daemon:
        with Terminal(FRAMECTL, "-s", daemon.socket, "top") as terminal:
            terminal.shows(b"front")
            daemon.finish()
            terminal.read()
            os.write(terminal.master, b"q")
            assert terminal.ends() is not None


def test_top_ends_at_q_although_its_daemon_stands_still(place):
    """Also after a key that asks the daemon for something: that it does not answer is said, and waited for no longer."""
    with Daemon(place, {"front": pipeline(FORMAT)}) as daemon:
        with Terminal(FRAMECTL, "-s", daemon.socket, "top") as terminal:
            terminal.shows(b"front")
            os.kill(daemon.process.pid, signal.SIGSTOP)
            try:
                os.write(terminal.master, b" ")
                terminal.shows(b"does not answer")
                os.write(terminal.master, b"q")
                assert terminal.ends() == 0
            finally:
                os.kill(daemon.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["dumb", "nonesuch", ""], ids=repr)
def test_top_on_a_terminal_that_it_cannot_draw_on_is_an_error(place, kind):
    with Daemon(place, {"front": pipeline(FORMAT)}) as daemon:
        with Terminal("env", f"TERM={kind}", FRAMECTL, "-s", daemon.socket, "top") as terminal:
            terminal.shows(b"set TERM to the kind of this terminal")
            assert terminal.ends() == 64 and b"PIPELINE" not in terminal.screen


def test_top_without_a_terminal_is_an_error(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}):
        done = framectl(place, "top", input="")
        assert done.returncode != 0 and "terminal" in done.stderr, done


class Tmux:
    """A shell in a real terminal: tmux interprets every escape sequence, and says what is to be seen."""

    def __init__(self, place, columns=100, rows=24):
        self.tmux = ["tmux", "-S", str(place / "tmux"), "-f", "/dev/null"]
        # Without the LINES and COLUMNS of readline in this process, which os.environ does not show.
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows), "sh"], check=True, env=dict(os.environ))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        subprocess.run([*self.tmux, "kill-server"], check=False)

    def keys(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False).stdout

    def wait(self, condition, what):
        wait_until(lambda: condition(self.screen()), lambda: f"{what}: {self.screen()}")


needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@needs_tmux
def test_top_in_a_real_terminal_leaves_it_clean(place):
    """What is shown is text in columns, and the shell's screen comes back."""
    with Daemon(place, {"front": pipeline(FORMAT)}) as daemon, Tmux(place) as tmux:
        tmux.keys(f"echo before; {FRAMECTL} -s {daemon.socket} top; echo status=$?", "Enter")
        tmux.wait(lambda screen: "front" in screen and "before" not in screen, "top is shown")
        tmux.keys("q")
        tmux.wait(lambda screen: "status=0" in screen and "before" in screen, "the shell is back")


def names(screen):
    """The pipelines in the table, from top to bottom."""
    return [line.split()[0] for line in itertools.takewhile(str.strip, screen.splitlines()[2:])]


def labels(screen):
    """What lines begin with, which no figure changes."""
    return [line.split()[:1] for line in screen.splitlines()]


@needs_tmux
def test_top_sorts_filters_and_opens_a_row(place):
    entries = {name: pipeline(FORMAT) for name in ("cam10", "cam2", "cam1")}
    entries["cam2"]["source"]["expect"] = "100ms"
    with Daemon(place, entries) as daemon, daemon.reader("cam1") as reader, Tmux(place, columns=120, rows=16) as tmux:
        with daemon.producer("cam1") as producer:
            producer.send(bytes(SIZE * 3))
            reader.read(SIZE * 3)
            tmux.keys(f"{FRAMECTL} -s {daemon.socket} top", "Enter")
            tmux.wait(lambda screen: names(screen) == ["cam1", "cam2", "cam10"], "by name, with numbers as such")
            tmux.wait(lambda screen: "degraded: 1 reason" in screen and "silent" in screen and "LAST ERROR" in screen,
                      "why a pipeline does not do its job")
            tmux.keys("r")
            tmux.wait(lambda screen: names(screen) == ["cam10", "cam2", "cam1"], "the other way round")
            tmux.keys("Right")
            tmux.wait(lambda screen: names(screen) == ["cam1", "cam10", "cam2"], "by state: running, running, silent")
            tmux.keys("/", "CAM1", "Enter")
            tmux.wait(lambda screen: names(screen) == ["cam1", "cam10"] and "2 of 3: CAM1" in screen, "what the filter leaves")
            tmux.keys("Escape")
            tmux.wait(lambda screen: len(names(screen)) == 3, "all again")
            tmux.keys("/", "silent", "Enter", "Escape", "/", "nothing like it", "Enter")
            tmux.wait(lambda screen: "none of 3 pipelines has 'nothing like it'" in screen, "no row")
            tmux.keys("Escape", "Up", "Up", "Enter")
            tmux.wait(lambda screen: "cam1: running" in screen and "enter close" in screen, "it is open")
            seen = set(tmux.screen().split())
            while "CONFIGURATION" not in seen:
                page = labels(tmux.screen())
                tmux.keys("PageDown")
                tmux.wait(lambda screen: labels(screen) != page, "the next page")
                seen |= set(tmux.screen().split())
            assert {"FRAMES", "emitted", "STEP", "producer", "python3"} <= seen, seen
            tmux.keys("Escape")
            tmux.wait(lambda screen: len(names(screen)) == 3, "it is closed")
            tmux.keys("q")


@needs_tmux
@pytest.mark.parametrize("columns, shows, hides", [(40, "FPS IN", "FPS OUT"), (80, "DROPPED", "WAITS FOR"), (140, "LAST ERROR", "?")])
def test_top_shows_the_columns_that_fit(place, columns, shows, hides):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon, Tmux(place, columns=columns) as tmux:
        tmux.keys(f"{FRAMECTL} -s {daemon.socket} top", "Enter")
        tmux.wait(lambda screen: "PIPELINE" in screen and "cam0" in screen, "top is shown")
        heading, row = tmux.screen().splitlines()[1:3]
        assert "STATE" in heading and shows in heading and hides not in heading and row.split()[:2] == ["cam0", "running"], heading
        assert max(map(len, tmux.screen().splitlines())) <= columns
        tmux.keys("q")
