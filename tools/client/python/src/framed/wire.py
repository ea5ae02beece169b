"""The layout of messages and shared memory, and the protocol's errors. Nothing here does input or output."""

import enum
import struct
import sys
from typing import NamedTuple, Union

if sys.byteorder != "little":
    raise ImportError("framed's protocol is little-endian, and its shared memory is used as it lies there")

MAGIC = b"FRMD"
VERSION = 1
HELLO, WELCOME, FRAME, RESULT, ERROR, ACK = 1, 2, 3, 4, 5, 6
MOST_SLOTS = 16
LONGEST_SENTENCE = 512
DOORBELL = b"\0"

HEADER_FORM = struct.Struct("<4sHHQ")
HELLO_FORM = struct.Struct("<4sHHQIIII")
TOKEN_FORM = struct.Struct("<Q")
WELCOME_FORM = struct.Struct("<IIIIQQQQQQ64s64s64s")
FRAME_FORM = struct.Struct("<4sHHQQqqII")
FRAME_FIXED = 32
RESULT_FORM = struct.Struct("<QQq8IIIQQ")
ERROR_FORM = struct.Struct("<II")
ACK_FORM = struct.Struct("<Q")

# The control memory: cursors and flags as indices of 32-bit words, rings as offsets in bytes.
CONTROL_BYTES = 16384
SUBMITTED, TAKEN, CLIENT_SLEEPS = 0, 64 // 4, 128 // 4
COMPLETED, DAEMON_SLEEPS = 4096 // 4, 4160 // 4
SUBMISSIONS, COMPLETIONS = 8192, 12288
SUBMISSION_FORM = struct.Struct("<IIQqqII")
COMPLETION_FORM = struct.Struct("<IIQQq8IIIQQ")
LAST_OF_RING = 15
CURSOR = 0xFFFFFFFF

# Flags of a result; in a frame only those that a client may set.
STATE_RESTARTED = 1  # the state of the pipeline's stages was reset before this frame
AGAIN = 2            # the frame was sent again after its first connection was lost
MARK = 0xFFFFFFF0    # by which a consumer recognises a result: 20 bits of the client, 8 of the frame's number
HELLO_ACKS = 1       # flag of a HELLO: the client asks for ACKs of settled frames


class Role(enum.IntEnum):
    PRODUCER = 1  # sends frames to a source; the pipeline's sink gets the results
    CONSUMER = 2  # receives results from a sink
    BOTH = 3      # sends frames to the source of a pipeline whose sink is `reply`, and receives its results


class Transport(enum.IntEnum):
    STREAM = 0  # frames and results are copied through the connection
    SHARED = 1  # frames and results stay in memory shared with the daemon


class Fate(enum.IntEnum):
    """The fate of a frame. Only EMITTED has a result."""

    EMITTED = 0
    OLDEST = 1       # a newer frame replaced it
    NEWEST = 2       # no slot was free when it arrived
    LATE = 3         # its deadline passed
    INVALID = 4      # malformed, or stamped in the future
    GPU_FAULT = 5    # on the device when the device failed
    CLIENT_GONE = 6  # the client for the reply disconnected
    UNREAD = 7       # no reader received it
    SINK_ERROR = 8   # the file could not be written
    SHUTDOWN = 9     # unfinished when the daemon stopped


class Code(enum.IntEnum):
    # Reported by the daemon.
    PROTOCOL = 1  # this client violated the protocol
    VERSION = 2   # the daemon speaks another version of the protocol
    ROLE = 3      # the socket does not serve this role
    BUSY = 4      # the pipeline has no place for another client; one may become free
    QUOTA = 5     # the quota of this user is exceeded
    TIMEOUT = 6   # the daemon waited too long
    STOPPING = 7  # the daemon or the pipeline is stopping
    INTERNAL = 8  # the daemon lacks memory or descriptors
    DENIED = 9    # this user may not connect
    # Found by this package.
    CLOSED = 65  # the daemon closed the connection without a reason
    DAEMON = 66  # the peer violated the protocol: the socket may not be a native socket of framed
    USAGE = 67   # this call is not allowed now; the client continues as before


class Error(Exception):
    """The reason why a client cannot continue, or, with Code.USAGE, why a call is not allowed."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code: Union[Code, int] = named(Code, code)
        self.sentence = sentence

    def __reduce__(self) -> "tuple[type[Error], tuple[int, str]]":
        return Error, (int(self.code), self.sentence)


def named(names: "type[enum.IntEnum]", number: int) -> int:
    """The number as a member of `names`. A number of a later version that is not among them stays a number."""
    try:
        return names(number)
    except ValueError:
        return number


class Welcome(NamedTuple):
    """The daemon's welcome."""

    version: int
    role: int
    transport: int
    slots: int         # of the session: how many frames may be in flight
    input_bytes: int   # of a frame
    output_bytes: int  # of a result
    input_stride: int
    output_stride: int
    control_bytes: int
    session: int  # the daemon's number of this session
    pipeline: str
    input_format: str  # such as "gray 640x480"
    output_format: str


def hello(role: int, transport: int, token: int = 0) -> bytes:
    """A HELLO. Only clients that reconnect send a token."""
    if not token:
        return HELLO_FORM.pack(MAGIC, HELLO, 0, 16, VERSION, role, transport, 0)
    flags = 0 if role == Role.CONSUMER else HELLO_ACKS
    return HELLO_FORM.pack(MAGIC, HELLO, 0, 24, VERSION, role, transport, flags) + TOKEN_FORM.pack(token)


def welcome_of(body: bytes) -> Welcome:
    fields = WELCOME_FORM.unpack(body)
    return Welcome(*fields[:10], *(field.rstrip(b"\0").decode(errors="replace") for field in fields[10:]))


def is_error(magic: bytes, kind: int, flags: int, length: int) -> bool:
    shortest = ERROR_FORM.size
    return magic == MAGIC and kind == ERROR and flags == 0 and shortest <= length <= shortest + LONGEST_SENTENCE


def error_of(body: bytes) -> Error:
    code, _ = ERROR_FORM.unpack_from(body)
    return Error(code, body[ERROR_FORM.size:].decode(errors="replace"))
