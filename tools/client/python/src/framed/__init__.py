"""Client of the frame-processing daemon framed, over its native protocol.

A producer writes frames into memory that the daemon's device reads, and reads results where the device wrote them. If the
daemon shares no memory, the same calls use the connection:

    with framed.connect("/run/framed/cam0.sock") as client:
        for result in client.process(pictures):
            print(result.sequence, result.array.mean(), result.steps.total)

The package needs only the standard library. With numpy, `array` of frames and results is a numpy view of their memory, with the
type and shape of the pipeline's format. Without numpy it is a memoryview of the same shape. Times are nanoseconds of
time.monotonic_ns(); timeouts are seconds.

If the daemon stops or is killed, and returns within ten seconds (see connect()), the client pauses and reconnects. It sends
frames without a known fate again and skips results that it already has. No frame is lost and no result comes twice.

Calls of one client must not overlap. The package starts no thread. After an exception that interrupts a call, such as
KeyboardInterrupt, the client can only be closed, as the end of its `with` block does. A program that must finish its frames
should handle the signal, and check for it between calls. framed-protocol(7) describes the protocol.
"""

from framed.client import Client
from framed.connecting import connect
from framed.frames import Event, Frame, Result, Steps
from framed.version import __version__
from framed.wire import AGAIN, STATE_RESTARTED, Code, Error, Fate, Role, Transport, Welcome

__all__ = [
    "AGAIN", "STATE_RESTARTED", "Client", "Code", "Error", "Event", "Fate", "Frame", "Result", "Role", "Steps", "Transport", "Welcome",
    "__version__", "connect",
]
