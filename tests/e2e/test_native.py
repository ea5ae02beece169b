"""The native protocol over the stream transport, spoken by a client that knows it from the manual page only."""

import itertools
import signal
import struct
import time

import pytest

from harness import Background, Client, Daemon, numbered, pipeline, wait_until
from harness import native
from harness.native import BOTH, CONSUMER, PRODUCER, Native, Refused

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


def replying(**keys):
    return pipeline(GRAY, stages=[INVERT], source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}, **keys)


def inverted(payload):
    return bytes(255 - byte for byte in payload)


def test_frames_and_results_on_one_connection(place):
    frames = [frame.tobytes() for frame in numbered(50, 512)]
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            assert client.welcome.pipeline == "cam0" and client.welcome.role == BOTH and client.welcome.slots == 2
            assert (client.welcome.input_bytes, client.welcome.output_bytes) == (512, 512)
            assert client.welcome.input_format == "gray 32x16"
            sending = Background(lambda: [client.send_frame(frame, sequence=1000 + n) for n, frame in enumerate(frames)])
            for n, frame in enumerate(frames):
                result = client.result()
                assert (result.sequence, result.dropped, result.payload) == (1000 + n, 0, inverted(frame))
                assert result.steps[-1] > 0
            sending.join()
        daemon.account(came=50, emitted=50)


def test_a_producer_and_consumers_on_sockets_of_their_own(place):
    entry = pipeline(GRAY, source={"protocol": "native"}, sink={"protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Native(daemon.path("cam0", "sink"), CONSUMER) as first, Native(daemon.path("cam0", "sink"), CONSUMER) as second:
            with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
                for n in range(20):
                    producer.send_frame(bytes([n]) * 512, sequence=n)
                    for consumer in (first, second):
                        result = consumer.result()
                        assert (result.sequence, result.payload) == (n, bytes([n]) * 512)
        daemon.account(came=20, emitted=20)


def read_until(consumer, last):
    """Results until that of this frame or of a later one; each says how many frames the reader did not get before it."""
    came, expected = [], 0
    while expected <= last:
        result = consumer.result()
        assert result.sequence == expected + result.dropped
        came.append(result)
        expected = result.sequence + 1
    return came


@pytest.mark.parametrize("upgrades", [False, True])
def test_what_a_slow_reader_missed_is_in_dropped(place, upgrades):
    """In the middle of one result or between two, and whichever daemon began to write it."""
    large = {"pixels": "gray", "width": 1024, "height": 512}
    entry = pipeline(large, slots=4, source={"protocol": "native"}, sink={"protocol": "native", "overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Native(daemon.path("cam0", "sink"), CONSUMER) as reader, Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            daemon.wait_view("it is there", lambda view: view["readers"] == 1)
            for n in range(30):
                producer.send_frame(bytes(1024 * 512), sequence=n, deadline=1 if n % 5 == 1 else 0)
            daemon.wait_view("it missed some", lambda view: view["frames"]["in"] == 30 and view["missed"] > 10)
            if upgrades:
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, lambda: daemon.log, 30)
            reading = Background(read_until, reader, 40)
            for n in itertools.takewhile(lambda n: reading.thread.is_alive() and n < 2000, itertools.count(30)):
                producer.send_frame(bytes(1024 * 512), sequence=n)
                time.sleep(0.01)
            assert sum(result.dropped for result in reading.join()) > 15
        daemon.settled = True


@pytest.mark.parametrize("source,sink", [("raw", "native"), ("native", "raw"), ("native", "y4m")])
def test_each_end_may_speak_its_own(place, source, sink):
    entry = pipeline(GRAY, source={"protocol": source}, sink={"protocol": sink})
    frames = [frame.tobytes() for frame in numbered(10, 512)]
    with Daemon(place, {"cam0": entry}) as daemon:
        reader = Native(daemon.path("cam0", "sink"), CONSUMER) if sink == "native" else daemon.reader()
        with reader, Native(daemon.path("cam0", "source"), PRODUCER) if source == "native" else daemon.producer() as producer:
            producer.send(b"".join(native.frame(frame) if source == "native" else frame for frame in frames))
            if sink == "native":
                assert [reader.result().payload for _ in frames] == frames
            elif sink == "raw":
                assert reader.read(512 * 10) == b"".join(frames)
            else:
                header = bytearray()
                while not header.endswith(b"\n"):
                    header += reader.read(1)
                assert header.startswith(b"YUV4MPEG2 W32 H16 ")
                assert reader.read(10 * 518) == b"".join(b"FRAME\n" + frame for frame in frames)
        daemon.account(came=10, emitted=10)


def test_auto_tells_native_from_y4m(place):
    entry = pipeline(GRAY, source={"protocol": "auto"})
    with Daemon(place, {"cam0": entry}) as daemon, daemon.reader() as reader:
        with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            producer.send_frame(b"n" * 512)
            assert reader.read(512) == b"n" * 512
        wait_until(lambda: daemon.status()["pipelines"]["cam0"]["sessions"] == 0, "the producer left")
        with daemon.producer() as producer:
            producer.send(b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n" + b"y" * 512)
            assert reader.read(512) == b"y" * 512
        daemon.account(came=2, emitted=2)


def test_every_split_of_hello_and_frame(place):
    stream = native.hello(BOTH) + native.frame(b"x" * 512, sequence=7)
    with Daemon(place, {"cam0": replying()}) as daemon:
        for size in (1, 3, 16, 31, 33, 47, 81):
            with Client(daemon.path("cam0", "source")) as client:
                for at in range(0, len(stream), size):
                    client.send(stream[at:at + size])
                answer = client.read(16 + 256 + 96 + 512)
                assert answer[272:].startswith(b"FRMD\4\0") and answer.endswith(inverted(b"x" * 512))
                client.finish()
                assert client.rest() == b""


def test_what_no_native_client_says_is_answered_with_an_error(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        sayings = [(b"YUV4MPEG2 W32 H16\n", native.E_PROTOCOL), (native.hello(BOTH, version=0), native.E_VERSION),
                   (native.hello(BOTH, version=2), native.E_VERSION), (native.hello(BOTH, version=65535), native.E_VERSION),
                   (native.long_hello(BOTH, 0, flags=1 << 31, version=2), native.E_VERSION),
                   (native.hello(PRODUCER), native.E_ROLE), (native.hello(77), native.E_PROTOCOL),
                   (native.frame(b"x" * 512), native.E_PROTOCOL)]
        for saying, code in sayings:
            with Client(daemon.path("cam0", "source")) as client:
                client.send(saying)
                answer = client.rest()
                assert answer.startswith(b"FRMD\5\0") and struct.unpack("<I", answer[16:20])[0] == code, saying
                assert code != native.E_VERSION or (b"speaks version 1 of the protocol" in answer and b": use a client library" in answer)
        with Native(daemon.path("cam0", "source"), BOTH) as client:  # and nobody else noticed
            client.send_frame(b"x" * 512)
            assert client.result().payload == inverted(b"x" * 512)
        daemon.account(came=1, emitted=1)


@pytest.mark.parametrize("expected,saying,what", [
    ("native", b"YUV4MPEG2 W32 H16\n", b"this is a y4m stream"), ("native", b"x" * 48, b"does it send raw frames?"),
    ("native", b"GET / HTTP/1.1\r\n\r\n", b"this is HTTP"), ("y4m", native.hello(PRODUCER), b"this is framed's native protocol"),
    ("auto", b"GET / HTTP/1.1\r\n\r\n", b"this is HTTP")])
def test_who_speaks_another_protocol_is_told_which(place, expected, saying, what):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": expected})}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            client.send(saying)
            assert what in client.rest()
        daemon.wait_log(what.decode())


@pytest.mark.parametrize("wrong", [b"FRMD\4\0\0\0" + bytes(8), b"x" * 48, native.frame(b"x" * 511), native.hello(BOTH)])
def test_a_client_that_breaks_the_protocol_later_is_told_so(place, wrong):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            client.send_frame(b"x" * 512)
            client.send(wrong)
            assert client.result().payload == inverted(b"x" * 512)  # complete frames are never lost
            with pytest.raises(Refused) as refused:
                client.message()
            assert refused.value.code == native.E_PROTOCOL
            assert client.rest() == b""
        daemon.account(came=2, emitted=1, invalid=1)


def test_one_more_producer_is_told_that_the_seat_is_taken(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH):
            with pytest.raises(Refused, match="already has its 1 producer") as refused:
                Native(daemon.path("cam0", "source"), BOTH)
            assert refused.value.code == native.E_BUSY


def test_nobody_holds_a_seat_by_saying_nothing(place):
    entry = replying()
    entry["source"]["timeout"] = "4s"  # those who come first are still silent when the last one has come
    with Daemon(place, {"cam0": entry}) as daemon:
        silent = [Client(daemon.path("cam0", "source")) for _ in range(100)]
        with Client(daemon.path("cam0", "source")) as late:
            assert struct.unpack("<I", late.rest()[16:20])[0] == native.E_BUSY
        for client in silent:
            assert struct.unpack("<I", client.rest()[16:20])[0] in (native.E_TIMEOUT, native.E_BUSY)
            client.close()
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            client.send_frame(b"x" * 512)
            assert client.result().payload == inverted(b"x" * 512)


def test_stamps_and_deadlines_are_the_clients(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Native(daemon.path("cam0", "source"), BOTH) as client:
            now = time.monotonic_ns()
            client.send_frame(b"a" * 512, sequence=1, timestamp=now - 10**9)
            client.send_frame(b"b" * 512, sequence=2, timestamp=now + 10**12)  # in the future: invalid
            client.send_frame(b"c" * 512, sequence=3, deadline=now - 1)        # late
            client.send_frame(b"d" * 512, sequence=4, deadline=now + 10**12)
            first, last = client.result(), client.result()
            assert (first.sequence, first.dropped, first.timestamp) == (1, 0, now - 10**9)
            assert first.steps[-1] >= 10**9
            assert (last.sequence, last.dropped, last.payload) == (4, 2, inverted(b"d" * 512))
        daemon.account(came=4, emitted=2, invalid=1, late=1)
