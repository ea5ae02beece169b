"""Client of the frame-processing daemon framed, over its native protocol.

A producer writes frames where the daemon's device reads them and gets results where the device wrote them, in memory that
the daemon lends; where it lends none, the same calls go over the connection:

    with framed.connect("/run/framed/cam0.sock") as client:
        for result in client.process(pictures):
            print(result.sequence, result.array.mean(), result.steps.total)

Only the standard library is needed. Where numpy can be imported, `array` of frames and results is a numpy view of their
memory, with the type and shape of the pipeline's format, and else a memoryview of the same shape. Times are nanoseconds,
points in time those of time.monotonic_ns(); time-outs are seconds.

A daemon that is killed, or stopped, and is there again within ten seconds (see connect()) is a pause and nothing else: the client
connects again, sends what has no fate again, and leaves out what it has, so that no frame is lost and no result comes twice.

Calls of one client must not overlap in time. The package starts no thread. An exception that breaks into a call from outside, as
KeyboardInterrupt does, leaves a client that can only be closed, which the end of its `with` block does; a program that is to
finish what is under way notes the signal in a handler of its own, and looks at that between calls. The protocol is in
framed-protocol(7).
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
