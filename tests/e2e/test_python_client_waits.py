"""Waits of the Python client: of any length, in vain, and while the caller holds everything."""

import math
import select
import socket
import struct

import pytest

from harness import Background, Daemon, limit
from harness.python_client import TRANSPORTS, connect, replying

import framed
from framed.wire import Code, Role

pytestmark = [pytest.mark.host, pytest.mark.plain]

SLOTS, SIZE = 2, 16
HELLO, HELLO_OF_ONE_THAT_COMES_BACK = 32, 40


@TRANSPORTS
@pytest.mark.parametrize("seconds", [1e7, 1e30, math.inf], ids=str)
def test_a_wait_may_be_as_long_as_one_likes(place, transport, seconds):
    with Daemon(place, {"cam0": replying()}) as daemon:
        path = daemon.path("cam0", "source")
        with framed.connect(path, transport=transport, spin=0, timeout=seconds, reconnect_for=seconds) as client:
            for n in range(100):
                client.submit(client.acquire(timeout=seconds), n)
                with client.receive(timeout=seconds) as result:
                    assert result.sequence == n
            assert client.poll(framed.Event.ROOM, seconds) == framed.Event.ROOM
        daemon.account(came=100, emitted=100)


@TRANSPORTS
def test_frames_of_the_wrong_size_leave_their_places(place, transport):
    """One that cannot be filled in is an error of its own, and the client goes on with all places that it had."""
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon, transport=transport) as client:
            for _ in range(2 * client.welcome.slots + 2):
                with pytest.raises(ValueError, match="a frame has 512 bytes"):
                    list(client.process([b"too short"]))
            assert [result.sequence for result in client.process([bytes(512)] * 9)] == list(range(9))
        daemon.account(came=9, emitted=9)


@TRANSPORTS
def test_no_place_for_any_frame_is_told(place, transport):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with connect(daemon, transport=transport) as client:
            held = [client.acquire() for _ in range(client.welcome.slots + (0 if transport else 2))]
            with pytest.raises(framed.Error, match="are held by this program"):
                list(client.process([bytes(512)]))
            held.pop().cancel()
            assert [result.sequence for result in client.process([bytes(512)] * 9)] == list(range(9))
        daemon.account(came=9, emitted=9)


class Server:
    """Listens, welcomes one client after the other, and gives each as many results as there are slots."""

    def __init__(self, path, role):
        self.path, self.role = str(path), role
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def welcome(self, hello):
        connection, _ = self.listener.accept()
        assert len(connection.recv(hello, socket.MSG_WAITALL)) == hello
        body = struct.pack("<IIIIQQQQQQ64s64s64s", 1, self.role, 0, SLOTS, SIZE, SIZE, 0, 0, 0, 1, b"fake", b"", b"")
        connection.sendall(struct.pack("<4sHHQ", b"FRMD", 2, 0, len(body)) + body)
        for n in range(SLOTS):
            result = struct.pack("<QQq8IIIQQ", n, 0, 0, *[0] * 8, 0, 0, n, 0)
            connection.sendall(struct.pack("<4sHHQ", b"FRMD", 4, 0, len(result) + SIZE) + result + bytes(SIZE))
        return connection


def take_all(client):
    return [client.receive(limit(10)) for _ in range(SLOTS)]


@pytest.mark.parametrize("role", [Role.CONSUMER, Role.BOTH], ids=lambda role: role.name.lower())
def test_a_loop_sleeps_through_an_end_while_all_results_are_held(place, role):
    with Server(place / "fake.sock", role) as server:
        serving = Background(server.welcome, HELLO_OF_ONE_THAT_COMES_BACK)
        with framed.connect(server.path, role, reconnect_for=limit(20)) as client:
            held = take_all(client)
            client.arm(framed.Event.RESULT)
            serving.join().close()
            for _ in range(3):
                assert not client.arm(framed.Event.RESULT)[0] & framed.Event.RESULT
                assert not select.select([client.fileno()], [], [], 0)[0]
            held[0].release()
            serving = Background(server.welcome, HELLO_OF_ONE_THAT_COMES_BACK)
            with client.receive(limit(10)) as result:
                assert result.sequence == 0
            serving.join().close()


@pytest.mark.parametrize("role", [Role.CONSUMER, Role.BOTH], ids=lambda role: role.name.lower())
def test_a_loop_is_told_of_an_end_for_good_while_all_results_are_held(place, role):
    with Server(place / "fake.sock", role) as server:
        serving = Background(server.welcome, HELLO)
        with framed.connect(server.path, role, reconnect_for=0) as client:
            held = take_all(client)
            serving.join().close()
            with pytest.raises(framed.Error) as told:
                client.arm(framed.Event.RESULT)
            assert told.value.code == Code.CLOSED and len(held) == SLOTS


def test_a_wait_in_vain_while_all_results_are_held_costs_nothing(place):
    with Server(place / "fake.sock", Role.CONSUMER) as server:
        serving = Background(server.welcome, HELLO_OF_ONE_THAT_COMES_BACK)
        with framed.connect(server.path, Role.CONSUMER, reconnect_for=limit(20)) as client:
            held, sleeps, sleep = take_all(client), [], client._sleep
            client._sleep = lambda *arguments: (sleeps.append(arguments), sleep(*arguments))
            serving.join().close()
            assert client.poll(framed.Event.RESULT, 0.05) == 0
            assert len(sleeps) <= 2 and len(held) == SLOTS
