"""A consumer with shared memory. It reads results in place and releases them in order.

When a connection ends, the pipeline may overwrite the results that the caller holds. Unreceived results come again over the
next connection.
"""

from typing import Optional, Sequence

from framed import formats, wire
from framed.frames import END, RESULT, Result
from framed.lots import map_memory, slices
from framed.shared import EMITTED, SharedClient
from framed.wire import COMPLETED, CURSOR, DAEMON_SLEEPS, TAKEN, Code, Error


class SharedConsumer(SharedClient):
    _ended = False

    def _map(self, descriptors: Sequence[int]) -> None:
        welcome = self.welcome
        stride, size, slots = welcome.output_stride, welcome.output_bytes, welcome.slots
        if welcome.control_bytes != wire.CONTROL_BYTES or not stride >= size > 0 or stride % 64 != 0:
            raise Error(Code.DAEMON, f"the memory of pipeline {welcome.pipeline} makes no sense: {welcome}")
        outputs = map_memory(descriptors[0], slots * stride, False)
        self._map_control(descriptors[1])
        self._outputs = [part.toreadonly() for part in slices(outputs, slots, stride, size)]
        self._arrays = [formats.view(part, self._output_layout) for part in self._outputs]
        self._held: "set[int]" = set()  # slots

    # -- results ------------------------------------------------------------------------------------------------------

    def _waiting(self) -> int:
        """The number of unread results. It is 0 after the connection's end, since they may be overwritten."""
        if self._problem is not None or self._ended or self._paused:
            return 0
        count = (self._words[COMPLETED] - self._seen) & CURSOR
        if count > self.welcome.slots:
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} claims {count} results, of fewer slots")
            return 0
        return count

    def _next(self) -> Optional[Result]:
        while self._waiting():
            release, acquire = self._fence
            release()
            acquire()
            slot, fate, fields = self._read(self._seen)
            if slot >= self.welcome.slots or slot in self._held or fate != EMITTED:
                self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} completed slot {slot}, which is not free")
                return None
            self._seen = (self._seen + 1) & CURSOR
            self._held.add(slot)
            result = Result(self, slot, fate, fields, self._outputs[slot], self._arrays[slot])
            self._unreleased.append(result)
            if self._comeback is None or self._comeback.is_new(fields[12]):
                return result
            result.release()  # received before, on an earlier connection
        return None

    def _release(self, result: Result) -> None:
        """Releases finished results, up to the first that the caller still holds, and wakes a waiting daemon."""
        unreleased = self._unreleased
        if not unreleased or not unreleased[0]._done:
            return
        while unreleased and unreleased[0]._done:
            self._held.discard(unreleased.popleft()._place)
            self._taken += 1
        self._taken &= CURSOR
        release, acquire = self._fence
        release()
        acquire()
        self._words[TAKEN] = self._taken
        release()
        acquire()
        if self._words[DAEMON_SLEEPS] and not self._paused:
            self._words[DAEMON_SLEEPS] = 0
            self._ring()

    # -- ends -----------------------------------------------------------------------------------------------------------

    def _handle_close(self) -> None:
        if self._keeps:
            self._quietly = True
            super()._handle_close()
        else:
            self._ended = True

    def _lose(self) -> None:
        self._said = b""

    def _reach_end(self) -> None:
        self._ended = True

    def _events(self) -> int:
        return (RESULT if self._waiting() else 0) | (END if self._ended else 0)
