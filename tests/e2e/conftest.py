"""A short directory and a hard time limit for every test."""

import pathlib
import shutil
import signal
import tempfile
import zlib

import pytest

from harness import limit
from harness.store import Store

LIMIT_S = 60


def pytest_addoption(parser):
    parser.addoption("--one-in", type=int, default=1, metavar="N",
                     help="of each test's sets of parameters run about one in N, at least one, and the same ones each time")
    parser.addoption("--but-one-in", type=int, metavar="N", help="run those that --one-in N leaves out")
    parser.addoption("--share", type=pathlib.Path, metavar="FOLDER",
                     help="run only what no other process has begun that was given the same folder; its file `failed` gets the names of tests "
                     "that failed, a line for each report, and `certain` those that a sanitizer reported")
    parser.addoption("--only", type=pathlib.Path, metavar="FILE", help="run only the tests whose names are lines of the file")


def pytest_collection_modifyitems(config, items):
    chosen, others = {}, config.getoption("--but-one-in")
    chances = others or config.getoption("--one-in")
    for item in items:
        chosen.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = {item for sets in chosen.values()
            for item in [one for one in sets if zlib.crc32(one.nodeid.encode()) % chances == 0] or sets[:1]}
    if others:
        kept = set(items) - kept
    only = config.getoption("--only")
    if only:
        named = only.read_text().splitlines()
        kept = {item for item in items if item.nodeid in named}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def begin(folder, number):
    """Whether this process is the first to begin that test."""
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Processes that share their tests take one after the other, each the next that none has begun."""
    folder = session.config.getoption("--share")
    if not folder or session.config.option.collectonly or session.testsfailed:
        return None
    mine = (item for number, item in enumerate(session.items) if begin(folder, number))
    item = next(mine, None)
    while item:
        following = next(mine, None)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Notes which tests failed, for a second try without others beside them. What a sanitizer saw once needs no second."""
    report = (yield).get_result()
    folder = item.config.getoption("--share")
    if folder and report.failed:
        certain = "Sanitizer" in f"{report.longrepr}{report.sections}"
        with open(folder / ("certain" if certain else "failed"), "a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\n")


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
