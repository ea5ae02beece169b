"""Plain socket clients: what a camera's script and a reader's script would do."""

import fcntl
import socket
import struct
import termios

import numpy as np

from harness.waiting import limit, wait_until


class Client:
    def __init__(self, path, buffer=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(limit(20))
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        try:
            self.socket.connect(str(path))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.socket.close()

    @property
    def closed(self):
        return self.socket.fileno() < 0

    def send(self, data):
        self.socket.sendall(data)

    def wait_read(self):
        """Until the other side has read all that was sent."""
        def unread():
            return struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)))[0]
        wait_until(lambda: unread() == 0, lambda: f"the last {unread()} bytes are read")

    def finish(self):
        """Ends the stream; what comes back can still be read."""
        self.socket.shutdown(socket.SHUT_WR)

    def read(self, size):
        """Exactly `size` bytes; a stream that ends before is an error."""
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = self.socket.recv_into(view[got:])
            if count == 0:
                raise EOFError(f"the stream ended after {got} of {size} bytes")
            got += count
        return bytes(data)

    def rest(self):
        """Everything until the other side ends; a reset is an end too (it left bytes of ours unread)."""
        parts = []
        while True:
            try:
                part = self.socket.recv(1 << 20)
            except ConnectionResetError:
                part = b""
            if not part:
                return b"".join(parts)
            parts.append(part)


class Producer(Client):
    def send_split(self, data, sizes):
        """Sends `data` in writes of the given sizes, over and over."""
        view, turn = memoryview(data), 0
        while view:
            size = sizes[turn % len(sizes)]
            self.socket.sendall(view[:size])
            view, turn = view[size:], turn + 1


class Reader(Client):
    def frames(self, count, shape, dtype=np.uint8):
        """The next `count` results as an array with one more axis."""
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.read(count * size), dtype).reshape((count, *shape))
