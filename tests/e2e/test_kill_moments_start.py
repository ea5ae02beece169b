"""A daemon killed, or not heard by its service manager, before it goes on from what the process before it left there."""

import contextlib
import errno
import itertools
import signal

import pytest

from harness import Background, numbered, pipeline, wait_until, whole
from harness.injection import KILL, Injection
from harness.store import STATE, Store, connections, leave, place_of, settle, start

pytestmark = pytest.mark.memory

SIZE = 4096
LARGE = 4 * 1024 * 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


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


@contextlib.contextmanager
def midway(daemon, frames):
    """A producer within a frame and a reader within a result, at which nothing moves; gives the reader what it has had.
    That it waits may have been said before the reader made room."""
    with daemon.reader() as reader, daemon.producer() as producer:
        producer.socket.settimeout(None)  # it sends until the last process has gone on, and a GPU takes seconds to open
        sending = Background(producer.send, frames.tobytes())
        reader.had = reader.read(LARGE // 2 + 4321)
        daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
        settle(daemon)
        yield reader
        with contextlib.suppress(OSError):
            sending.join()


@pytest.mark.takes(120)
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
                if not died or not store.noted():
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
                wait_until(lambda: store.noted(), "the manager has heard of it")
                store.end(daemon)
                for _ in range(kills):
                    assert dies_at(place, store, daemon, "memfd_create", 1)
                assert bool(store.noted()) == (kills == 2)
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
            assert store.named("framed-d"), "it was killed before it said anything"
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

        for at in itertools.count(1):
            move()
            leave(store, daemon, orderly)
            word = Injection(place, "sendmsg", at=at, error=errno.ENOBUFS)
            store.arm(daemon, word)
            store.start(daemon)
            daemon.wait_ready()
            number += 1
            move()
            wait_until(lambda: store.noted(), lambda: f"what was refused is kept later: {store.names}")
            store.end(daemon)
            goes_on(store, daemon)
            number += 1
            if not word.happened:
                break
        assert at > 3 and "anew" not in daemon.log and connections(daemon) == 0
        for client in itertools.chain(*ends):
            client.close()


@pytest.mark.takes(60)
@pytest.mark.parametrize("later", [False, True])
def test_a_torn_file_is_known_although_the_manager_was_not_told_something(place, later):
    """Where there is room for little else than the image. A little later nothing of that is missing."""
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
            # A result that was written and not yet noted when the process ended is cut off, too, and written again.
            wait_until(lambda: out.stat().st_size == at * SIZE, f"{at - 1} was refused before")
            store.heard()
            if later:
                wait_until(lambda: any(place_of(image, STATE) for image in store.named("framed-image-")), "it is told later")
            if not word.happened:
                break
        assert at > 3


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


@pytest.mark.host  # a device is opened with variables, too
@pytest.mark.takes(60)
def test_no_program_takes_over_without_word_of_what_it_is_left(place):
    """Of which some is still to be forgotten by a manager that has gone. With memory for that word it takes over."""
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
    assert at > 1, "what it is left is one"
