"""What a native client can do that means harm: to the memory it shares, to its connection and in its messages."""

import contextlib
import ctypes
import fcntl
import os
import random
import socket
import struct

from harness.clients import Client
from harness import native
from harness.native import BOTH, Refused, Shared

SIZE = 512  # of a frame
PUNCH_HOLE, KEEP_SIZE = 2, 1
LIBC = ctypes.CDLL(None, use_errno=True)


def refused(call, *arguments):
    try:
        call(*arguments)
    except OSError:
        return
    raise AssertionError(f"{call.__name__}{arguments} was not refused")


def scribble(client, chance):
    """Any bytes anywhere in the control memory, also where the daemon writes."""
    for _ in range(chance.randrange(1, 30)):
        at = chance.randrange(client.welcome.control_bytes)
        some = chance.randbytes(chance.choice([1, 4, 8, 64]))[:client.welcome.control_bytes - at]
        client.control[at:at + len(some)] = some


def scribble_all(client, chance):
    client.control[:] = chance.randbytes(client.welcome.control_bytes)


def lie_about_a_slot(client, chance):
    client.submit(chance.choice([chance.randrange(2**32), client.welcome.slots, 0, 1]), ring=chance.random() < 0.5)


def lie_in_every_field(client, chance):
    at = client.SUBMISSIONS + client.submitted % client.RING * 40
    client.control[at:at + 40] = struct.pack("<I", chance.randrange(3)) + chance.randbytes(36)
    client.submitted += 1
    client.word(0, client.submitted)


def run_away(client, chance):
    """Cursors anywhere."""
    client.word(chance.choice([0, 64]), chance.choice([chance.randrange(2**32), client.submitted + chance.randrange(40)]))


def flicker(client, chance):
    """Sleeping flags of both sides that never stay, beside frames."""
    for n in range(200):
        client.word(128, n % 2)
        client.word(4096 + 64, chance.randrange(2))
        if n % 40 == 0 and client.free:
            client.submit(client.free.pop(), ring=chance.random() < 0.5)


def change_in_flight(client, chance):
    """Frames and submissions that change while the daemon looks at them."""
    if client.free:
        client.submit(client.free.pop(), b"x" * SIZE)
    for _ in range(100):
        client.input[:SIZE] = chance.randbytes(1) * SIZE
        at = client.SUBMISSIONS + chance.randrange(client.RING) * 40
        client.control[at:at + 4] = chance.randbytes(4)


def punch_holes(client, chance):
    for descriptor in client.descriptors:
        LIBC.fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(0), ctypes.c_long(1 << 20))
        if client.free:
            client.submit(client.free.pop(), ring=chance.random() < 0.5)


def resize(client, _chance):
    for descriptor in client.descriptors:
        for size in (0, 1 << 30):
            refused(os.ftruncate, descriptor, size)
        refused(fcntl.fcntl, descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def make_blocking(client, _chance):
    """Clears O_NONBLOCK on whatever the two could share, and copies it."""
    for descriptor in (*client.descriptors, client.socket.fileno()):
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        copy = os.dup(descriptor)
        fcntl.fcntl(copy, fcntl.F_SETFL, os.O_APPEND)
        os.close(copy)
    client.socket.settimeout(0.1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    client.word(128, 1)
    client.submit(0)


def pass_descriptors(client, chance):
    for _ in range(chance.randrange(1, 20)):
        own = [chance.choice([*client.descriptors, client.socket.fileno(), 0]) for _ in range(chance.randrange(1, 200))]
        socket.send_fds(client.socket, [b"\0"], own, socket.MSG_DONTWAIT)


def flood(client, _chance):
    client.socket.settimeout(0.2)
    for _ in range(50):
        client.send(bytes(1 << 16))


def say_something(client, chance):
    client.send(chance.choice([b"\1", b"FRMD", native.hello(BOTH, 1), native.frame(b"x" * SIZE), chance.randbytes(100)]))


def say_urgently(client, _chance):
    client.socket.send(b"\0", socket.MSG_OOB)


def half_close(client, chance):
    client.socket.shutdown(chance.choice([socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR]))


ACTS = [scribble, scribble_all, lie_about_a_slot, lie_in_every_field, run_away, flicker, change_in_flight, punch_holes, resize,
        make_blocking, pass_descriptors, flood, say_something, say_urgently, half_close]


def linger(path, seed, act=None):
    """One life with shared memory: some acts, or the one given, until thrown out or tired of it."""
    chance = random.Random(seed)
    with contextlib.suppress(OSError, EOFError, Refused), Shared(path, buffer=chance.choice([None, 4096])) as client:
        client.socket.settimeout(0.1)
        for _ in range(chance.randrange(1, 6)):
            (act or chance.choice(ACTS))(client, chance)
        if chance.random() < 0.3:
            client.rest()


def knock(path, seed):
    """One that does not come so far: half a HELLO, a wrong one, one with descriptors, or none."""
    chance = random.Random(seed)
    hello = bytearray(native.hello(BOTH, chance.randrange(2)))
    hello[chance.randrange(32)] ^= chance.choice([0, 1 << chance.randrange(8)])
    with contextlib.suppress(OSError), Client(path) as client:
        client.socket.settimeout(0.1)
        cut = chance.choice([0, 1, 3, 15, 16, 31, 32, 32])
        if chance.random() < 0.3:
            socket.send_fds(client.socket, [bytes(hello[:cut]) or b"F"], [0] * 100)
        else:
            client.send(bytes(hello[:cut]))
        if chance.random() < 0.3:
            client.socket.recv(1)


class Lingering:
    """A TCP connection whose last close waits, for longer than any test: nobody reads what it has sent."""

    SECONDS = 200

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.stream = socket.create_connection(server.getsockname())
            self.other, _ = server.accept()
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, self.SECONDS))
        self.stream.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.stream.send(bytes(1 << 16))

    def leave_to(self, sock, data):
        """Passes it along with some bytes, so that whoever drops it there closes it. Linux 6.16 does not even send it."""
        try:
            socket.send_fds(sock, [data], [self.stream.fileno()])
        except OSError as error:
            self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
            if isinstance(error, PermissionError):
                sock.sendall(data)
        self.stream.close()

    def close(self):
        """Whoever waits for it to end goes on."""
        self.other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.other.close()


def attack(path, seeds):
    for seed in seeds:
        (knock if seed % 4 == 0 else linger)(path, seed)
