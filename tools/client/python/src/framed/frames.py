"""Frames and results, as the caller has them, and the events that there may be."""

import enum
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Union

from framed import formats
from framed.wire import MARK, Fate

if TYPE_CHECKING:
    from framed.client import Client

# A frame's place: nobody's, the caller's, the daemon's or on its way there, and the caller's as a result.
FREE, HELD, AWAY, GIVEN = range(4)
FATES = {int(fate): fate for fate in Fate}


class Event(enum.IntFlag):
    RESULT = 1  # receive() has something
    ROOM = 2    # acquire() has something
    END = 4     # nothing will come any more: after finish(), or at the end of a sink


RESULT, ROOM, END = 1, 2, 4  # the same as plain numbers, which cost less


class Steps(NamedTuple):
    """What took how long, in ns; 2^32 - 1 where one took longer, and 0 for steps on the device that were not timed."""

    receive: int   # from a frame's first byte to its last
    queue: int     # until its dispatch to the device
    gpu_wait: int  # on the device, waiting for an engine or handed from one to the next
    h2d: int       # copy to the device
    kernel: int    # the stages
    d2h: int       # copy from the device
    wake: int      # until the daemon took notice
    total: int     # from its first byte, or its timestamp, until the result was offered


class Frame:
    """Memory for one frame: the caller's from acquire() to submit(). It holds what it held before."""

    __slots__ = ("_owner", "_place", "array", "memory", "slot")

    def __init__(self, owner: "Client", slot: int, memory: memoryview, layout: formats.Layout) -> None:
        self._owner = owner
        self._place = FREE
        self.slot = slot
        self.memory = memory  # its bytes
        self.array: Any = formats.view(memory, layout)

    def fill(self, data: Any) -> None:
        """Copies a whole frame in: an array of just this type and shape, or an object of as many bytes."""
        if formats.is_array(data):
            if data.shape != self.array.shape or data.dtype != self.array.dtype:
                raise ValueError(f"a frame is {self.array.dtype}{list(self.array.shape)}, "
                                 f"and this is {data.dtype}{list(data.shape)}")
            self.array[...] = data
        else:
            given = memoryview(data).cast("B")
            if given.nbytes != self.memory.nbytes:
                raise ValueError(f"a frame has {self.memory.nbytes} bytes, and this has {given.nbytes}")
            self.memory[:] = given

    def cancel(self) -> None:
        """Gives the frame back without submitting it."""
        if self._place == HELD and not self._owner._closed:
            self._place = FREE
            self._owner._take_back(self)


class Result:
    """A frame's result: the caller's until release(), or until the next one of an iterator. `with` releases it, too."""

    __slots__ = ("_done", "_owner", "_place", "_steps", "array", "dropped", "epoch", "fate", "flags", "memory", "number",
                 "sequence", "session", "timestamp")

    def __init__(self, owner: "Client", place: int, fate: int, fields: Sequence[int], memory: Optional[memoryview],
                 array: Any) -> None:
        self._owner = owner
        self._place = place
        self._done = False
        self._steps = fields[3:11]
        self.fate: Union[Fate, int] = FATES.get(fate, fate)
        self.sequence = fields[0]   # the frame's
        self.dropped = fields[1]    # frames since the result before it of which there is none for this client
        self.timestamp = fields[2]  # the frame's; its arrival if it had none
        self.session = fields[11]   # seat of the producer
        self.flags = fields[12] & ~MARK
        self.number = fields[13]    # the daemon's own number of the frame: counts those of its producer from 0,
        self.epoch = fields[14]     # whom this tells from all others of the pipeline, for ever
        self.memory = memory  # None: the frame was dropped
        self.array = array

    @property
    def steps(self) -> Steps:
        return Steps(*self._steps)

    def release(self) -> None:
        """Gives the memory back, in any order, best in the order of the results. Once more is taken for nothing."""
        if not self._done:
            self._done = True
            if not self._owner._closed:
                self._owner._release(self)

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
