"""A short directory and a hard time limit for every test."""

import pathlib
import shutil
import signal
import tempfile

import pytest

from harness import limit
from harness.store import Store

LIMIT_S = 60


@pytest.fixture(autouse=True)
def time_limit(request):
    """Ends a test that hangs, with the place where it hung."""
    marker = request.node.get_closest_marker("takes")
    seconds = limit(marker.args[0] if marker else LIMIT_S)

    def give_up(_number, _frame):
        raise TimeoutError(f"{request.node.name} took more than {seconds:g} s")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def say(capsys):
    """Prints figures that are of interest when all is well, too."""
    def past_capture(text):
        with capsys.disabled():
            print(f"\n{text}")
    return past_capture


@pytest.fixture
def place():
    """A directory whose path leaves room for socket names within sun_path."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="framed-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def store(place):
    """A service manager with a descriptor store."""
    with Store(place) as kept:
        yield kept
