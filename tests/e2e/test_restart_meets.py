"""An orderly restart under a service manager that keeps what it was given, while something else is not over."""

import errno
import fcntl
import os
import pathlib
import signal
import socket
import stat
import struct
import termios

import pytest

from harness import BACKEND, Client, fault_stage, native, pipeline, slow_stage, wait_until, whole
from harness.injection import REST, UNTIL_TOLD, Injection
from harness.store import Store, connections, copy, leave, settle, start

pytestmark = pytest.mark.host

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def shifted(offset, **keys):
    """More than the stages differ from that of another offset, so that a reload replaces the pipeline."""
    return pipeline(FORMAT, stages=[{"affine": {"scale": 1.0, "offset": offset}}], spin_for=f"{200 + offset}us", **keys)


def prepared(store, daemon, call, at, **what):
    """The daemon was killed, and the next one has what is to befall it at its first such calls from `at` on."""
    injection = Injection(daemon.place, call, at=at, **what)
    store.arm(daemon, injection)
    settle(daemon)
    store.kill(daemon)
    settle(daemon)  # calls are counted, and some come when it is ready
    return injection


def goes_through(producer, reader, number):
    producer.send(whole(number, SIZE).tobytes())
    assert reader.read(SIZE) == whole(number, SIZE).tobytes()


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_reload_that_prepares_for_longer_than_frames_are_given(place, store, lanes):
    """It is given up, and everybody goes on with the next process: in the old configuration, and then in the new one."""
    def entries(offset):
        return {"cam0": pipeline(FORMAT), "cam1": shifted(offset)}
    with start(place, store, entries(1), lanes=lanes, drain_timeout="200ms") as daemon:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            counting = prepared(store, daemon, "memfd_create", at=0)
            before = counting.count
            injection = prepared(store, daemon, "memfd_create", at=before + 1, error=REST, wait=2000)
            goes_through(producer, reader, 0)
            daemon.write(entries(2), lanes=lanes, drain_timeout="200ms")
            daemon.signal(signal.SIGHUP)
            wait_until(lambda: injection.happened, "the reload prepares")
            store.arm(daemon)
            leave(store, daemon, True)
            assert store.noted(), daemon.log
            store.start(daemon)
            daemon.wait_ready()
            goes_through(producer, reader, 1)
        daemon.wait_log("configuration reloaded")
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(bytes(SIZE))
            assert reader.read(SIZE) == bytes([2]) * SIZE
        assert "anew" not in daemon.log and connections(daemon) == 0


def make_late(store, daemon, of="reader", sink=None, version=1, **cam0):
    """Reloads until one cannot start cam1 yet, which cannot watch that socket; the version of it that is to come. It may start
    two seconds later: whoever has looked too late does it again."""
    counting = prepared(store, daemon, "epoll_ctl", at=0)
    at, state = counting.count + (of == "producer") + 1, "running"
    while state == "running":
        injection = prepared(store, daemon, "epoll_ctl", at=at, error=errno.ENOSPC)
        version += 1
        daemon.write({"cam0": pipeline(FORMAT, **cam0), "cam1": shifted(version, sink=sink)})
        code, answer = daemon.post("/v1/reload")
        at += code == 200
        state = daemon.view("cam1")["state"]
    assert injection.happened and "tried every two seconds" in answer["remedy"] and of in answer["error"], answer
    assert state == "starting"
    store.arm(daemon)
    return version


def comes_out_as(daemon, version):
    daemon.wait_view("it runs", lambda view: view["state"] == "running", "cam1")
    with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
        producer.send(bytes(SIZE))
        assert reader.read(SIZE) == bytes([version]) * SIZE


@pytest.mark.parametrize("orderly", [True, False])
def test_a_pipeline_that_a_reload_could_not_start_yet(place, store, orderly):
    """It begins in the next process, and costs nobody a connection."""
    with start(place, store, {"cam0": pipeline(FORMAT), "cam1": shifted(1)}) as daemon:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            version = make_late(store, daemon)
            leave(store, daemon, orderly)
            store.start(daemon)
            daemon.wait_ready()
            goes_through(producer, reader, 0)
        comes_out_as(daemon, version)
        assert "anew" not in daemon.log and connections(daemon) == 0


def test_an_upgrade_does_not_meet_a_pipeline_that_has_not_started(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT), "cam1": shifted(1)}) as daemon:
        version, code = 1, 200
        for _ in range(3):
            if code == 200:
                version = make_late(store, daemon, version=version)
                code, answer = daemon.post("/v1/upgrade")
        assert code == 409 and "a pipeline has not started" in answer["error"], answer
        comes_out_as(daemon, version)
        daemon.command("/v1/upgrade")
        comes_out_as(daemon, version)


def test_a_reload_that_is_refused_holds_up_no_pipeline_that_has_not_started(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT), "cam1": shifted(1)}) as daemon:
        version = make_late(store, daemon)
        path = pathlib.Path(daemon.path("cam1", "sink"))
        away = path.rename(path.with_suffix(".away"))
        daemon.write({"cam0": pipeline(FORMAT), "cam1": shifted(version + 1)})
        assert daemon.post("/v1/reload")[0] == 400
        away.rename(path)
        comes_out_as(daemon, version)


def test_a_fault_meets_a_pipeline_that_has_not_started_at_a_socket_of_the_manager(place, store):
    """It begins in the next image at that socket, which stays where it is when nobody wants it any more."""
    fails = {"stages": [fault_stage("illegal", at=2)]}
    daemon = start(place, store, {"cam0": pipeline(FORMAT, **fails), "cam1": shifted(1)})
    path = pathlib.Path(daemon.path("cam1", "source"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        store.kept.append(("cam1", copy(listener.fileno())))
    store.pass_on(daemon)
    with daemon:
        version = make_late(store, daemon, **fails)
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            for number in range(2):
                goes_through(producer, reader, number)
            producer.send(whole(2, SIZE).tobytes())
            daemon.wait_view("it is given up", lambda view: view["frames"]["dropped"]["gpu_fault"] == 1)
        comes_out_as(daemon, version)
        daemon.write({"cam0": pipeline(FORMAT, **fails)})
        daemon.command("/v1/reload")
        assert path.is_socket()


def restart_with_a_failure(folder, at):
    """Whether the next process could not watch a socket of cam1 either, its call number `at` being that one."""
    with Store(folder) as store, start(folder, store, {"cam0": pipeline(FORMAT), "cam1": shifted(1)}) as daemon:
        version = make_late(store, daemon)
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            leave(store, daemon, True)
            before = len(daemon.log)
            store.arm(daemon, Injection(folder, "epoll_ctl", at=at, error=errno.ENOSPC))
            store.start(daemon)
            wait_until(lambda: store.ready, lambda: f"it is ready:\n{daemon.log}")
            store.arm(daemon)
            meets = "cam1: it still cannot start" in daemon.log[before:]
            if meets:
                goes_through(producer, reader, 0)
        if meets:
            comes_out_as(daemon, version)
            assert "anew" not in daemon.log and connections(daemon) == 0
    return meets


@pytest.mark.takes(60)
def test_a_pipeline_that_still_cannot_start_costs_nobody_a_connection(place):
    for turn in range(21):  # the lane watches clients meanwhile, so that the call may have another number the next time
        folder = place / f"{turn}"
        folder.mkdir()
        if restart_with_a_failure(folder, 1 + turn % 7):
            return
    raise AssertionError("no call watches a socket of cam1")


@pytest.mark.parametrize("orderly", [True, False])
def test_who_reads_from_a_pipeline_that_has_not_started_stays(place, store, orderly):
    """Whether the service restarts or the device of another pipeline fails."""
    fails = {"stages": [fault_stage("illegal", at=2)]}
    with start(place, store, {"cam0": pipeline(FORMAT, **fails), "cam1": shifted(1)}) as daemon:
        version = make_late(store, daemon, "producer", **fails)
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer, daemon.reader("cam1") as early:
            daemon.wait_view("it waits for what is to come", lambda view: view["readers"] == 1, "cam1")
            for number in range(2):
                goes_through(producer, reader, number)
            if orderly:
                leave(store, daemon, True)
                store.start(daemon)
                daemon.wait_ready()
            else:
                producer.send(whole(2, SIZE).tobytes())
                daemon.wait_view("it is given up", lambda view: view["frames"]["dropped"]["gpu_fault"] == 1)
            daemon.wait_view("it runs", lambda view: view["state"] == "running", "cam1")
            with daemon.producer("cam1") as other:
                other.send(bytes(SIZE))
                assert early.read(SIZE) == bytes([version]) * SIZE
        assert "anew" not in daemon.log


def unread(client):
    """What of its bytes the daemon has not taken yet; 0: nothing."""
    return struct.unpack("i", fcntl.ioctl(client.socket, termios.TIOCOUTQ, bytes(4)))[0]


@pytest.mark.parametrize("orderly", [True, False])
def test_who_is_being_greeted_at_a_pipeline_that_has_not_started_stays(place, store, orderly):
    """It has said half of its HELLO, and the rest goes to the next process."""
    fails, said = {"stages": [fault_stage("illegal", at=0)]}, native.hello(native.CONSUMER)
    sink = {"protocol": "native"}
    with start(place, store, {"cam0": pipeline(FORMAT, **fails), "cam1": shifted(1, sink=sink)}) as daemon:
        version = make_late(store, daemon, "producer", sink, **fails)
        with daemon.producer("cam0") as producer, Client(daemon.path("cam1", "sink")) as early:
            early.send(said[:20])
            wait_until(lambda: unread(early) == 0, "it was heard")
            if orderly:
                leave(store, daemon, True)
                store.start(daemon)
                daemon.wait_ready()
            else:
                producer.send(whole(0, SIZE).tobytes())
                daemon.wait_view("it is given up", lambda view: view["frames"]["dropped"]["gpu_fault"] == 1)
            daemon.wait_view("it runs", lambda view: view["state"] == "running", "cam1")
            early.send(said[20:])
            assert early.read(16 + 256)[4] == native.WELCOME
            with daemon.producer("cam1") as other:
                other.send(bytes(SIZE))
                assert early.read(16 + 80 + SIZE)[-SIZE:] == bytes([version]) * SIZE
        assert "anew" not in daemon.log


def test_a_kill_while_what_a_reload_has_removed_leaves_the_store(place, store):
    """The next process goes on without it, and brings it back where the file has changed back."""
    entries = {"cam0": pipeline(FORMAT), "cam1": shifted(1)}
    with start(place, store, entries) as daemon:
        counting = prepared(store, daemon, "sendmsg", at=0)
        settle(daemon)
        injection = prepared(store, daemon, "sendmsg", at=counting.count + 2, error=REST, wait=UNTIL_TOLD)  # after that it reloads
        daemon.write({"cam0": pipeline(FORMAT)})
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("cam1: stopped")
        wait_until(lambda: injection.happened, "it begins to say what has changed")
        store.arm(daemon)
        store.end(daemon)
        daemon.write(entries)
        store.start(daemon)
        daemon.wait_ready()
        wait_until(lambda: "cam1" in daemon.status()["pipelines"], "the file is looked at")
        comes_out_as(daemon, 1)
        assert "anew" not in daemon.log


@pytest.mark.parametrize("before, order, after", [("running", "pause", "paused"), ("paused", "resume", "running")])
def test_a_kill_right_after_an_answer_while_a_reload_exchanges_pipelines(place, store, before, order, after):
    """Which waits for a frame on the device. The next process knows what was answered."""
    def entries(slots):
        slow = pipeline(FORMAT, slots=slots, stages=[slow_stage(4000)])
        return {"cam0": pipeline(FORMAT), "slow": slow}
    keys = {"drain_timeout": "50ms", "gpu": {"backend": BACKEND, "timeout": "20s"}}
    with start(place, store, entries(1), **keys) as daemon:
        if before == "paused":
            daemon.command("/v1/pipelines/cam0/pause")
        with daemon.producer("slow") as producer:
            producer.send(bytes(SIZE))
            daemon.wait_view("it is on the device", lambda view: view["frames"]["in"] == 1, "slow")
            daemon.write(entries(2), **keys)
            daemon.signal(signal.SIGHUP)
            daemon.wait_log("was disconnected")
        assert daemon.view("cam0")["state"] == before and "slow: stopped" not in daemon.log
        assert daemon.post(f"/v1/pipelines/cam0/{order}")[0] == 200
        store.end(daemon)
        store.start(daemon)
        daemon.wait_ready()
        assert daemon.view("cam0")["state"] == after and "anew" not in daemon.log


def test_a_reload_that_has_begun_to_give_sockets_other_rights(place, store):
    """Where the next process does not get that far with it, they are as they were."""
    def entries(mode, offset):
        return {"cam0": pipeline(FORMAT), "cam1": shifted(offset, source={"mode": mode}, sink={"mode": mode})}
    with start(place, store, entries("0666", 1)) as daemon:
        def rights():
            return [stat.S_IMODE(os.stat(daemon.path("cam1", end)).st_mode) for end in ("source", "sink")]
        counting = prepared(store, daemon, "chmod", at=0)
        injection = prepared(store, daemon, "chmod", at=counting.count + 2, error=REST, wait=UNTIL_TOLD)
        daemon.write(entries("0600", 2))
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: injection.happened, "the sink's socket is to have them")
        assert rights() == [0o600, 0o666]
        store.arm(daemon)
        store.end(daemon)
        daemon.write(entries("0666", 1))
        store.start(daemon)
        daemon.wait_ready()
        assert rights() == [0o666, 0o666]
        assert "anew" not in daemon.log


def test_a_socket_of_somebody_else_keeps_its_rights(place, store):
    """Who has put it where the daemon's was meanwhile; the pipeline goes on with those who are connected."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer, socket.socket(socket.AF_UNIX) as other:
            goes_through(producer, reader, 0)
            settle(daemon)
            store.end(daemon)
            path = pathlib.Path(daemon.path("cam0", "source"))
            path.unlink()
            other.bind(str(path))
            other.listen()
            path.chmod(0o640)
            store.start(daemon)
            daemon.wait_ready()
            goes_through(producer, reader, 1)
            assert stat.S_IMODE(path.stat().st_mode) == 0o640
            daemon.wait_log("in use by another process")


def test_no_socket_is_left_of_a_reload_that_an_end_met(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT)}, drain_timeout="200ms") as daemon:
        before = prepared(store, daemon, "listen", at=0).count
        injection = prepared(store, daemon, "listen", at=before + 1, error=REST, wait=4000)
        daemon.write({"cam0": pipeline(FORMAT), "cam1": shifted(1)}, drain_timeout="200ms")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: injection.happened, "the reload makes sockets")
        made = {pathlib.Path(daemon.path("cam1", end)) for end in ("source", "sink")}
        assert any(path.exists() for path in made)
        store.arm(daemon)
        leave(store, daemon, True)
        assert not any(path.exists() for path in made)
        daemon.write({"cam0": pipeline(FORMAT)}, drain_timeout="200ms")
        store.start(daemon)
        daemon.wait_ready()
        assert "anew" not in daemon.log and not any(path.exists() for path in made)
