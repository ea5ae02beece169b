"""The stream transport: frames and results are copied through the connection, from and to the client's own memory.

Frames are sent in the order of their submission. Results are read into any free place. Reading continues while a frame waits to
be sent: the daemon may wait until its results are read, and would never accept that frame.

A client that may reconnect keeps sent frames until a RESULT or an ACK reports their fate. A new connection sends all kept
frames again, and its results begin at a message.
"""

import collections
import mmap
import select
import socket
import struct
from typing import Deque, Optional, Sequence

from framed import formats, wire
from framed.client import Client, stamps_too_large
from framed.comeback import Comeback
from framed.frames import AWAY, END, FREE, RESULT, ROOM, Frame, Result
from framed.greeting import Greeting
from framed.wire import ACK_FORM, AGAIN, FRAME_FIXED, FRAME_FORM, HEADER_FORM, RESULT_FORM, Code, Fate, Welcome

LARGE_FRAME, SEND_BUFFER = 64 * 1024, 512 * 1024
HEAD = HEADER_FORM.size + RESULT_FORM.size
FLAGS_AT = HEADER_FORM.size + 24  # of a FRAME
EMITTED = int(Fate.EMITTED)
WITHOUT_WAITING = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL


def places(count: int, size: int) -> "list[memoryview]":
    return [memoryview(mmap.mmap(-1, size))[:size] for _ in range(count)]


class StreamClient(Client):
    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback]) -> None:
        super().__init__(connection, welcome, comeback, 0.0)
        count = max(welcome.slots, 2)  # one is filled while the other is sent
        if self._sends:
            inputs = enumerate(places(count + 2 if self._keeps else count, welcome.input_bytes))
            self._frames = [Frame(self, place, memory, self._input_layout) for place, memory in inputs]
            self._free.extend(self._frames[:count])
            self._spare.extend(self._frames[count:])  # one is being filled and one sent while all others are kept
        self._tune()
        self._outputs = places(count, welcome.output_bytes) if self._receives else []
        self._arrays = [formats.view(memory, self._output_layout) for memory in self._outputs]
        self._empty = collections.deque(range(len(self._outputs)))  # places for results
        self._ready: Deque[Result] = collections.deque()
        self._queue: "Deque[tuple[Frame, bytes]]" = collections.deque()  # unsent frames, with the header of each
        self._sent = 0         # bytes of the first unsent frame
        self._kept: "Deque[tuple[Frame, bytes]]" = collections.deque()  # sent frames without a known fate
        self._released = self._answered = self._acked = 0  # not kept; settled by a result; by an ACK
        self._head = bytearray(HEAD + wire.LONGEST_SENTENCE)
        self._head_bytes = 0   # of the current message, up to its payload
        self._filling = -1     # the place of the result that is being read
        self._filled = 0       # bytes of that result
        self._fields: Sequence[int] = ()
        self._unknown = 0      # submitted frames without a known fate
        self._cannot_send = self._shut = self._ended = False

    def _tune(self) -> None:
        if self._sends and self.welcome.input_bytes > LARGE_FRAME:  # larger writes are faster; the system may grant less
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    # -- frames out ---------------------------------------------------------------------------------------------------

    def _send(self, frame: Frame, sequence: int, timestamp: int, deadline: int) -> None:
        length = FRAME_FIXED + self.welcome.input_bytes
        try:
            head = FRAME_FORM.pack(wire.MAGIC, wire.FRAME, 0, length, sequence, timestamp, deadline, 0, 0)
        except struct.error:
            raise stamps_too_large() from None
        if self._comeback is not None:
            head = head[:FLAGS_AT] + struct.pack("<II", self._comeback.mark(), 0)
        frame._place = AWAY
        self._queue.append((frame, head))
        self._unknown += 1
        self._send_frames()

    def _send_first(self) -> int:
        frame, head = self._queue[0]
        if self._sent < len(head):
            return self._connection.sendmsg([head[self._sent:], frame.memory], [], WITHOUT_WAITING)
        return self._connection.send(frame.memory[self._sent - len(head):], WITHOUT_WAITING)

    def _send_frames(self) -> None:
        while self._queue and not self._cannot_send and self._problem is None and not self._paused:
            try:
                self._sent += self._send_first()
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._cannot_send = True  # the daemon may have sent the reason, which is read next
                return
            frame, head = self._queue[0]
            if self._sent == len(head) + self.welcome.input_bytes:
                self._kept.append(self._queue.popleft())
                self._sent = 0
                self._release_kept()
        self._finish()

    def _release_kept(self) -> None:
        """Releases the frames whose fate the daemon reported, but only frames that were sent."""
        fated = max(self._acked, self._answered)
        while self._kept and (not self._keeps or self._released < fated):
            frame = self._kept.popleft()[0]
            self._released += 1
            frame._place = FREE
            self._free.append(frame)

    def _finish(self) -> None:
        """Shuts down the sending half once everything is sent."""
        if self._finished and not self._queue and not self._shut and not self._paused:
            self._shut = True
            try:
                self._connection.shutdown(socket.SHUT_WR)
            except OSError:
                self._cannot_send = True

    def _under_way(self) -> int:
        return 1 if self._ready else len(self._queue) + len(self._kept) if self._keeps else self._unknown

    def _all_held(self) -> bool:
        self._look()
        stuck = self._receives and not self._may_read() and not self._ended
        return not self._has_room() and (stuck or not self._queue and not self._kept)

    # -- results in ---------------------------------------------------------------------------------------------------

    def _may_read(self) -> bool:
        """True if the next message can be stored: a result needs a free place."""
        placed = not self._receives or self._filling >= 0 or bool(self._empty)
        return self._problem is None and not self._ended and placed

    def _read_results(self) -> None:
        try:
            while self._may_read() and self._read_once():
                pass
        except (BlockingIOError, InterruptedError):
            pass
        except ConnectionResetError:
            self._handle_close()
        except OSError as error:
            self._break(Code.CLOSED, f"the connection to pipeline {self.welcome.pipeline} broke: {error}")

    def _read_once(self) -> bool:
        """False: nothing can be read now."""
        if self._filling >= 0:
            count = self._connection.recv_into(self._outputs[self._filling][self._filled:])
            self._filled += count
            if self._filled == self.welcome.output_bytes:
                self._end_payload()
        else:
            count = self._connection.recv_into(memoryview(self._head)[self._head_bytes:self._wanted()])
            self._head_bytes += count
            if count and self._head_bytes == self._wanted():
                self._take_head()
        if count == 0:
            self._handle_close()
        return count > 0

    def _wanted(self) -> int:
        """The bytes of the current message up to its payload, as far as known. An ERROR has no payload."""
        if self._head_bytes < HEADER_FORM.size:
            return HEADER_FORM.size
        magic, kind, flags, length = HEADER_FORM.unpack_from(self._head)
        if wire.is_error(magic, kind, flags, length):
            return HEADER_FORM.size + int(length)
        if self._is_ack(magic, kind, flags, length):
            return HEADER_FORM.size + ACK_FORM.size
        return HEAD if self._is_result(magic, kind, flags, length) else HEADER_FORM.size

    def _is_ack(self, magic: bytes, kind: int, flags: int, length: int) -> bool:
        return self._sends and self._keeps and (magic, kind, flags, length) == (wire.MAGIC, wire.ACK, 0, ACK_FORM.size)

    def _is_result(self, magic: bytes, kind: int, flags: int, length: int) -> bool:
        return (self._receives and (magic, kind, flags) == (wire.MAGIC, wire.RESULT, 0)
                and length == RESULT_FORM.size + self.welcome.output_bytes)

    def _take_head(self) -> None:
        header = HEADER_FORM.unpack_from(self._head)
        if wire.is_error(*header):
            error = wire.error_of(bytes(self._head[HEADER_FORM.size:self._head_bytes]))
            self._break(int(error.code), error.sentence)
        elif self._is_ack(*header):
            self._acked, = ACK_FORM.unpack_from(self._head, HEADER_FORM.size)
            self._head_bytes = 0
            self._release_kept()
        elif not self._is_result(*header):
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} sent a message of type {header[1]} and {header[3]} bytes, "
                        "which it may not here")
        else:
            self._fields = RESULT_FORM.unpack_from(self._head, HEADER_FORM.size)
            self._filling, self._filled, self._head_bytes = self._empty.popleft(), 0, 0

    def _end_payload(self) -> None:
        place, self._filling = self._filling, -1
        if self._sends or self._comeback is None or self._comeback.is_new(self._fields[12]):
            self._ready.append(Result(self, place, EMITTED, self._fields, self._outputs[place], self._arrays[place]))
        else:
            self._empty.append(place)
        self._unknown -= 1 + self._fields[1]
        self._answered += 1 + self._fields[1]
        self._release_kept()

    def _handle_close(self) -> None:
        between = self._filling < 0 and self._head_bytes == 0
        done = self._shut and not self._cannot_send and not self._queue and not self._kept if self._sends else not self._keeps
        if between and done:
            self._ended = True
        else:
            self._quietly = between and not self._sends
            self._break(Code.CLOSED, f"the daemon closed the connection to pipeline {self.welcome.pipeline}"
                        + ("" if between else " within a result"))

    def _next(self) -> Optional[Result]:
        return self._ready.popleft() if self._ready else None

    def _release(self, result: Result) -> None:
        self._empty.append(result._place)

    def _forget(self) -> None:
        super()._forget()
        self._queue.clear()
        self._kept.clear()
        self._ready.clear()

    # -- another connection ---------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        """Kept frames are sent first, before the unsent ones. The next connection counts from 0."""
        for frame, head in reversed(self._kept):
            flags, zero = struct.unpack_from("<II", head, FLAGS_AT)
            self._queue.appendleft((frame, head[:FLAGS_AT] + struct.pack("<II", flags | AGAIN, zero)))
        self._kept.clear()
        self._sent = self._released = self._answered = self._acked = self._head_bytes = 0
        self._cannot_send = self._shut = False
        if self._filling >= 0:
            self._empty.append(self._filling)
            self._filling = -1

    def _resume(self, greeting: Greeting) -> None:
        self._tune()

    def _reach_end(self) -> None:
        self._ended = True

    # -- both ways ----------------------------------------------------------------------------------------------------

    def _look(self) -> int:
        self._send_frames()
        self._read_results()
        if self._cannot_send and not self._ready and not self._may_read():
            self._break(Code.CLOSED, f"the daemon closed the connection to pipeline {self.welcome.pipeline}")
        return self._events()

    def _events(self) -> int:
        at_end = self._ended and not self._ready
        return ((RESULT if self._ready else 0) | (ROOM if self._free and not self._finished else 0) | (END if at_end else 0))

    def _arm(self) -> int:
        sends = self._queue and not self._cannot_send
        return (select.POLLIN if self._may_read() else 0) | (select.POLLOUT if sends else 0)

    def _wake(self, conditions: int) -> None:
        """The connection ended, and no place is free to read its last results. A consumer that reconnects must not lose
        them."""
        may_lose = self._sends or not self._keeps
        if conditions & (select.POLLHUP | select.POLLERR) and not self._may_read() and may_lose:
            self._cannot_send = True
