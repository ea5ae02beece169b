"""Frames that are acknowledged: over the stream transport, to clients that ask for it in their HELLO."""

import errno
import signal
import struct

import pytest

from harness import Background, Client, Daemon, limit, pipeline, slow_stage, wait_until
from harness import native
from harness.injection import Injection
from harness.native import AGAIN, BOTH, CONSUMER, PRODUCER, Native, Refused

GRAY = {"pixels": "gray", "width": 32, "height": 16}
LARGE = {"pixels": "gray", "width": 2048, "height": 1024}
NATIVE = {"protocol": "native"}
SIZE = 512
TOKEN = 0x0123456789ABCDEF
INVALID = {"deadline": -1}


def replying(format=GRAY, **keys):
    return pipeline(format, source=NATIVE, sink={"reply": True, **NATIVE}, **keys)


def sunk(overload="block", **keys):
    return pipeline(GRAY, source=NATIVE, sink={"overload": overload, **NATIVE}, **keys)


def all_acknowledged(client, count):
    told = [0]
    while told[-1] < count:
        told.append(client.acknowledged())
    assert told == sorted(set(told)) and told[-1] == count
    return told


def test_a_producer_knows_which_frames_have_their_fate(place):
    with Daemon(place, {"cam0": sunk(slots=3)}) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER, TOKEN) as producer:
            daemon.wait_log("connected as client 0123456789abcdef")
            for n in range(3):
                producer.send_frame(bytes(SIZE), sequence=n)
            daemon.wait_view("they wait for a reader", lambda view: view["frames"]["in_flight"] == 3)
            with Native(daemon.path("cam0", "sink"), CONSUMER, TOKEN) as consumer:
                assert all_acknowledged(producer, 3)
                assert [consumer.result().sequence for _ in range(3)] == [0, 1, 2]
                producer.send_frame(bytes(SIZE), sequence=3)
                producer.send_frame(bytes(SIZE), **INVALID)
                producer.finish()
                while producer.acknowledged() < 5:
                    pass
                assert producer.rest() == b""
                assert consumer.result().sequence == 3
        daemon.account(came=5, emitted=4, invalid=1)


@pytest.mark.host
@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.ENOMEM, errno.EAGAIN], ids=errno.errorcode.get)
def test_what_cannot_be_told_now_is_told_later(place, error):
    """The system may have no memory for it at this moment, and nothing else comes after it."""
    injection = Injection(place, "send", at=1, error=error)
    with Daemon(place, {"cam0": sunk("drop")}, env=injection.environment) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER, TOKEN) as producer:
            producer.send_frame(bytes(SIZE))
            assert producer.acknowledged() == 1 and injection.happened
        daemon.account(came=1, unread=1)


@pytest.mark.parametrize("overload", ["drop-oldest", "drop-newest", "block"])
def test_dropped_frames_have_their_fate(place, overload):
    """Whatever is dropped on its way counts, up to the last; with `reply` a result speaks for those before it."""
    with Daemon(place, {"cam0": replying(slots=4, overload=overload, stages=[slow_stage(3)])}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH, TOKEN) as client:
            sending = Background(lambda: [client.send_frame(bytes(SIZE), sequence=n) for n in range(50)])
            fated = results = 0
            while fated < 50:
                kind, body = client.message()
                if kind == native.ACK:
                    told, = struct.unpack("<Q", body)
                    assert told > fated
                    fated = told
                else:
                    sequence, dropped = struct.unpack_from("<QQ", body)
                    assert sequence + 1 >= fated and dropped <= sequence
                    fated, results = sequence + 1, results + 1
            sending.join()
            client.finish()
            assert client.rest() == b""
        frames = daemon.wait_view("all have their fate", lambda view: view["frames"]["in_flight"] == 0)["frames"]
        assert (frames["in"], frames["emitted"]) == (50, results)


def test_nothing_is_said_within_a_result(place):
    """Results much larger than the connection holds, and frames between them that are dropped at once."""
    size = LARGE["width"] * LARGE["height"]
    with Daemon(place, {"cam0": replying(LARGE, slots=4)}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH, TOKEN) as client:
            def send():
                for n in range(20):
                    client.send_frame(bytes([n]) * size, sequence=n, **(INVALID if n % 4 > 1 else {}))
            sending = Background(send)
            fated = 0
            while fated < 20:
                kind, body = client.message()
                if kind == native.ACK:
                    fated = max(fated, struct.unpack("<Q", body)[0])
                else:
                    sequence = struct.unpack_from("<Q", body)[0]
                    assert sequence % 4 < 2 and body[80:] == bytes([sequence]) * size
                    fated = sequence + 1
            sending.join()
        daemon.account(came=20, emitted=10, invalid=10)


def test_who_does_not_ask_is_told_nothing(place):
    with Daemon(place, {"cam0": sunk("drop")}) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            producer.send_frame(bytes(SIZE))
            producer.send_frame(bytes(SIZE), **INVALID)
            daemon.wait_view("both have their fate", lambda view: view["frames"]["in"] == 2 and not view["frames"]["in_flight"])
            producer.finish()
            assert producer.rest() == b""
        daemon.account(came=2, unread=1, invalid=1)


def test_one_that_does_not_listen_is_told_later(place):
    """The connection is full of what it was told; the last word is the one that counts."""
    with Daemon(place, {"cam0": sunk("drop")}) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER, TOKEN) as producer:
            for n in range(3000):
                producer.send_frame(bytes(SIZE), sequence=n)
            daemon.wait_view("all have their fate", lambda view: view["frames"]["in"] == 3000 and not view["frames"]["in_flight"])
            all_acknowledged(producer, 3000)
        daemon.account(came=3000, unread=3000)


def test_what_a_stop_cut_off_has_no_fate_that_counts(place):
    with Daemon(place, {"cam0": sunk()}, drain_timeout="100ms") as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER, TOKEN) as producer:
            with Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
                producer.send_frame(bytes(SIZE))
                assert consumer.result() and producer.acknowledged() == 1
            daemon.wait_view("the reader has left", lambda view: view["readers"] == 0)
            producer.send_frame(bytes(SIZE))
            daemon.wait_view("one waits", lambda view: view["frames"]["in_flight"] == 1)
            daemon.signal(signal.SIGTERM)
            with pytest.raises(Refused) as refused:
                producer.acknowledged()
            assert refused.value.code == native.E_STOPPING
        daemon.ends()
        assert daemon.final_account() == {"in": 2, "emitted": 1, "shutdown": 1}


def test_the_next_process_goes_on_counting(place):
    with Daemon(place, {"cam0": sunk(), "both": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER, TOKEN) as producer, \
                Native(daemon.path("both", "source"), BOTH, TOKEN) as client:
            for n in range(2):
                producer.send_frame(bytes(SIZE), sequence=n)
                client.send_frame(bytes(SIZE), **INVALID)
            all_acknowledged(client, 2)
            daemon.wait_view("they wait for a reader", lambda view: view["frames"]["in_flight"] == 2)
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("everything goes on")
            client.send_frame(bytes(SIZE), **INVALID)
            assert client.acknowledged() == 3
            with Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
                assert consumer.result().sequence == 0
                all_acknowledged(producer, 2)
        daemon.settled = True


@pytest.mark.parametrize("flags", [AGAIN, 0xFFFFFFF2, 0x10])
def test_flags_come_back(place, flags):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            for n in range(2):
                client.send_frame(bytes(SIZE), sequence=n, flags=flags)
                assert client.result().flags == flags | (n == 0)
        with native.Shared(daemon.path("cam0", "source")) as client:
            client.submit(0, bytes(SIZE), flags=flags)
            assert client.completion()[2].flags == flags | 1
            client.take()
        daemon.account(came=3, emitted=3)


def test_flags_come_back_over_a_hand_over(place):
    """Of frames that are on the device or wait for it when the next process begins."""
    with Daemon(place, {"cam0": replying(slots=3, stages=[slow_stage(200)])}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            for n in range(3):
                client.send_frame(bytes(SIZE), sequence=n, flags=AGAIN | 0x10 * n)
            daemon.wait_view("they have come", lambda view: view["frames"]["in"] == 3)
            daemon.signal(signal.SIGUSR2)
            for n in range(3):
                assert client.result().flags & ~1 == AGAIN | 0x10 * n
        daemon.settled = True


@pytest.mark.parametrize("flags", [1, 4, 8])
def test_flags_that_mean_nothing_are_refused(place, flags):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            client.send_frame(bytes(SIZE), flags=flags)
            with pytest.raises(Refused, match="must be zero") as refused:
                client.result()
            assert refused.value.code == native.E_PROTOCOL
        daemon.wait_view("it has left", lambda view: view["sessions"] == 0)
        with native.Shared(daemon.path("cam0", "source")) as client:
            client.submit(0, bytes(SIZE), flags=flags)
            with pytest.raises(Refused, match="does not know"):
                client.message()
        daemon.settled = True


HELLOS = {
    "unknown flags": native.long_hello(BOTH, TOKEN, flags=3),
    "flags without a token": native.message(native.HELLO, struct.pack("<IIII", 1, BOTH, 0, 1)),
    "another length": native.message(native.HELLO, struct.pack("<IIIII", 1, BOTH, 0, 0, 0)),
}


@pytest.mark.parametrize("what", HELLOS)
def test_a_hello_that_makes_no_sense(place, what):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            client.send(HELLOS[what])
            said = client.rest()
            assert said[:6] == b"FRMD\5\0" and said[16] == native.E_PROTOCOL


def test_a_long_hello_comes_in_pieces(place):
    hello = native.long_hello(BOTH, TOKEN)
    with Daemon(place, {"cam0": replying()}) as daemon:
        for at in (1, 16, 31, 32, 39):
            with Client(daemon.path("cam0", "source")) as client:
                client.send(hello[:at])
                wait_until(lambda: daemon.status(), "it has been looked at", limit(10))
                client.send(hello[at:] + native.frame(bytes(SIZE), **INVALID))
                assert client.read(272)[4] == native.WELCOME
                assert client.read(24) == native.message(native.ACK, struct.pack("<Q", 1))
            daemon.wait_view("it has left", lambda view: view["sessions"] == 0)
        daemon.account(came=5, invalid=5)
