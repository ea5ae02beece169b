"""A daemon killed at a chosen moment under a service manager that keeps what it was given."""

import contextlib
import os
import signal
import time

import pytest

from harness import Background, Producer, Reader, numbered, pipeline, require_whole, wait_until, whole
from harness.injection import KILL, KILL_AFTER, Injection
from harness.store import connections, settle, start

pytestmark = pytest.mark.memory

SIZE = 4096
LARGE = 4 * 1024 * 1024
SLOTS = 3  # at most, of a pipeline that does not say
SOAK = bool(os.environ.get("FRAMED_SOAK"))
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def killed(store, daemon, or_not=False):
    """The process has met what was meant for it, and the next one is there."""
    if or_not:
        store.end(daemon)
    wait_until(lambda: daemon.process.poll() is not None, "it is killed")
    store.heard()
    store.arm(daemon)
    store.start(daemon)
    daemon.wait_ready()


def test_a_fifo_that_was_being_read_gives_no_shifted_frame(place, store):
    """Its writer cannot be cut off, and goes on: not even an upgrade or another kill makes frames of that."""
    os.mkfifo(place / "in")
    daemon = start(place, store, {"cam0": pipeline(FORMAT, source={"file": str(place / "in")})})
    store.arm(daemon, Injection(place, "readv", at=3, error=KILL_AFTER))
    with daemon:
        with daemon.reader() as reader:
            with open(place / "in", "wb", buffering=0) as writer:
                writer.write(whole(0, SIZE).tobytes())
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
                writer.write(whole(1, SIZE).tobytes()[:100])
                killed(store, daemon)
                writer.write(whole(1, SIZE).tobytes()[100:])
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, "it has taken over", 30)
                writer.write(whole(2, SIZE).tobytes() * 100)
                store.kill(daemon)
                writer.write(whole(3, SIZE).tobytes()[:1000])
            daemon.wait_log("closed the FIFO")  # who opens it earlier is for the daemon the same writer
            with open(place / "in", "wb", buffering=0) as writer:
                writer.write(whole(4, SIZE).tobytes())
                assert reader.read(SIZE) == whole(4, SIZE).tobytes()
        daemon.account(came=2, emitted=2)


@pytest.mark.parametrize("reply", [False, True])
def test_who_was_being_read_is_cut_off_and_may_come_again(place, store, reply):
    """The connection is closed, with the frame that had begun, and is counted as lost once."""
    daemon = start(place, store, {"cam0": pipeline(FORMAT, **({"sink": {"reply": True}} if reply else {}))})
    store.arm(daemon, Injection(place, "recvmsg", at=12, error=KILL_AFTER))
    with daemon, contextlib.ExitStack() as others:
        reader = None if reply else others.enter_context(daemon.reader())
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert (reader or producer).read(SIZE) == whole(0, SIZE).tobytes()
            for _ in range(20):
                if daemon.process.poll() is None:
                    producer.send(bytes(100))
                    time.sleep(0.05)
            killed(store, daemon)
            daemon.wait_log("is cut off after 2 frames")
            assert producer.socket.recv(1) == b""
        with daemon.producer() as producer:
            producer.send(whole(1, SIZE).tobytes())
            assert (reader or producer).read(SIZE) == whole(1, SIZE).tobytes()
        daemon.account(came=3, emitted=2, invalid=1)
        assert connections(daemon) == 1


def test_a_torn_file_is_mended_after_two_kills_in_a_row(place, store):
    entry = pipeline(FORMAT, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            daemon.wait_view("it is written", lambda view: view["frames"]["emitted"] == 3)
            for number in range(12):
                store.end(daemon)
                with open(place / "out", "ab") as file:
                    file.write(b"torn")
                store.start(daemon)
                time.sleep(number * 0.002)
                store.kill(daemon)
        assert (place / "out").read_bytes()[:3 * SIZE] == numbered(3, SIZE).tobytes()


def test_what_a_file_held_before_is_left_alone_where_no_result_came(place, store):
    before = numbered(3, SIZE).tobytes()
    (place / "out").write_bytes(before)
    with start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})}) as daemon:
        for _ in range(3):
            store.kill(daemon)
        assert (place / "out").read_bytes() == before
        with daemon.producer() as producer:
            producer.send(whole(3, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            store.kill(daemon)
        assert (place / "out").read_bytes() == before + whole(3, SIZE).tobytes()


def test_a_file_that_somebody_has_emptied_begins_anew(place, store):
    """As what rotates files does, and no result came since."""
    with start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            daemon.account(came=3, emitted=3)
            os.truncate(place / "out", 0)
            store.kill(daemon)
            producer.send(whole(3, SIZE).tobytes())
            daemon.account(came=4, emitted=4)
        assert (place / "out").read_bytes() == whole(3, SIZE).tobytes()


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("reply", [False, True])
def test_a_result_goes_on_at_its_next_byte_after_an_upgrade_and_a_kill(place, store, lanes, reply):
    """The next image of the program has written nothing yet when it is killed."""
    frames = numbered(5, LARGE)
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, sink={"reply": True} if reply else {}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes) as daemon:
        readers = [] if reply else [daemon.reader(), daemon.reader()]
        with daemon.producer() as producer:
            readers = readers or [producer]
            sending = Background(producer.send, frames.tobytes())
            got = [reader.read(LARGE // 2 + 4321 + number * LARGE) for number, reader in enumerate(readers)]
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, "it has taken over", 30)
            settle(daemon)
            store.kill(daemon)
            rests = [Background(reader.read, 5 * LARGE - len(part)) for reader, part in zip(readers, got)]
            assert all(part + rest.join() == frames.tobytes() for part, rest in zip(got, rests))
            sending.join()
        daemon.account(came=5, emitted=5)
        assert "anew" not in daemon.log


class Flow:
    """A producer whose every frame goes into a file, and that comes again when it is cut off."""

    def __init__(self, daemon):
        self.daemon, self.stopped, self.sent = daemon, False, 0
        self.thread = Background(self.run)

    def run(self):
        while not self.stopped:
            try:
                with self.daemon.producer() as producer:
                    while not self.stopped:
                        producer.send(whole(self.sent, SIZE).tobytes())
                        self.sent += 1
                        time.sleep(0.0005)
            except OSError:
                time.sleep(0.005)

    def stop(self):
        self.stopped = True
        self.thread.join()


@pytest.mark.takes(200)
@pytest.mark.parametrize("wait", [0, 30])
def test_a_kill_at_each_word_to_the_manager(place, store, wait):
    """Also where lanes have gone on meanwhile: no start fails, and the file has whole results, each at most once. Each word has
    its turn in long runs, in short ones every second, and the others if the call waits."""
    daemon = start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")}), "cam1": pipeline(FORMAT)})
    with daemon:
        flow = Flow(daemon)
        seen = 0
        at = 0 if SOAK or wait else -1
        met = True
        while met:
            at += 1 if SOAK else 2
            store.end(daemon)
            word = Injection(place, "sendmsg", at=at, error=KILL, wait=wait)
            store.arm(daemon, word)
            store.start(daemon)
            wait_until(lambda: daemon.process.poll() is not None or (store.ready and has_no_more_to_say(word)),
                       "it is killed, or goes on")
            with clients(daemon):
                time.sleep(0.05)
            met = word.happened
            killed(store, daemon, or_not=True)
            seen = require_rising(place / "out", seen)
        assert at > 5
        flow.stop()
        daemon.wait_ready()
    require_rising(place / "out", seen)


def has_no_more_to_say(word):
    before = word.count
    time.sleep(0.1)
    return word.count == before > 0


@contextlib.contextmanager
def clients(daemon):
    """Somebody who comes and goes, which is worth a word."""
    try:
        with Producer(daemon.path("cam1", "source")), Reader(daemon.path("cam1", "sink")):
            yield
    except OSError:
        yield


def require_rising(path, since):
    """Looks at the whole results from there on; returns where the last one of them begins. Those that were not acknowledged before
    a kill are cut off and come again, or not if the next process is killed as well: no more than a pipeline has slots."""
    count = path.stat().st_size // SIZE
    first = min(since // SIZE, max(count - 1, 0))
    assert first >= since // SIZE - SLOTS, f"{count} results are left of more than {since // SIZE}"
    with path.open("rb") as file:
        file.seek(first * SIZE)
        require_whole(file.read((count - first) * SIZE), SIZE)
    return max(count - 1, 0) * SIZE
