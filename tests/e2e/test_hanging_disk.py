"""A disk that does not answer holds up nobody but the pipeline whose file lies there: no upgrade, no reload, no end."""

import contextlib
import os
import signal
import subprocess
import time

import pytest

from harness import Daemon, limit, numbered, pace, pipeline, wait_until, whole
from harness.injection import REST, REST_EACH, UNTIL_TOLD, Injection
from harness.store import leave, settle, start
from harness.stream import FORMAT, SIZE, Stream

pytestmark = pytest.mark.host

KEYS = {"lanes": 1, "drain_timeout": "200ms"}
CALLS = {"sink": "pwrite64", "source": "pread64"}


def entries(place, end):
    """A pipeline whose file hangs, at one of its ends, and one that has nothing to do with it."""
    (place / "in").write_bytes(numbered(100, SIZE).tobytes())
    path = {"file": str(place / "out")} if end == "sink" else {"file": str(place / "in"), "rate": 1000}
    return {"cam0": pipeline(FORMAT, slots=3, **{end: path}), "other": pipeline(FORMAT)}


@contextlib.contextmanager
def hanging(place, end="sink", **keys):
    """A daemon with a request to the file of cam0 that is not answered until it is told to go on, and what tells it."""
    injection = Injection(place, CALLS[end], at=1, error=REST, wait=UNTIL_TOLD)
    with Daemon(place, entries(place, end), env=injection.environment, **{**KEYS, **keys}) as daemon:
        daemon.leaves_frames = True
        with contextlib.ExitStack() as clients:
            if end == "sink":
                clients.enter_context(daemon.producer()).send(numbered(2, SIZE).tobytes())
            wait_until(lambda: injection.happened, "the request is under way")
            time.sleep(pace(0.7))  # until it counts as one that hangs
            yield daemon, injection.go_on


@contextlib.contextmanager
def streaming(daemon):
    """Frames go through the other pipeline, none of which is lost; and what sees that they still do."""
    stream = Stream(daemon, "other")
    def moves():
        before = daemon.frames("other")["emitted"]
        daemon.wait_view("frames move", lambda view: view["frames"]["emitted"] > before + 10, "other")
    yield moves
    stream.end()


def without(daemon, name):
    daemon.write({other: entry for other, entry in daemon.config["pipelines"].items() if other != name}, **KEYS)


def stops_soon(daemon, drain_timeout):
    """However long the disk takes. What hangs has no final account that balances."""
    daemon.final_account = lambda name=None: None
    asked = time.monotonic()
    daemon.signal(signal.SIGTERM)
    daemon.ends(0)
    assert time.monotonic() - asked < limit(drain_timeout + 5)


@pytest.mark.parametrize("end", ["sink", "source"])
def test_an_upgrade_is_refused_at_once(place, end):
    """And everything goes on as it was: the other pipeline all the time, and this one when its disk answers."""
    with hanging(place, end) as (daemon, go_on), streaming(daemon) as moves:
        code, answer = daemon.post("/v1/upgrade")
        assert code == 409 and f"'{place}/{'out' if end == 'sink' else 'in'}'" in answer["error"], answer
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: daemon.log.count("no upgrade, the running program goes on") == 2, lambda: f"refused:\n{daemon.log}")
        moves()
        go_on()
        if end == "sink":
            daemon.account(came=2, emitted=2)
            assert (place / "out").read_bytes() == numbered(2, SIZE).tobytes()
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, lambda: f"taken over:\n{daemon.log}")
            moves()


def test_a_request_that_takes_its_time_does_not_keep_an_upgrade_away(place):
    injection = Injection(place, "pwrite64", at=1, error=REST, wait=200)
    with Daemon(place, entries(place, "sink"), env=injection.environment) as daemon, daemon.producer() as producer:
        producer.send(numbered(2, SIZE).tobytes())
        wait_until(lambda: injection.happened, "the request is under way")
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, lambda: f"taken over:\n{daemon.log}")
        daemon.account(came=2, emitted=2)


@pytest.mark.parametrize("end", ["sink", "source"])
@pytest.mark.parametrize("twice", [False, True])
def test_sigterm_ends_all_the_same(place, end, twice):
    with hanging(place, end, drain_timeout="60s" if twice else "200ms") as (daemon, _):
        if twice:
            daemon.signal(signal.SIGTERM)
            daemon.wait_log("finishing what is in flight")
        with daemon.producer("other") if not twice else contextlib.nullcontext() as producer:
            stops_soon(daemon, 0.2)
            assert producer is None or producer.socket.recv(1) == b""
        assert "does not answer" in daemon.log and daemon.log.count("cam0: stopped") == daemon.log.count("other: stopped") == 1


@pytest.mark.parametrize("end", ["sink", "source"])
def test_a_reload_removes_the_pipeline(place, end):
    """Its end is said when its disk answers. Until then neither a later reload nor the end waits for it."""
    with hanging(place, end) as (daemon, go_on), streaming(daemon) as moves:
        before = daemon.config["pipelines"]["cam0"]
        without(daemon, "cam0")
        assert daemon.command("/v1/reload")["removed"] == ["cam0"]
        daemon.wait_log("does not answer")
        assert "cam0" not in daemon.status()["pipelines"] and "cam0: stopped" not in daemon.log
        daemon.write({**daemon.config["pipelines"], "third": pipeline(FORMAT)}, **KEYS)
        assert daemon.command("/v1/reload")["added"] == ["third"]
        daemon.write({**daemon.config["pipelines"], "cam0": before}, **KEYS)
        code, answer = daemon.post("/v1/reload")
        assert code == 500 and "does not answer" in answer["error"], answer
        assert daemon.post("/v1/upgrade")[0] == 409
        moves()
        go_on()
        daemon.wait_log("cam0: stopped")
        daemon.command("/v1/reload")
        assert daemon.view()["state"] == "running"
        moves()


def test_sigterm_after_such_a_reload(place):
    with hanging(place) as (daemon, _):
        without(daemon, "cam0")
        daemon.command("/v1/reload")
        stops_soon(daemon, 0.2)


def test_a_reload_that_would_need_the_file_is_refused(place):
    with hanging(place) as (daemon, go_on):
        changed = {**daemon.config["pipelines"], "cam0": pipeline(FORMAT, slots=2, sink={"file": str(place / "out")})}
        daemon.write(changed, **KEYS)
        code, answer = daemon.post("/v1/reload")
        assert code == 500 and f"'{place}/out'" in answer["error"], answer
        assert daemon.view()["state"] == "running"
        go_on()
        daemon.account(came=2, emitted=2)


def test_a_reload_leads_to_another_file(place):
    with hanging(place) as (daemon, go_on), streaming(daemon) as moves:
        daemon.write({**daemon.config["pipelines"], "cam0": pipeline(FORMAT, sink={"file": str(place / "good")})},
                     **KEYS)
        assert daemon.command("/v1/reload")["changed"] == ["cam0"]
        with daemon.producer() as producer:
            producer.send(whole(7, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
        assert (place / "good").read_bytes() == whole(7, SIZE).tobytes()
        moves()
        go_on()
        daemon.wait_log("cam0: stopped")


def test_many_files_on_that_disk(place):
    """Each keeps a thread waiting, of those that read all files and that reload."""
    names = [f"cam{number}" for number in range(6)]
    injection = Injection(place, "pwrite64", at=1, error=REST_EACH, wait=UNTIL_TOLD)
    files = {name: pipeline(FORMAT, sink={"file": str(place / name)}) for name in names}
    (place / "in").write_bytes(numbered(100, SIZE).tobytes())
    reads = pipeline(FORMAT, source={"file": str(place / "in"), "rate": 1000, "loop": True})
    daemon = Daemon(place, {**files, "other": reads}, env=injection.environment, **KEYS)
    with daemon, contextlib.ExitStack() as clients:
        for name in names:
            clients.enter_context(daemon.producer(name)).send(whole(0, SIZE).tobytes())
        wait_until(lambda: injection.count == len(names), "each has a request under way")
        with daemon.reader("other") as reader:
            assert reader.read(100 * SIZE) == numbered(100, SIZE).tobytes()
        for name in names:
            without(daemon, name)
        assert daemon.command("/v1/reload")["removed"] == names
        injection.go_on()
        wait_until(lambda: all(f"{name}: stopped" in daemon.log for name in names), lambda: f"all end:\n{daemon.log}")
        daemon.leaves_frames = True
        daemon.settled = True


def test_a_stop_that_another_process_follows_leaves_it_all_but_that_pipeline(place, store):
    """Which begins anew there; everybody else goes on."""
    injection = Injection(place, "pwrite64", at=1, error=REST, wait=UNTIL_TOLD)
    with start(place, store, entries(place, "sink"), **KEYS) as daemon:
        store.arm(daemon, injection)
        settle(daemon)
        store.kill(daemon)
        with daemon.reader("other") as reader, daemon.producer("other") as other, daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            wait_until(lambda: injection.happened, "the request is under way")
            other.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            leave(store, daemon, True)
            assert store.noted() and "does not answer: it begins anew" in daemon.log, daemon.log
            assert producer.socket.recv(1) == b""
            store.arm(daemon)
            store.start(daemon)
            daemon.wait_ready()
            other.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()
            (place / "out").unlink()
        with daemon.producer() as producer:
            producer.send(whole(7, SIZE).tobytes())
            daemon.account(came=1, emitted=1)


@pytest.fixture
def frozen(place):
    """A file system, and what freezes and thaws it."""
    image, disk = place / "image", place / "disk"
    disk.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    def run(*command):
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0
    if os.geteuid() != 0 or not run("mkfs.ext4", "-q", image) or not run("mount", "-o", "loop", image, disk):
        pytest.skip("no file system can be mounted here")
    try:
        if not run("fsfreeze", "-f", disk) or not run("fsfreeze", "-u", disk):
            pytest.skip("no file system can be frozen here")
        yield disk, lambda: run("fsfreeze", "-f", disk), lambda: run("fsfreeze", "-u", disk)
    finally:
        run("fsfreeze", "-u", disk)
        run("umount", "-l", disk)


def test_a_thread_that_the_kernel_does_not_let_go(place, frozen):
    """As with a real disk: the process cannot go before that, but nobody else sees that it is there."""
    disk, freeze, thaw = frozen
    entry = pipeline(FORMAT, sink={"file": str(disk / "out")})
    with Daemon(place, {"cam0": entry, "other": pipeline(FORMAT)}, **KEYS) as daemon:
        with daemon.producer() as producer, daemon.reader("other") as reader:
            producer.send(whole(0, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            freeze()
            producer.send(whole(1, SIZE).tobytes())
            daemon.wait_view("it is written", lambda view: view["frames"]["in"] == 2)
            time.sleep(pace(0.7))
            assert daemon.post("/v1/upgrade")[0] == 409
            daemon.signal(signal.SIGTERM)
            assert producer.socket.recv(1) == b"" and reader.rest() == b""
            daemon.wait_log("does not answer: the daemon ends without it")
            wait_until(lambda: not any(os.path.exists(path) for path in daemon.socket_paths()), "its sockets are gone")
            assert daemon.process.poll() is None
        daemon.final_account = lambda name=None: None
        thaw()
        daemon.ends(0)


def test_a_reload_that_opens_a_file_there(place, frozen):
    """Nobody knows beforehand that it hangs. It keeps neither frames from moving nor the daemon from ending."""
    disk, freeze, thaw = frozen
    with Daemon(place, {"other": pipeline(FORMAT)}, **KEYS) as daemon:
        freeze()
        with streaming(daemon) as moves:
            daemon.write({"other": pipeline(FORMAT), "cam0": pipeline(FORMAT, sink={"file": str(disk / "out")})}, **KEYS)
            daemon.signal(signal.SIGHUP)
            time.sleep(pace(0.7))
            moves()
        daemon.signal(signal.SIGTERM)
        daemon.wait_log("a file that is being opened does not answer: the daemon ends without it")
        thaw()
        daemon.ends(0)
