"""Native clients that mean harm: whatever one does to its own memory and connection, the client beside it gets its frames
right, and the daemon keeps no slot, no descriptor and no lane of it."""

import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from harness import BINARY, NOBODY, Background, Client, Daemon, Forked, as_nobody, limit, pipeline, wait_until
from harness import native
from harness.hostile import ACTS, SIZE, attack, linger
from harness.lending import lending
from harness.native import BOTH, CONSUMER, Borrower, Native, Refused, Shared
from harness.processes import FORK

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
MEASURE = pathlib.Path(__file__).resolve().parents[2] / "tests/bench/hostile.py"
INVERTED = bytes(255 - n for n in range(256))


def replying(clients=1, **keys):
    source = {"protocol": "native", "clients": clients, "mode": "0666", **keys.pop("source", {})}
    return pipeline(GRAY, stages=[INVERT], source=source, sink={"reply": True, "protocol": "native"}, **keys)


# -- the client beside it ------------------------------------------------------------------------------------------------------


def exchange(client, n):
    """One frame through a random slot, its result checked; how long it took."""
    slot, payload = n % client.welcome.slots, random.Random(n).randbytes(SIZE)
    began = time.monotonic_ns()
    client.submit(slot, payload, sequence=n)
    while client.word(4096) == client.taken & 0xFFFFFFFF:
        client.sleep()
    took = time.monotonic_ns() - began
    assert client.completion()[:2] == (slot, 0)
    assert client.payload(slot) == payload.translate(INVERTED), f"the result of frame {n} is wrong"
    client.take()
    return took


def behave(path, stop, least=200):
    """Frames, one after the other, until told to stop; (how many, median and 99th percentile of ns)."""
    with Shared(path) as client:
        times = []
        while len(times) < least or not stop.is_set():
            times.append(exchange(client, len(times)))
    times.sort()
    return len(times), times[len(times) // 2], times[len(times) * 99 // 100]


class Good:
    """A good client in a process of its own, as long as the context lasts."""

    def __init__(self, path):
        self.stop = FORK.Event()
        self.process = Forked(behave, path, self.stop)

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        self.stop.set()
        if kind is None:
            count, median, late = self.process.join()
            print(f"the good client: {count} frames, p50 {median / 1e3:.0f} us, p99 {late / 1e3:.0f} us")
        else:
            self.process.kill()


# -- tests -----------------------------------------------------------------------------------------------------------------------


def besiege(place, entry, lives, path_of_the_good, seconds=55):
    """Lives of hostile clients on one pipeline from three processes, beside a good client on the same only lane."""
    entries = {"cam0": entry, "quiet": replying()}
    with Daemon(place, entries, lanes=1) as daemon:
        daemon.status()
        before = daemon.open_files()
        with Good(daemon.path("quiet", "source")):
            pass
        daemon.wait_view("it has left", lambda view: view["sessions"] == 0, "quiet")
        with Good(daemon.path(path_of_the_good, "source")):
            crowd = [Forked(attack, daemon.path("cam0", "source"), range(first, lives, 3)) for first in range(3)]
            for process in crowd:
                process.join(seconds)
        for name in entries:
            daemon.wait_view("all have left", lambda view: view["sessions"] == 0, name)
        wait_until(lambda: daemon.open_files() <= before, lambda: f"{before} descriptors before, {daemon.open_files()} now")
        with Shared(daemon.path("cam0", "source")) as client:
            for n in range(20):
                exchange(client, n)


@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("beside", ["quiet", "cam0"])
def test_hostile_clients_beside_a_good_one(place, completion, beside):
    """On another pipeline, and on the next seat of the same one."""
    besiege(place, replying(clients=4, slots=3, completion=completion), 150, beside)


@pytest.mark.slow
@pytest.mark.takes(180)
def test_thousands_of_hostile_clients_beside_a_good_one(place):
    """On a GPU some 50 a second come and go, whose memory the driver pins and lets go."""
    besiege(place, replying(clients=4, slots=3), 3000, "cam0", seconds=170)


@pytest.mark.measures
@pytest.mark.takes(120)
@pytest.mark.skipif(not MEASURE.exists(), reason="it is no part of a portable folder")
def test_what_they_cost_a_good_one_can_be_measured():
    done = subprocess.run([sys.executable, MEASURE, "--json", "--quick", "--programs", BINARY.parent], capture_output=True,
                          text=True, timeout=limit(110), check=False)
    assert done.returncode == 0, done
    document = json.loads(done.stdout)
    rows, targets = document["sections"]["hostile"], document["sections"]["targets"]
    assert [row["where"] for row in rows] == ["another lane", "its lane", "its pipeline"]
    for row, target in zip(rows, targets):
        assert row["visits"] > 0 and row["alone_p99_us"] > 0 and row["beside_p99_us"] > 0, row
        assert target["value"] == row["p99_over_alone"] and target["at_most"] == 1.1, target


@pytest.mark.parametrize("act", ACTS)
def test_each_act_alone(place, act):
    with Daemon(place, {"cam0": replying(clients=2, slots=3)}, lanes=1) as daemon:
        with Shared(daemon.path("cam0", "source")) as good:
            for turn in range(4):
                linger(daemon.path("cam0", "source"), turn, act)
                exchange(good, turn)
        daemon.wait_view("all have left", lambda view: view["sessions"] == 0)


def test_one_that_rings_all_the_time_gets_no_more_than_its_turns(place):
    with Daemon(place, {"cam0": replying(clients=2)}, lanes=1) as daemon:
        with Shared(daemon.path("cam0", "source")) as good, Shared(daemon.path("cam0", "source")) as bad:
            bad.free = []  # what stops it

            def ring():
                while not bad.free:
                    bad.send(bytes(1 << 18))
            ringing = [Background(ring) for _ in range(2)]
            for n in range(100):
                exchange(good, n)
            bad.free.append(True)
            for thread in ringing:
                thread.join()


def test_what_a_renamed_output_gives_nobody_but_the_daemons_user_writes(place):
    """The output is opened for reading, and who is somebody else cannot open it again; its user is not kept apart."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    os.chmod(place, 0o755)

    def open_again(path):
        with Shared(path) as client:
            for descriptor in client.descriptors:
                with pytest.raises(PermissionError):
                    os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
            exchange(client, 0)
        return True

    with Daemon(place, {"cam0": replying()}) as daemon:
        assert as_nobody(open_again, daemon.path("cam0", "source"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_who_is_not_allowed_is_told_so_in_the_protocol(place):
    os.chmod(place, 0o755)

    def refusal(path, role):
        try:
            Native(path, role)
        except Refused as refused:
            return refused.code, str(refused)
        return None

    entry = pipeline(GRAY, source={"protocol": "native", "mode": "0666", "allow": {"users": ["daemon"]}},
                     sink={"protocol": "native", "mode": "0666", "allow": {"users": ["daemon"]}})
    with Daemon(place, {"cam0": entry}) as daemon:
        for end, role in (("source", native.PRODUCER), ("sink", CONSUMER)):
            code, sentence = as_nobody(refusal, daemon.path("cam0", end), role)
            assert code == native.E_DENIED and f"user {NOBODY} may not connect to pipeline cam0" in sentence


def test_a_client_is_told_that_the_pipeline_stops(place):
    with Daemon(place, {"cam0": replying(clients=2)}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            exchange(client, 0)
            daemon.finish()
            with pytest.raises(Refused) as refused:
                client.message()
            assert refused.value.code == native.E_STOPPING


def test_the_words_of_a_frame_that_must_be_zero(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            client.send(native.message(native.FRAME, struct.pack("<QqqQ", 0, 0, 0, 1), SIZE))
            with pytest.raises(Refused, match="must be zero") as refused:
                client.message()
            assert refused.value.code == native.E_PROTOCOL
        daemon.account(came=1, invalid=1)


def test_one_that_rings_reads_nothing_and_leaves(place):
    """The daemon's end of such a connection is in error while bytes still wait there; only behind them is the end."""
    with Daemon(place, {"cam0": replying()}) as daemon:
        for _ in range(3):
            with Client(daemon.path("cam0", "source")) as client:
                client.send(native.hello(BOTH, 1))
                assert client.socket.recv(1, socket.MSG_PEEK) == b"F"
                daemon.wait_view("it is there", lambda view: view["sessions"] == 1)
                daemon.signal(signal.SIGSTOP)
                client.send(b"\0")
            daemon.signal(signal.SIGCONT)
            daemon.wait_view("it has left", lambda view: view["sessions"] == 0)


def test_a_seat_without_memory_comes_back_when_there_is_some(place):
    """A client with shared memory leaves while no descriptor is left: its seat is closed, and then open again."""
    with Daemon(place, {"cam0": replying()}) as daemon:
        soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        with Shared(daemon.path("cam0", "source")) as client:
            exchange(client, 0)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (6, hard))
        daemon.wait_log("one producer less can connect")
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))

        def seated():
            with contextlib.suppress(Refused), Shared(daemon.path("cam0", "source")) as late:
                return exchange(late, 1)
        wait_until(seated, "there is a place again")
        daemon.account(came=2, emitted=2)


# -- after another producer --------------------------------------------------------------------------------------------------------


def test_memory_is_lent_without_the_frames_of_a_producer_before(place):
    """Frames that came over a socket wait for a reader when the next producer comes, and asks for the memory they lie in."""
    entry = pipeline(GRAY, stages=[INVERT], source={"protocol": "native"}, sink={"overload": "block"})
    with Daemon(place, {"cam0": entry}, lanes=1) as daemon:
        with Native(daemon.path("cam0", "source"), native.PRODUCER) as first:
            for n in range(2):
                first.send_frame(b"s" * SIZE)
            daemon.wait_view("they came", lambda view: view["frames"]["in"] == 2)

        def come():
            with Shared(daemon.path("cam0", "source"), native.PRODUCER) as second:
                seen = second.input[:], second.output[:]
                for slot in range(2):
                    second.submit(slot, b"t" * SIZE)
                for _ in range(2):
                    second.completion()
                    second.take()
                return seen
        coming = Background(come)
        with daemon.reader() as reader:
            assert reader.read(4 * SIZE) == (b"s" * 2 * SIZE + b"t" * 2 * SIZE).translate(INVERTED)
        for memory in coming.join():
            assert b"s" not in memory and b"s".translate(INVERTED) not in memory
        daemon.account(came=4, emitted=4)


def test_a_reader_that_stalls_keeps_nobody_from_the_memory(place):
    large = {"dtype": "uint8", "shape": [1 << 20]}
    entry = pipeline(large, source={"protocol": "native"}, sink={"overload": "drop"}, slots=3)
    with Daemon(place, {"cam0": entry}, lanes=1) as daemon, daemon.reader(buffer=4096):
        for _ in range(3):
            with Native(daemon.path("cam0", "source"), native.PRODUCER) as first:
                first.send_frame(bytes(1 << 20))
            with Shared(daemon.path("cam0", "source"), native.PRODUCER) as second:
                second.submit(0)
                second.completion()
        daemon.leaves_frames = True


# -- limits ----------------------------------------------------------------------------------------------------------------------


def refusal(path, kind=Shared):
    with pytest.raises(Refused) as refused:
        kind(path, BOTH)
    return refused.value.code, str(refused.value)


def test_one_user_has_so_many_sessions_over_all_pipelines(place):
    entries = {"cam0": replying(clients=2), "cam1": replying(clients=2)}
    with Daemon(place, entries, limits={"sessions_per_user": 3}) as daemon:
        paths = [daemon.path(name, "source") for name in ("cam0", "cam0", "cam1", "cam1")]
        with Shared(paths[0]) as first, Shared(paths[1]) as second, Native(paths[2], BOTH):
            code, sentence = refusal(paths[3])
            assert code == native.E_QUOTA and f"user {os.geteuid()} already has its 3 sessions" in sentence
            assert daemon.view("cam1")["refused"] == 1
            if os.geteuid() == 0:
                os.chmod(place, 0o755)
                as_nobody(lambda: exchange(Shared(paths[3]), 0))
            second.close()
            wait_until(lambda: daemon.view("cam0")["sessions"] == 1, "one has left")
            with Shared(paths[3]) as late:
                exchange(late, 0)
                exchange(first, 0)
                daemon.write(entries, limits={"sessions_per_user": 1})  # takes nothing away
                daemon.command("/v1/reload")
                exchange(late, 1)
                assert refusal(paths[1], Native)[0] == native.E_QUOTA
        daemon.quiet()


def test_one_user_has_so_much_memory(place):
    """Two slots of one page for input and output each are 16 KiB a session."""
    with Daemon(place, {"cam0": replying(clients=3)}, limits={"memory_per_user": "40KiB"}) as daemon:
        path = daemon.path("cam0", "source")
        with Shared(path), Shared(path):
            code, sentence = refusal(path)
            assert code == native.E_QUOTA and "would take 49152 bytes, more than its 40KiB" in sentence
        wait_until(lambda: daemon.view("cam0")["sessions"] == 0, "they have left")
        with Shared(path) as client:
            exchange(client, 0)


def test_a_raw_client_over_the_limit_is_told_in_a_line(place):
    with Daemon(place, {"cam0": pipeline(GRAY), "cam1": pipeline(GRAY)}, limits={"sessions_per_user": 1}) as daemon:
        with daemon.producer("cam0"):
            daemon.wait_view("it is there", lambda view: view["sessions"] == 1)
            with Client(daemon.path("cam1", "source")) as second:
                assert second.rest() == f"framed: user {os.geteuid()} already has its 1 session\n".encode()


# -- memory that is kept ---------------------------------------------------------------------------------------------------------


def pages_of(descriptors):
    return sum(os.fstat(descriptor).st_blocks for descriptor in descriptors)


@contextlib.contextmanager
def duplicates():
    kept = []
    try:
        yield kept
    finally:
        for descriptor in kept:
            os.close(descriptor)


def keep(client, kept):
    """What a client does that wants the memory for itself: its descriptors stay, beyond its connection."""
    kept.extend(map(os.dup, client.descriptors))
    client.close()


def test_memory_that_a_client_keeps_is_taken_from_it(place):
    """It comes again and again, and keeps descriptors of all the memory that it gets: of none of it any page stays."""
    entry = replying(clients=2)
    with duplicates() as kept, Daemon(place, {"cam0": entry}, limits={"memory_per_user": "20KiB"}) as daemon:
        for turn in range(20):
            client = Shared(daemon.path("cam0", "source"))
            exchange(client, turn)
            assert pages_of(client.descriptors) > 0
            keep(client, kept)
            daemon.wait_view("it has left", lambda view: view["sessions"] == 0)
        wait_until(lambda: pages_of(kept) == 0, lambda: f"{pages_of(kept)} blocks stay")
        with Shared(daemon.path("cam0", "source")) as honest:
            exchange(honest, 0)
        daemon.quiet()


def test_memory_that_a_client_keeps_is_taken_from_it_also_if_it_is_sent_away(place):
    with duplicates() as kept, Daemon(place, {"cam0": replying()}) as daemon:
        client = Shared(daemon.path("cam0", "source"))
        client.submit(99)
        assert client.rest()
        keep(client, kept)
        wait_until(lambda: pages_of(kept) == 0, lambda: f"{pages_of(kept)} blocks stay")
        daemon.leaves_frames = True


def test_control_memory_that_a_consumer_keeps_is_taken_from_it(place):
    entry = lending()
    with duplicates() as kept, Daemon(place, {"cam0": entry}) as daemon:
        for _ in range(5):
            keep(Borrower(daemon.path("cam0", "sink")), kept)
        wait_until(lambda: pages_of(kept[1::2]) == 0, lambda: f"{pages_of(kept[1::2])} blocks stay")
        assert pages_of(kept[0::2]) > 0  # the pipeline's, which goes on


def test_what_a_pipeline_that_ends_leaves_its_client_is_there(place):
    """A client sends it again to the next one, as libframed does."""
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            client.input[:4] = b"mine"
            daemon.write({"cam1": replying()})
            daemon.command("/v1/reload")
            assert client.rest() and client.input[:4] == b"mine"
