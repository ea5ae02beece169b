"""Frames and results as the caller sees them, and events."""

import enum
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Union

from framed import formats
from framed.wire import MARK, Fate

if TYPE_CHECKING:
    from framed.client import Client

# The owner of a frame's place: nobody, the caller, the daemon, and the caller with the result.
FREE, HELD, AWAY, RETURNED = range(4)
FATES = {int(fate): fate for fate in Fate}


class Event(enum.IntFlag):
    RESULT = 1  # receive() has a result
    ROOM = 2    # acquire() has a free place
    END = 4     # nothing will follow: after finish(), or at the end of a sink


RESULT, ROOM, END = 1, 2, 4  # plain numbers are faster


class Steps(NamedTuple):
    """The time of each step in ns. 2^32 - 1: it took longer; 0: a step on the device that was not timed."""

    receive: int   # from a frame's first byte to its last
    queue: int     # until its dispatch to the device
    gpu_wait: int  # on the device, waiting for an engine or between two engines
    h2d: int       # copy to the device
    kernel: int    # the stages
    d2h: int       # copy from the device
    wake: int      # until the daemon noticed
    total: int     # from its first byte, or its timestamp, until the result was offered to the sink


class Frame:
    """Memory for one frame. The caller owns it from acquire() to submit(). It keeps the last contents of its place."""

    __slots__ = ("_owner", "_place", "array", "memory", "slot")

    def __init__(self, owner: "Client", slot: int, memory: memoryview, layout: formats.Layout) -> None:
        self._owner = owner
        self._place = FREE
        self.slot = slot
        self.memory = memory  # its bytes
        self.array: Any = formats.view(memory, layout)

    def fill(self, data: Any) -> None:
        """Copies a whole frame in: an array of this type and shape, or an object of as many bytes."""
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
        """Returns the frame without submitting it."""
        if self._place == HELD and not self._owner._closed:
            self._place = FREE
            self._owner._take_back(self)


class Result:
    """A frame's result. The caller owns it until release(), or until the iterator's next result. `with` releases it, too."""

    __slots__ = ("_done", "_owner", "_place", "_steps", "array", "dropped", "epoch", "fate", "flags", "memory", "number",
                 "sequence", "session", "timestamp")

    def __init__(self, owner: "Client", place: int, fate: int, fields: Sequence[int], memory: Optional[memoryview],
                 array: Any) -> None:
        self._owner = owner
        self._place = place
        self._done = False
        self._steps = fields[3:11]
        self.fate: Union[Fate, int] = FATES.get(fate, fate)
        self.sequence = fields[0]   # of the frame
        self.dropped = fields[1]    # frames since the previous result that have no result for this client
        self.timestamp = fields[2]  # of the frame; its arrival if it had none
        self.session = fields[11]   # the producer's place at the pipeline
        self.flags = fields[12] & ~MARK
        self.number = fields[13]    # the daemon's number of the frame, counted per producer from 0
        self.epoch = fields[14]     # identifies the producer in the pipeline's history
        self.memory = memory  # None: the frame was dropped
        self.array = array

    @property
    def steps(self) -> Steps:
        return Steps(*self._steps)

    def release(self) -> None:
        """Releases the memory. Any order is allowed; the order of the results is best. A second call does nothing."""
        if not self._done:
            self._done = True
            if not self._owner._closed:
                self._owner._release(self)

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
