"""What can go wrong for the Python client: mistakes of its caller's, daemons that refuse it, die or lie, and how it is told."""

import contextlib
import errno
import gc
import os
import pathlib
import resource
import select
import signal
import socket
import struct
import warnings

import pytest

from harness import Background, Daemon, limit, numbered, pipeline, wait_until
from harness.python_client import GRAY, TRANSPORTS, connect, replying

import framed  # which the harness has found
from framed.wire import Code, Role

pytestmark = pytest.mark.plain

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
    with pytest.raises(FileNotFoundError, match="is framed running, and is this its folder?") as failed:
        framed.connect(missing)
    assert failed.value.filename == missing and failed.value.errno == errno.ENOENT
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(missing)
    with pytest.raises(ConnectionRefusedError, match="Connection refused; is framed running?"):
        framed.connect(missing)
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
        gc.collect()  # clients of tests before this one, which would leave within it
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


def test_a_client_that_is_forgotten_leaves_no_descriptors_either(place):
    """Also one that was waited for in a loop of the program's own, for which it has descriptors besides its connection."""
    with Daemon(place, {"cam0": replying()}) as daemon:
        gc.collect()
        before = set(os.listdir("/proc/self/fd"))
        client = connect(daemon)
        client.arm(framed.Event.RESULT)
        assert client.fileno() >= 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            del client
            gc.collect()
        assert set(os.listdir("/proc/self/fd")) == before
        daemon.settled = True


def test_memory_is_waited_for_while_there_are_no_descriptors(place):
    """One that connects anew says so; one that comes back tries again, as a limit that is reached may not be for long."""
    entry = {"cam0": replying()}
    with Daemon(place, entry) as daemon:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = connect(daemon, reconnect_for=limit(20))
        client.submit(client.acquire(), 7)
        client.receive(limit(10)).release()
        daemon.kill()
        assert client.poll(framed.Event.RESULT, 0.01) == framed.Event.ROOM
        with Daemon(place, entry) as another:
            with open("/dev/null", "rb") as lowest:
                free = lowest.fileno()  # the only one below the limit, which is for a socket
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, limits[1]))
            try:
                with pytest.raises(OSError) as told:
                    connect(another, reconnect_for=0)
                assert told.value.errno == errno.EMFILE
                assert client.poll(framed.Event.RESULT, 0.01) == framed.Event.ROOM
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            with client:
                client.submit(client.acquire(), 8)
                with client.receive(limit(10)) as result:
                    assert result.sequence == 8
            another.settled = True
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
