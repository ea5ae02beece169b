"""A short directory and a hard time limit for every test."""

import pathlib
import resource
import shutil
import signal
import tempfile
import zlib

import pytest

from harness import limit, side_by_side
from harness.store import Store

LIMIT_S = 60
OPEN_FILES = 16384  # as in the unit of the service


def pytest_addoption(parser):
    parser.addoption("--one-in", type=int, default=1, metavar="N",
                     help="of each test's sets of parameters run about one in N, at least one, and the same ones each time")
    parser.addoption("--part", type=lambda text: tuple(map(int, text.split("/"))), default=(0, 1), metavar="I/N",
                     help="of each file's tests run about one in N, at least one, and others for each I from 0 to N - 1")
    parser.addoption("--processes", type=int, metavar="N", help="run in N processes, each of which takes the next test that none has begun")
    parser.addoption("--failed", type=pathlib.Path, metavar="FOLDER",
                     help="add the names of tests that failed to its file `failed`, a line for each report, and those that a sanitizer "
                     "reported to `certain`")
    parser.addoption("--only", type=pathlib.Path, metavar="FILE", help="run only the tests whose names are lines of the file")


def pytest_configure():
    """Tests that connect a thousand clients need more descriptors than a shell has by default, 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def some(names, chances, turn=0):
    """Of the names about one in so many, at least one, and the same ones each time."""
    names = list(dict.fromkeys(names))
    return [name for name in names if zlib.crc32(name.encode()) % chances == turn] or names[turn % len(names):][:1]


def test_of(name):
    return name.partition("[")[0]


def group(names, key):
    groups = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return groups


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Chooses among those that -k and -m leave."""
    turn, parts = config.getoption("--part")
    only = config.getoption("--only")
    if only:
        kept = set(only.read_text().splitlines())
    else:
        tests = group([item.nodeid for item in items], test_of)
        of_files = group(tests, lambda name: name.partition("::")[0])
        kept = {name for file in of_files.values() for test in some(file, parts, turn) for name in some(tests[test], config.getoption("--one-in"))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Takes the place of pytest's own where several processes are to run the tests."""
    processes = session.config.getoption("--processes")
    if not processes or session.config.option.collectonly or session.testsfailed:
        return None
    side_by_side.run(session, processes)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Notes which tests failed, for a second try without others beside them. What a sanitizer saw once needs no second."""
    report = (yield).get_result()
    folder = item.config.getoption("--failed")
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
