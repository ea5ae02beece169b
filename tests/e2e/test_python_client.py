"""The Python client against the daemon: both transports, with and without numpy, and everything that can end it."""

import contextlib
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from harness import BINARY, Background, Daemon, environment, limit, numbered, pipeline, wait_until

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/client/python"
if not PACKAGE.exists():
    pytest.skip("the portable folder has no Python client", allow_module_level=True)
sys.path.insert(0, str(PACKAGE / "src"))
import framed  # noqa: E402
from framed import formats, wire  # noqa: E402
from framed.wire import Code, Fate, Role, Transport  # noqa: E402

GRAY = {"pixels": "gray", "width": 32, "height": 16}
LARGE = {"pixels": "gray", "width": 1024, "height": 512}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
TRANSPORTS = pytest.mark.parametrize("transport", list(Transport), ids=lambda transport: transport.name.lower())


def replying(format=GRAY, stages=(INVERT,), **keys):
    return pipeline(format, stages=stages, source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}, **keys)


def sunk(format=GRAY, **keys):
    return pipeline(format, stages=[INVERT], source={"protocol": "native"}, sink={"protocol": "native"}, **keys)


def connect(daemon, role=Role.BOTH, **options):
    end = "sink" if role == Role.CONSUMER else "source"
    return framed.connect(daemon.path("cam0", end), role, timeout=limit(10), **options)


def run_python(program, *arguments, **options):
    paths = {"PYTHONPATH": str(PACKAGE / "src")}
    return subprocess.run([sys.executable, *options.pop("python", ()), "-c", program, *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit(40), check=False,
                          env=environment(paths), **options)


# -- frames and results ------------------------------------------------------------------------------------------------


@TRANSPORTS
@pytest.mark.parametrize("format,slots,count", [(GRAY, 1, 100), (GRAY, 4, 500), (LARGE, 3, 60)])
def test_frames_are_processed_in_order(place, format, slots, count, transport):
    size = format["width"] * format["height"]
    frames = numbered(count, size)
    with Daemon(place, {"cam0": replying(format, slots=slots)}) as daemon:
        with connect(daemon, transport=transport) as client:
            assert client.transport == transport and client.welcome.slots == slots
            assert client.welcome.input_format == f"gray {format['width']}x{format['height']}"
            seen = 0
            for result in client.process(frame.tobytes() for frame in frames):
                assert (result.sequence, result.dropped, result.fate, result.session) == (seen, 0, Fate.EMITTED, 0)
                assert result.memory == bytes(255 - frames[seen]) and result.array.shape == (format["height"], format["width"])
                assert result.flags == (framed.STATE_RESTARTED if seen == 0 else 0)
                assert result.steps.total > 0 and result.timestamp > 0
                seen += 1
            assert seen == count
        daemon.account(came=count, emitted=count)


@TRANSPORTS
@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("spin", [0.0, 0.001])
def test_one_at_a_time(place, transport, completion, spin):
    with Daemon(place, {"cam0": replying(completion=completion)}) as daemon:
        with connect(daemon, transport=transport, spin=spin) as client:
            for n in range(300):
                frame = client.acquire()
                frame.array[...] = n % 256
                client.submit(frame, sequence=n, timestamp=(stamp := time.monotonic_ns()))
                with client.receive() as result:
                    assert (result.sequence, result.timestamp) == (n, stamp)
                    assert (result.array == 255 - n % 256).all()
        daemon.account(came=300, emitted=300)


@TRANSPORTS
def test_arrays_filled_once_are_submitted_again_and_again(place, transport):
    with Daemon(place, {"cam0": replying(LARGE, slots=3)}) as daemon:
        with connect(daemon, transport=transport) as client:
            held = [client.acquire() for _ in range(3)]
            for n, frame in enumerate(held):
                frame.array[...] = 10 * n
            for n, frame in enumerate(held):
                client.submit(frame, n)
            for n in range(3, 100):
                with client.receive() as result:
                    assert result.sequence == n - 3 and result.array[-1, -1] == 255 - 10 * ((n - 3) % 3)
                client.submit(client.acquire(), n)
            client.finish()
            assert [result.sequence for result in client] == [97, 98, 99]
            assert client.receive() is None
        daemon.account(came=100, emitted=100)


def test_cursors_wrap_around(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon) as client:
            for n in range(70):  # more than four times around the rings
                client.submit(client.acquire(), n)
                client.receive().release()
            assert (client._submitted, client._seen, client._taken) == (70, 70, 70)
        daemon.account(came=70, emitted=70)


@TRANSPORTS
def test_producers_and_consumers(place, transport):
    with Daemon(place, {"cam0": sunk()}) as daemon:
        with connect(daemon, Role.CONSUMER, transport=transport) as first, connect(daemon, Role.CONSUMER) as second:
            daemon.wait_view("the consumers are there", lambda view: view["readers"] == 2)
            with connect(daemon, Role.PRODUCER, transport=transport) as producer:
                for n in range(200):
                    frame = producer.acquire()
                    frame.fill(bytes([n]) * 512)
                    producer.submit(frame, n)
                    for consumer in (first, second) if n % 2 == 1 else ():
                        for of in (n - 1, n):
                            with consumer.receive(limit(10)) as result:
                                assert result.sequence == of and result.memory == bytes([255 - of]) * 512
                with pytest.raises(framed.Error, match="a producer gets no results"):
                    producer.receive()
            daemon.account(came=200, emitted=200)


@TRANSPORTS
def test_a_producer_that_leaves_waits_for_its_frames(place, transport):
    """All are emitted when its block is left, although the reader is slow to come."""
    with Daemon(place, {"cam0": pipeline(LARGE, stages=[INVERT], source={"protocol": "native"})}) as daemon:
        def produce():
            with connect(daemon, Role.PRODUCER, transport=transport) as producer:
                for n in range(10):
                    frame = producer.acquire()
                    frame.fill(bytes([n]) * (512 * 1024))
                    producer.submit(frame, n)
        producing = Background(produce)
        daemon.wait_view("frames wait", lambda view: view["frames"]["in_flight"] > 0)
        assert not producing.done
        with daemon.reader() as reader:
            for n in range(10):
                assert reader.read(512 * 1024) == bytes([255 - n]) * (512 * 1024)
            producing.join()
        daemon.account(came=10, emitted=10)


def test_what_comes_at_the_last_moment_gives_a_producer_room(place):
    """Between its look and its answer, completions come: then not all frames are held by the caller."""
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "native"}, sink={"overload": "drop"})}) as daemon:
        with connect(daemon, Role.PRODUCER) as producer:
            for n in range(producer.welcome.slots):
                producer.submit(producer.acquire(), n)
            daemon.account(came=2, unread=2)
            wait_until(lambda: producer._words[wire.COMPLETED] == 2, "both are given back")
            take_all, producer._take_all = producer._take_all, lambda: None
            assert not producer._all_held()
            producer._take_all = take_all
            producer.acquire(limit(10)).cancel()


def test_a_consumer_sees_the_end(place):
    with Daemon(place, {"cam0": sunk()}) as daemon:
        with connect(daemon, Role.CONSUMER, reconnect_for=0.1) as consumer:
            daemon.wait_view("the consumer is there", lambda view: view["readers"] == 1)
            results = Background(lambda: [result.sequence for result in consumer])
            with connect(daemon, Role.PRODUCER) as producer:
                for n in range(5):
                    producer.submit(producer.acquire(), n)
            daemon.account(came=5, emitted=5)
            daemon.finish()
            try:
                assert results.join() == [0, 1, 2, 3, 4]
            except framed.Error as error:
                assert error.code == Code.STOPPING


# -- what is dropped -----------------------------------------------------------------------------------------------------


def test_shared_memory_tells_every_fate(place):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon) as client:
            client.submit(client.acquire(), 1, timestamp=2**62)
            client.submit(client.acquire(), 2, deadline=1)
            client.submit(client.acquire(), 3)
            results = [client.receive() for _ in range(3)]
            fates = {result.sequence: result.fate for result in results}
            assert fates == {1: Fate.INVALID, 2: Fate.LATE, 3: Fate.EMITTED}
            assert [result.sequence for result in results if result.memory is not None] == [3]
            for result in results:
                result.release()
                result.release()
            client.submit(client.acquire(), 4, deadline=1)
            client.submit(client.acquire(), 5)
            client.finish()
            assert [result.sequence for result in client] == [5]
        daemon.account(came=5, emitted=2, late=2, invalid=1)


def test_a_connection_tells_how_many_were_dropped(place):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon, transport=Transport.STREAM) as client:
            for n in range(4):
                client.submit(client.acquire(), n, deadline=1 if n in (1, 2) else 0)
            client.finish()
            assert [(result.sequence, result.dropped) for result in client] == [(0, 0), (3, 2)]
        daemon.account(came=4, emitted=2, late=2)


# -- errors --------------------------------------------------------------------------------------------------------------


@TRANSPORTS
def test_errors_of_the_daemon_have_code_and_sentence(place, transport):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon, transport=transport):
            with pytest.raises(framed.Error, match="already has its 1 producer") as refused:
                connect(daemon, transport=transport)
            assert refused.value.code == Code.BUSY and "1 producer" in refused.value.sentence
        with pytest.raises(framed.Error) as refused:
            connect(daemon, Role.PRODUCER, transport=transport)
        assert refused.value.code == Code.ROLE
        daemon.settled = True


def test_what_listens_is_not_native(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "raw"})}) as daemon:
        with pytest.raises(framed.Error, match="this is no native socket: a y4m stream is expected here") as refused:
            connect(daemon, Role.PRODUCER)
        assert refused.value.code == Code.DAEMON
    missing = str(place / "nothing.sock")
    with pytest.raises(FileNotFoundError) as failed:
        framed.connect(missing)
    assert failed.value.filename == missing
    with pytest.raises(OSError, match="too long"):
        framed.connect("/tmp/" + "x" * 200)


@pytest.mark.host
def test_a_socket_that_says_nothing_is_given_up(place):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "mute.sock"))
        listener.listen(1)
        with pytest.raises(TimeoutError, match="does the socket speak the native protocol"):
            framed.connect(place / "mute.sock", timeout=0.05)


MISTAKES = {
    "a frame twice": (lambda client, frame: (client.submit(frame), client.submit(frame)), "and once"),
    "more than there are slots": (lambda client, frame: [client.acquire() for _ in range(5)], "are held by this program"),
    "a wait for nothing": (lambda client, frame: client.receive(), "no frame is under way"),
    "a frame that was cancelled": (lambda client, frame: (frame.cancel(), frame.cancel(), client.submit(frame)), "and once"),
    "a frame acquired before the end": (lambda client, frame: (client.finish(), client.submit(frame)), "after finish"),
    "a frame after the end": (lambda client, frame: (client.finish(), client.acquire()), "after finish"),
    "a drained client that receives": (lambda client, frame: client.drain(), "to be received"),
    "a closed one": (lambda client, frame: (client.close(), client.submit(frame)), "closed"),
}


@TRANSPORTS
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(place, transport, mistake):
    make, said = MISTAKES[mistake]
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon, transport=transport) as client:
            with pytest.raises(framed.Error, match=said) as told:
                make(client, client.acquire())
            assert told.value.code == Code.USAGE
        daemon.quiet()
        daemon.settled = True


@TRANSPORTS
def test_wrong_values_change_nothing(place, transport):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon, transport=transport) as client:
            frame = client.acquire()
            for wrong in (b"x" * 511, b"x" * 513):
                with pytest.raises(ValueError, match="a frame has 512 bytes"):
                    frame.fill(wrong)
            with pytest.raises(ValueError, match=r"a frame is uint8\[16, 32\]"):
                frame.fill(numbered(1, 512)[0].reshape(32, 16))
            for wrong in (-1, 2**64):
                with pytest.raises(ValueError, match="64 bits"):
                    client.submit(frame, wrong)
            frame.fill(numbered(1, 512)[0].reshape(16, 32))
            client.submit(frame, 2**64 - 1)
            with client.receive() as result:
                assert result.sequence == 2**64 - 1
            with pytest.raises(TimeoutError):
                client.receive(0.01)
            assert client.poll(framed.Event.RESULT, 0) == framed.Event.ROOM
        daemon.account(came=1, emitted=1)


@TRANSPORTS
@pytest.mark.parametrize("role", [Role.PRODUCER, Role.BOTH])
def test_a_daemon_that_dies_is_noticed(place, transport, role):
    unread = pipeline(GRAY, source={"protocol": "native"}, sink={"overload": "drop"})
    with Daemon(place, {"cam0": replying() if role == Role.BOTH else unread}) as daemon:
        client = connect(daemon, role, transport=transport, reconnect_for=0.1)

        def go_on():
            while True:
                client.submit(client.acquire())
                if role == Role.BOTH:
                    client.receive().release()
        with client:
            going = Background(go_on)
            wait_until(lambda: daemon.status()["pipelines"]["cam0"]["frames"]["in"] > 3, "frames are on their way")
            daemon.kill()
            for left in daemon.socket_paths():
                pathlib.Path(left).unlink()
            with pytest.raises(framed.Error, match="(closed the connection|broke).*did not come back") as told:
                going.join()
            assert told.value.code == Code.CLOSED
            with pytest.raises(framed.Error):
                client.acquire()
        daemon.settled = True


@TRANSPORTS
def test_a_client_connects_again_to_a_daemon_that_was_restarted(place, transport):
    """By another client, as this one was told not to; what the caller holds of it does no harm."""
    kept = []
    for n in range(3):
        with Daemon(place, {"cam0": replying()}) as daemon:
            client = connect(daemon, transport=transport, reconnect_for=0)
            for array in kept:
                array.copy()
            client.submit(client.acquire(), n)
            result = client.receive()
            assert result.sequence == n
            result.release()
            kept.append(result.array)
            daemon.signal(signal.SIGTERM)
            with pytest.raises(framed.Error) as told:
                while True:
                    client.poll(framed.Event.RESULT, limit(10)) or pytest.fail("the end of the daemon was not noticed")
                    client.receive().release()
            assert told.value.code in (Code.STOPPING, Code.CLOSED, Code.USAGE)
            client.close()
            daemon.ends()


def test_clients_leave_no_descriptors_behind(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(20):
            with connect(daemon) as client:
                client.submit(client.acquire())
                client.receive()
            del client
            wait_until(lambda: daemon.status()["pipelines"]["cam0"]["sessions"] == 0, "it has left")
        assert set(os.listdir("/proc/self/fd")) == before
        daemon.quiet()
        daemon.settled = True


# -- a daemon that lies --------------------------------------------------------------------------------------------------


def lie(place, answer, role=Role.CONSUMER, descriptors=()):
    """Connects to somebody who answers HELLO with `answer`, and returns the client."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "liar.sock"))
        listener.listen(1)

        def speak():
            peer, _ = listener.accept()
            with peer:
                peer.recv(32, socket.MSG_WAITALL)
                socket.send_fds(peer, [answer], list(descriptors))
                peer.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while peer.recv(1024):
                        pass
        speaking = Background(speak)
        try:
            return framed.connect(place / "liar.sock", role, timeout=limit(10), reconnect_for=0), speaking
        except BaseException:
            speaking.join()
            raise


def welcome(role=3, transport=0, slots=2, size=16, stride=0, control=0):
    body = struct.pack("<IIIIQQQQQQ64s64s64s", 1, role, transport, slots, size, size, stride, stride, control, 1, b"liar", b"", b"")
    return struct.pack("<4sHHQ", b"FRMD", 2, 0, 256) + body


LIES = {
    "no slots": welcome(2, slots=0),
    "too many slots": welcome(2, slots=17),
    "another role": welcome(1),
    "a transport nobody asked for": welcome(2, transport=1, stride=64, control=16384),
    "empty results": welcome(2, size=0),
    "a short welcome": struct.pack("<4sHHQ", b"FRMD", 2, 0, 8) + bytes(8),
    "a long error": struct.pack("<4sHHQ", b"FRMD", 5, 0, 2**40),
    "a short error": struct.pack("<4sHHQ", b"FRMD", 5, 0, 4) + bytes(4),
    "nothing of ours": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.host
@pytest.mark.parametrize("what", LIES)
def test_a_welcome_that_lies_is_not_believed(place, what):
    with pytest.raises(framed.Error) as told:
        lie(place, LIES[what])
    assert told.value.code == Code.DAEMON


@pytest.mark.host
def test_memory_that_could_shrink_is_not_mapped(place):
    descriptors = [os.memfd_create("liar", os.MFD_ALLOW_SEALING) for _ in range(3)]
    try:
        for descriptor in descriptors:
            os.ftruncate(descriptor, 16384)
        with pytest.raises(framed.Error, match="could become so"):
            lie(place, welcome(transport=1, stride=64, control=16384), Role.BOTH, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.mark.host
@pytest.mark.parametrize("said", [struct.pack("<4sHHQ", b"FRMD", 4, 0, 64 + 17) + bytes(80), b"x" * 100,
                                  struct.pack("<4sHHQ", b"FRMD", 4, 0, 64 + 16) + bytes(70)],
                         ids=["too long", "noise", "cut"])
def test_results_that_lie_end_the_client(place, said):
    client, speaking = lie(place, welcome(2) + said)
    with client, pytest.raises(framed.Error) as told:
        client.receive(limit(10))
    assert told.value.code in (Code.DAEMON, Code.CLOSED)
    speaking.join()


@pytest.mark.host
def test_a_daemon_that_goes_at_once_is_asked_again(place):
    """It has said its welcome and is gone before the client has looked, again and again."""
    path = str(place / "flicker.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)

        def serve():
            connection, _ = listener.accept()
            assert len(connection.recv(40, socket.MSG_WAITALL)) == 40
            connection.sendall(welcome())
            return connection
        serving = Background(serve)
        with framed.connect(path, reconnect_for=limit(20)) as client:
            connection = serving.join()
            for n in range(4):
                if n < 2:
                    client.submit(client.acquire(), n)
                connection.close()
                while not select.select([listener], [], [], 0)[0]:
                    assert not client.poll(framed.Event.RESULT, 0.001) & framed.Event.END
                connection = serve()
            client.poll(framed.Event.RESULT, 0.001)
            sent = connection.recv(2 * 64, socket.MSG_WAITALL)
            assert [struct.unpack_from("<Q", sent, at + 16)[0] for at in (0, 64)] == [0, 1]
            connection.close()


# -- views ---------------------------------------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize("words,size,shape,type", [
    ("gray 640x480", 307200, (480, 640), "uint8"), ("rgb24 5x3", 45, (3, 5, 3), "uint8"), ("bgr24 4x2", 24, (2, 4, 3), "uint8"),
    ("nv12 4x4", 24, (6, 4), "uint8"), ("yuv420p 4x3", 20, (5, 4), "uint8"), ("yuv420p 3x3", 17, (17,), "uint8"),
    ("yuyv422 4x2", 16, (2, 4, 2), "uint8"), ("yuyv422 3x2", 16, (2, 4, 2), "uint8"), ("grayf32le 4x2", 32, (2, 4), "float32"),
    ("float32[3,4,5]", 240, (3, 4, 5), "float32"), ("uint8[7]", 7, (7,), "uint8"), ("something new", 9, (9,), "uint8"), ("", 3, (3,), "uint8")])
def test_formats_become_types_and_shapes(words, size, shape, type):
    array = formats.view(memoryview(bytearray(size)), formats.layout_of(words, size))
    assert (array.shape, array.dtype.name, array.nbytes) == (shape, type, size)


@TRANSPORTS
def test_results_have_the_form_of_the_last_stage(place, transport):
    normalize = {"normalize": {"mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}}
    entry = replying({"pixels": "rgb24", "width": 20, "height": 10}, [normalize])
    with Daemon(place, {"cam0": entry}) as daemon:
        with connect(daemon, transport=transport) as client:
            frame = client.acquire()
            assert frame.array.shape == (10, 20, 3)
            frame.array[...] = (0, 51, 255)
            client.submit(frame)
            with client.receive() as result:
                assert result.array.shape == (3, 10, 20) and result.array.dtype == "float32"
                assert [round(float(plane.mean()), 3) for plane in result.array] in ([0.0, 0.2, 1.0], [0.0, 51.0, 255.0])
        daemon.account(came=1, emitted=1)


def test_shared_results_cannot_be_written(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon) as client:
            client.submit(client.acquire())
            with client.receive() as result:
                assert result.memory.readonly and not result.array.flags.writeable
        daemon.account(came=1, emitted=1)


# -- without numpy, in loops of one's own, from other places ---------------------------------------------------------------

PLAIN = """
import sys
sys.modules["numpy"] = None
import framed
client = framed.connect(sys.argv[1], transport=int(sys.argv[2]))
with client:
    frame = client.acquire()
    assert type(frame.array) is memoryview and (frame.array.format, frame.array.shape) == ("f", (2, 3))
    frame.array[1, 2] = 7.0
    client.submit(frame, 5)
    with client.receive() as result:
        print(result.sequence, result.array.tolist())
    for result in client.process(bytes(24) for _ in range(20)):
        assert result.array[0, 0] == 1.0
    print(result.sequence, "numpy" in sys.modules and sys.modules["numpy"])
"""


@TRANSPORTS
@pytest.mark.parametrize("python", [(), ("-S",)], ids=["blocked", "no-site"])
def test_without_numpy(place, transport, python):
    entry = replying({"dtype": "float32", "shape": [2, 3]}, [{"affine": {"scale": 2.0, "offset": 1.0}}])
    with Daemon(place, {"cam0": entry}) as daemon:
        ran = run_python(PLAIN, daemon.path("cam0", "source"), int(transport), python=python)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == ["5 [[1.0, 1.0, 1.0], [1.0, 1.0, 15.0]]", "19 None"]
        daemon.account(came=21, emitted=21)


@TRANSPORTS
def test_a_loop_of_the_callers_own(place, transport):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with connect(daemon, transport=transport) as client:
            sent, seen = 0, []
            while len(seen) < 300:
                wanted = framed.Event.RESULT | (framed.Event.ROOM if sent < 300 else 0)
                there, conditions = client.arm(wanted)
                if there & framed.Event.RESULT:
                    with client.receive() as result:
                        seen.append(result.sequence)
                elif there & framed.Event.ROOM and sent < 300:
                    client.submit(client.acquire(), sent)
                    sent += 1
                else:
                    poller = select.poll()
                    poller.register(client, conditions)
                    assert poller.poll(limit(20) * 1000), "nothing woke the loop"
            assert seen == list(range(300))
        daemon.account(came=300, emitted=300)


@TRANSPORTS
def test_no_wake_up_is_lost(place, transport):
    """Both sides sleep after every frame, at all distances in time from each other."""
    with Daemon(place, {"cam0": replying(completion="callback")}) as daemon:
        with connect(daemon, transport=transport, spin=0.0) as client:
            for n in range(2000):
                client.submit(client.acquire(), n)
                for _ in range(n % 50):
                    pass
                with client.receive(limit(20)) as result:
                    assert result.sequence == n
        daemon.account(came=2000, emitted=2000)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="there is no ffmpeg here")
def test_the_example(place):
    entry = replying({"pixels": "bgr24", "width": 64, "height": 48})
    with Daemon(place, {"cam0": entry}) as daemon:
        ran = subprocess.run([sys.executable, PACKAGE / "examples/camera.py", "--test", "--count", "10",
                              daemon.path("cam0", "source")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit(40), check=False,
                             env=environment({"PYTHONPATH": str(PACKAGE / "src")}))
        numbers = re.findall(r"^frame (\d+): [\d.]+ us, 0 dropped", ran.stdout, re.MULTILINE)
        assert ran.returncode == 0 and numbers == [str(n) for n in range(10)], ran.stdout
        daemon.account(came=10, emitted=10)


@pytest.mark.host
def test_the_version_is_the_daemons():
    said = subprocess.run([BINARY, "--version"], stdout=subprocess.PIPE, text=True, check=True, timeout=limit(20), env=environment()).stdout
    assert framed.__version__ in said.split()


@pytest.mark.host
@pytest.mark.slow
def test_the_package_installs(place):
    """From a copy, since building leaves folders beside the sources; without a network."""
    pytest.importorskip("setuptools", minversion="61")
    pytest.importorskip("pip")
    pytest.importorskip("wheel")
    copy = shutil.copytree(PACKAGE, place / "package", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-index", "--no-deps",
                           "--disable-pip-version-check", "--root-user-action=ignore", "--target", place / "site", copy],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit(50), check=False)
    assert done.returncode == 0, done.stdout
    ran = subprocess.run([sys.executable, "-c", "import framed; print(framed.__version__, framed.__file__)"], text=True, check=True,
                         stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(place / "site")}, timeout=limit(20))
    assert ran.stdout.split() == [framed.__version__, str(place / "site/framed/__init__.py")]
    assert (place / "site/framed/py.typed").exists()
