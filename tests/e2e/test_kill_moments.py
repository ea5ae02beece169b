"""A daemon killed at a chosen moment under a service manager that keeps what it was given."""

import contextlib
import errno
import itertools
import os
import select
import signal
import time

import pytest

from harness import Background, Producer, Reader, limit, numbered, pipeline, require_whole, wait_until, whole
from harness.injection import KILL, KILL_AFTER, Injection
from harness.store import Store, connections, leave, settle, start

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
            wait_until(lambda: open_again(daemon, place / "in"), "it waits for the next writer")
            with open(place / "in", "wb", buffering=0) as writer:
                writer.write(whole(4, SIZE).tobytes())
                assert reader.read(SIZE) == whole(4, SIZE).tobytes()
        daemon.account(came=2, emitted=2)


def open_again(daemon, fifo):
    """Nothing is left in it, and the daemon has it open."""
    left = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return not select.select([left], [], [], 0)[0]
    finally:
        os.close(left)


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
            store.kill(daemon)
            rests = [Background(reader.read, 5 * LARGE - len(part)) for reader, part in zip(readers, got)]
            assert all(part + rest.join() == frames.tobytes() for part, rest in zip(got, rests))
            sending.join()
        daemon.account(came=5, emitted=5)
        assert "anew" not in daemon.log


# -- before the next process has touched anything ------------------------------------------------------------------------


def dies_at(place, store, daemon, call, at, error=KILL):
    """Starts the next process, which is killed at that call. False: it is ready instead."""
    store.arm(daemon, Injection(place, call, at=at, error=error))
    store.start(daemon)
    wait_until(lambda: daemon.process.poll() is not None or store.ready, "it is killed, or ready", 30)
    store.heard()
    return not store.ready


def goes_on(store, daemon):
    store.arm(daemon)
    store.start(daemon)
    daemon.wait_ready()


def what_was_left(store):
    return {name for name in store.names if name.startswith(("framed-roster", "framed-state"))}


@contextlib.contextmanager
def midway(daemon, frames):
    """A producer within a frame and a reader within a result, at which nothing moves; gives the reader what it has had."""
    with daemon.reader() as reader, daemon.producer() as producer:
        sending = Background(producer.send, frames.tobytes())
        reader.had = reader.read(LARGE // 2 + 4321)
        daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
        yield reader
        with contextlib.suppress(OSError):
            sending.join()


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("call", ["memfd_create", "mmap", "pthread_create", "epoll_create1"])
def test_a_process_killed_before_it_goes_on_leaves_all_to_the_next_one(place, store, call, orderly):
    frames = numbered(5, LARGE)
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=3)
    with start(place, store, {"cam0": entry}, drain_timeout="50ms") as daemon:
        with midway(daemon, frames) as reader:
            for at in itertools.count(1):
                leave(store, daemon, orderly)
                died = dies_at(place, store, daemon, call, at)
                if not died or not what_was_left(store):
                    break
                goes_on(store, daemon)
                reader.had += reader.read(1000)
                assert reader.had == frames.tobytes()[:len(reader.had)]
                daemon.wait_view("it waits again", lambda view: view["waiting"] == "reader")
            assert at > 1, "none came before it went on"
            if died:
                goes_on(store, daemon)
                reader.had += reader.rest()
                assert reader.had == frames.tobytes()[:len(reader.had)]
            else:
                assert reader.had + reader.read(5 * LARGE - len(reader.had)) == frames.tobytes()
                daemon.account(came=5, emitted=5)


def test_what_processes_may_end_of_is_not_left_for_ever(place, store):
    frames = numbered(5, LARGE)
    with start(place, store, {"cam0": pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=3)}) as daemon:
        with midway(daemon, frames) as reader:
            for kills in [2, 3]:
                assert what_was_left(store)
                store.end(daemon)
                for _ in range(kills):
                    assert dies_at(place, store, daemon, "memfd_create", 1)
                assert bool(what_was_left(store)) == (kills == 2), store.names
                goes_on(store, daemon)
                store.heard()
            reader.had += reader.rest()
            assert reader.had == frames.tobytes()[:len(reader.had)]
            assert connections(daemon) == 2
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frames[0].tobytes())
            assert reader.read(LARGE) == frames[0].tobytes()
            sending.join()


def test_what_a_process_went_on_from_is_nothing_for_another_one(place, store):
    """Not even where the manager was not told that it is to keep it no longer."""
    frames = numbered(5, LARGE)
    with start(place, store, {"cam0": pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=3)}) as daemon:
        with midway(daemon, frames) as reader:
            store.end(daemon)
            assert dies_at(place, store, daemon, "sendmsg", 1)
            assert what_was_left(store), "it was killed before it said anything"
            goes_on(store, daemon)
            reader.rest()
            assert connections(daemon) == 2


@pytest.mark.takes(60)
@pytest.mark.parametrize("orderly", [False, True])
def test_what_the_manager_was_not_told_to_forget_is_not_taken_for_what_lies_there(place, store, orderly):
    """Words of a start are lost: what lies there of the process before is neither believed again nor mixed up, and what was to
    be kept is, a little later."""
    number = 0
    with start(place, store, {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}) as daemon:
        ends = [(daemon.reader(name), daemon.producer(name)) for name in ("cam0", "cam1")]

        def move():
            for reader, producer in ends:
                producer.send(whole(number, SIZE).tobytes())
            assert all(reader.read(SIZE) == whole(number, SIZE).tobytes() for reader, _ in ends)
            settle(daemon)

        for at in range(1, 37, 3):
            move()
            leave(store, daemon, orderly)
            word = Injection(place, "sendmsg", at=at, error=errno.ENOBUFS)
            store.arm(daemon, word)
            store.start(daemon)
            daemon.wait_ready()
            number += 1
            move()
            wait_until(lambda: what_was_left(store), lambda: f"what was refused is kept later: {store.names}")
            assert word.happened
            store.end(daemon)
            goes_on(store, daemon)
            number += 1
        assert "anew" not in daemon.log and connections(daemon) == 0
        for client in itertools.chain(*ends):
            client.close()


@pytest.mark.takes(60)
@pytest.mark.parametrize("later", [False, True])
def test_a_torn_file_is_known_although_the_manager_was_not_told_something(place, later):
    """Where there is room for little else than the journal. A little later nothing of that is missing."""
    out = place / "out"
    with Store(place, room=8) as store, start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(out)})}) as daemon:
        for at in itertools.count(1):
            with daemon.producer() as producer:
                producer.send(whole(at, SIZE).tobytes())
                wait_until(lambda: out.exists() and out.stat().st_size == at * SIZE, "it is written")
            store.end(daemon)
            with open(out, "ab") as file:
                file.write(b"torn")
            word = Injection(place, "sendmsg", at=at, error=errno.ENOBUFS)
            store.arm(daemon, word)
            store.start(daemon)
            daemon.wait_ready()
            assert out.stat().st_size == at * SIZE, f"{at - 1} was refused before"
            store.heard()
            if later:
                wait_until(lambda: "framed-unsure" not in store.names, "it is told later")
                assert {"framed-journal", "framed-pulse"} <= store.names
            if not word.happened:
                break
        assert at > 10


def upgrade(daemon):
    """Whether the program took over."""
    before = daemon.status()["handovers"]["upgrade"]
    count = daemon.log.count("no upgrade, the running program goes on")
    daemon.signal(signal.SIGUSR2)

    def is_over():
        return daemon.log.count("no upgrade, the running program goes on") > count or taken()

    def taken():
        with contextlib.suppress(OSError):
            return daemon.status()["handovers"]["upgrade"] > before
    wait_until(is_over, lambda: f"it is over, one way or the other:\n{daemon.log}", 30)
    return bool(taken())


@pytest.mark.takes(60)
def test_no_program_takes_over_without_word_of_what_is_to_be_forgotten(place):
    """It would take what lies there for what it has put there itself. With memory for that word it takes over."""
    for at in itertools.count(1):
        folder = place / f"{at}"
        folder.mkdir()
        word = Injection(folder, "setenv", at, errno.ENOMEM)
        with contextlib.ExitStack() as rest:
            with Store(folder) as manager:
                daemon = start(folder, manager, {"cam0": pipeline(FORMAT)})
                manager.arm(daemon, word)
                rest.enter_context(daemon)
                settle(daemon)
            daemon.write({"cam0": pipeline(FORMAT, slots=3)})  # what was noted before is of no use
            daemon.command("/v1/reload")
            with daemon.reader() as reader, daemon.producer() as producer:
                took_over = upgrade(daemon)
                assert took_over != word.happened, f"{word}:\n{daemon.log}"
                assert took_over or upgrade(daemon)
                producer.send(whole(0, SIZE).tobytes())
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        if took_over:
            break
    assert at > 2, "what is to be forgotten is one, and the state another"


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
    its turn in long runs, in short ones every fourth, and others if the call waits."""
    daemon = start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")}), "cam1": pipeline(FORMAT)})
    with daemon:
        flow = Flow(daemon)
        seen = 0
        at = 0 if SOAK else -1 if wait else -3
        met = True
        while met:
            at += 1 if SOAK else 4
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
        assert at > 25
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
