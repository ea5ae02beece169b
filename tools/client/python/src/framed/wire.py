"""The protocol as it lies in a socket and in shared memory, and what can be wrong with it. Nothing here does input or output."""

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

# The control memory: cursors and flags as numbers of 32-bit words, rings in bytes.
CONTROL_BYTES = 16384
SUBMITTED, TAKEN, CLIENT_SLEEPS = 0, 64 // 4, 128 // 4
COMPLETED, DAEMON_SLEEPS = 4096 // 4, 4160 // 4
SUBMISSIONS, COMPLETIONS = 8192, 12288
SUBMISSION_FORM = struct.Struct("<IIQqqII")
COMPLETION_FORM = struct.Struct("<IIQQq8IIIQQ")
LAST_OF_RING = 15
CURSOR = 0xFFFFFFFF

# Flags of a result, and in a frame those that are the client's to set.
STATE_RESTARTED = 1  # the state of the pipeline's stages began anew with this frame
AGAIN = 2            # the frame was sent again, since the connection by which it went first was lost
MARK = 0xFFFFFFF0    # by which a consumer knows a result that it has: 20 bits of the client, 8 of the frame's number
HELLO_ACKS = 1       # flag of a HELLO: the client wants to be told which frames have their fate


class Role(enum.IntEnum):
    PRODUCER = 1  # sends frames to a source; results go to the pipeline's sink
    CONSUMER = 2  # takes results from a sink
    BOTH = 3      # sends frames to the source of a pipeline whose sink is `reply`, and takes its results


class Transport(enum.IntEnum):
    STREAM = 0  # frames and results are copied through the connection
    SHARED = 1  # they stay where they are, in memory shared with the daemon


class Fate(enum.IntEnum):
    """What became of a frame. Only EMITTED comes with a result."""

    EMITTED = 0
    OLDEST = 1       # a newer frame took its place
    NEWEST = 2       # no slot was free when it came
    LATE = 3         # its deadline passed
    INVALID = 4      # malformed, or stamped in the future
    GPU_FAULT = 5    # on the device when that failed
    CLIENT_GONE = 6  # the client that would get the reply left
    UNREAD = 7       # no reader took it
    SINK_ERROR = 8   # the file could not be written
    SHUTDOWN = 9     # unfinished when the daemon stopped


class Code(enum.IntEnum):
    # What the daemon says.
    PROTOCOL = 1  # this client broke the protocol
    VERSION = 2   # the daemon speaks another version of it
    ROLE = 3      # the socket is not for this role
    BUSY = 4      # every seat is taken; later there may be one
    QUOTA = 5     # this user has what one user may have
    TIMEOUT = 6   # the daemon waited for too long
    STOPPING = 7  # the daemon or the pipeline ends
    INTERNAL = 8  # the daemon lacks memory or descriptors
    DENIED = 9    # this user may not connect
    # What this package finds.
    CLOSED = 65  # the daemon closed the connection without a word
    DAEMON = 66  # what is connected broke the protocol: it may be no native socket of framed
    USAGE = 67   # this call makes no sense at this point; the client goes on as before


class Error(Exception):
    """Why a client cannot go on, or, with Code.USAGE, why a call cannot."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code: Union[Code, int] = named(Code, code)
        self.sentence = sentence

    def __reduce__(self) -> "tuple[type[Error], tuple[int, str]]":
        return Error, (int(self.code), self.sentence)


def named(names: "type[enum.IntEnum]", number: int) -> int:
    """The number as one of `names`; as it is if a later daemon's is none of them."""
    try:
        return names(number)
    except ValueError:
        return number


class Welcome(NamedTuple):
    """What the daemon says when it welcomes a client."""

    version: int
    role: int
    transport: int
    slots: int         # of the session: how many frames may be under way
    input_bytes: int   # of a frame
    output_bytes: int  # of a result
    input_stride: int
    output_stride: int
    control_bytes: int
    session: int  # its number in the daemon's life
    pipeline: str
    input_format: str  # such as "gray 640x480"
    output_format: str


def hello(role: int, transport: int, token: int = 0) -> bytes:
    """With a token it is that of a client that comes back."""
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
