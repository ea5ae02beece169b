"""framectl top on terminals: what it shows, and that it leaves nothing behind."""

import os
import shutil
import signal
import subprocess

import pytest

from harness import FRAMECTL, Daemon, pipeline, wait_until
from harness.terminal import Terminal
from test_framectl import FORMAT, framectl

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


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_top_in_a_real_terminal_leaves_it_clean(place):
    """tmux interprets every escape sequence: what is shown is text in columns, and the shell's screen comes back."""
    tmux = ["tmux", "-S", str(place / "tmux"), "-f", "/dev/null"]

    def screen():
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False).stdout

    with Daemon(place, {"front": pipeline(FORMAT)}) as daemon:
        subprocess.run([*tmux, "new-session", "-d", "-x", "100", "-y", "24", "sh"], check=True)
        try:
            command = f"echo before; {FRAMECTL} -s {daemon.socket} top; echo status=$?"
            subprocess.run([*tmux, "send-keys", command, "Enter"], check=True)
            wait_until(lambda: "front" in screen() and "before" not in screen(), lambda: f"top is shown: {screen()}")
            subprocess.run([*tmux, "send-keys", "q"], check=True)
            wait_until(lambda: "status=0" in screen() and "before" in screen(), lambda: f"the shell is back: {screen()}")
        finally:
            subprocess.run([*tmux, "kill-server"], check=False)
