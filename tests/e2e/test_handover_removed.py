"""A hand-over after somebody has removed or moved files that the daemon has open: the next process goes by their names again."""

import os
import signal

import pytest

from harness import Background, Daemon, numbered, pipeline, read_y4m, wait_until, whole
from harness.store import connections, leave, settle, start

pytestmark = pytest.mark.host

SIZE = 4096
FORMAT = {"pixels": "gray", "width": 64, "height": SIZE // 64}
HAND_OVERS = ["kill", "restart", "upgrade"]


def hand_over(store, daemon, what):
    settle(daemon)
    if what == "upgrade":
        before = daemon.status()["handovers"]["upgrade"]
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: daemon.status()["handovers"]["upgrade"] > before, lambda: f"it takes over:\n{daemon.log}")
    else:
        leave(store, daemon, what == "restart")
        store.start(daemon)
    daemon.wait_ready()


def goes_through(producer, reader, number):
    producer.send(whole(number, SIZE).tobytes())
    assert reader.read(SIZE) == whole(number, SIZE).tobytes()


@pytest.mark.parametrize("what", HAND_OVERS)
def test_a_socket_is_there_again(place, store, what):
    with start(place, store, {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}) as daemon:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            goes_through(producer, reader, 0)
            for path in daemon.socket_paths():
                os.unlink(path)
            settle(daemon)
            if what == "upgrade":  # nobody can be asked
                daemon.signal(signal.SIGUSR2)
                daemon.wait_log("everything goes on")
            else:
                leave(store, daemon, what == "restart")
                store.start(daemon)
            daemon.wait_ready()
            goes_through(producer, reader, 1)
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            goes_through(producer, reader, 0)
        assert "anew" not in daemon.log and connections(daemon) == 0


@pytest.mark.parametrize("protocol", ["raw", "y4m"])
@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("what", HAND_OVERS)
def test_results_go_to_a_new_file(place, store, what, moved, protocol):
    entry = pipeline(FORMAT, sink={"file": str(place / "out"), "protocol": protocol})
    with start(place, store, {"cam0": entry}) as daemon, daemon.producer() as producer:
        producer.send(numbered(2, SIZE).tobytes())
        daemon.account(came=2, emitted=2)
        before = (place / "out").read_bytes()
        os.rename(place / "out", place / "old")
        if not moved:
            os.unlink(place / "old")
        for number in (2, 3):  # the second process finds the new one in its place
            hand_over(store, daemon, what)
            daemon.wait_log("results go into a new file")
            producer.send(whole(number, SIZE).tobytes())
            daemon.account(came=number + 1, emitted=number + 1)
        assert "anew" not in daemon.log and connections(daemon) == 0
    assert not moved or (place / "old").read_bytes() == before
    got = (place / "out").read_bytes()
    frames = read_y4m(got, SIZE)[1].tobytes() if protocol == "y4m" else got
    assert frames == numbered(2, SIZE, first=2).tobytes()


def test_results_go_on_into_the_old_file_where_there_is_no_new_one_to_be_had(place, store):
    """What is in its place holds no whole results, or is no file."""
    entry = pipeline(FORMAT, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry}) as daemon, daemon.producer() as producer:
        os.rename(place / "out", place / "old")
        (place / "out").write_bytes(b"of somebody else")
        hand_over(store, daemon, "restart")
        daemon.wait_log("results still go into the old one")
        assert "ends within a result" in daemon.log, daemon.log
        os.unlink(place / "out")
        (place / "out").mkdir()
        hand_over(store, daemon, "restart")
        producer.send(whole(0, SIZE).tobytes())
        daemon.account(came=1, emitted=1)
    assert (place / "old").read_bytes() == whole(0, SIZE).tobytes()


@pytest.mark.parametrize("what", HAND_OVERS)
@pytest.mark.parametrize("made", [os.mkfifo, os.mkdir])
def test_results_go_on_into_a_file_whose_name_is_that_of_something_else(place, store, what, made):
    entries = {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")}), "cam1": pipeline(FORMAT)}
    with start(place, store, entries) as daemon, daemon.producer() as producer:
        with daemon.reader("cam1") as other, daemon.producer("cam1") as beside:
            os.rename(place / "out", place / "old")
            made(place / "out")
            hand_over(store, daemon, what)
            goes_through(beside, other, 0)
            producer.send(whole(0, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            assert "anew" not in daemon.log and connections(daemon) == 0
    assert (place / "old").read_bytes() == whole(0, SIZE).tobytes()


@pytest.mark.parametrize("what", HAND_OVERS)
def test_who_reads_from_a_fifo_goes_on_though_it_has_no_name_any_more(place, store, what):
    os.mkfifo(place / "out")
    entry = pipeline(FORMAT, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry}) as daemon, daemon.producer() as producer:
        with open(place / "out", "rb", buffering=0) as reader:
            for number in range(2):
                producer.send(whole(number, SIZE).tobytes())
                assert reader.read(SIZE) == whole(number, SIZE).tobytes()
                daemon.account(came=number + 1, emitted=number + 1)
                if number == 0:
                    os.unlink(place / "out")
                    hand_over(store, daemon, what)


@pytest.mark.parametrize("what", HAND_OVERS)
def test_a_fifo_that_was_made_anew_is_read(place, store, what):
    """Nobody writes to the old one, and who opens the new one would wait for ever."""
    os.mkfifo(place / "in")
    entry = pipeline(FORMAT, source={"file": str(place / "in")}, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry}) as daemon:
        for number in range(3):
            writing = Background((place / "in").write_bytes, whole(number, SIZE).tobytes())
            daemon.account(came=number + 1, emitted=number + 1)
            writing.join()
            daemon.wait_view("its writer has left", lambda view: view["sessions"] == 0)
            os.unlink(place / "in")
            os.mkfifo(place / "in")
            hand_over(store, daemon, what)
    assert (place / "out").read_bytes() == numbered(3, SIZE).tobytes()


def test_a_number_of_a_descriptor_is_no_name(place):
    """Who starts the daemon opens the files, and it has other descriptors of these numbers when it has executed itself."""
    names = [f"cam{number}" for number in range(12)]
    files = {name: open(place / name, "wb") for name in names}
    entries = {name: pipeline(FORMAT, sink={"file": f"/dev/fd/{files[name].fileno()}"}) for name in names}
    with Daemon(place, entries, inherits=[file.fileno() for file in files.values()]) as daemon:
        producers = {name: daemon.producer(name) for name in names}
        for number in range(3):
            for name in names:
                producers[name].send(whole(number, SIZE).tobytes())
                daemon.account(name, came=number + 1, emitted=number + 1)
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] > number, lambda: f"it takes over:\n{daemon.log}")
        for producer in producers.values():
            producer.close()
    for name in names:
        files[name].close()
        assert (place / name).read_bytes() == numbered(3, SIZE).tobytes()
