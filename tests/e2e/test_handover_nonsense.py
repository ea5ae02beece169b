"""States whose content makes no sense: no process crashes or hangs over one, whatever it is.

The daemon hands everything over to harness/mutate.py, which shows changed copies of its state to new daemons. With FRAMED_SOAK set
there are thousands.
"""

import json
import os
import pathlib
import shutil
import signal

import pytest

from harness import Background, Client, Daemon, numbered, pipeline, y4m_stream
from harness import native
from harness.daemon import BINARY
from harness.waiting import limit

pytestmark = pytest.mark.memory

SOAK = bool(os.environ.get("FRAMED_SOAK"))
FIRST, COUNT = map(int, os.environ.get("FRAMED_MUTATE", "0:5000" if SOAK else "0:60").split(":"))
SIZE = 4096
LARGE = 300 * 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 64}
MUTATE = pathlib.Path(__file__).parent / "harness/mutate.py"


def delay(milliseconds):
    return {"fault": {"kind": "delay", "ms": milliseconds}}


def entries(place):
    return {
        "large": pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=4, stages=[delay(1)]),
        "slow": pipeline({"dtype": "uint8", "shape": [LARGE]}, slots=3, sink={"overload": "drop"}, overload="drop-newest"),
        "late": pipeline(FORMAT, source={"protocol": "raw"}, slots=4, sink={"overload": "drop", "protocol": "native"}, overload="drop-oldest", deadline="1s"),
        "shared": pipeline(FORMAT, source={"clients": 3, "protocol": "native"}, sink={"reply": True}, slots=3),
        "video": pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m", "file": str(place / "video")}, stages=[delay(3)]),
        "file": pipeline(FORMAT, source={"file": str(place / "in"), "loop": True, "rate": 50}, sink={"overload": "drop"}),
    }


def keep_sending(client, data):
    def send():
        try:
            while True:
                client.send(data)
        except OSError:
            pass
    return Background(send)


def busy(daemon, clients):
    """Something is under way in every kind of place."""
    def client(make, *arguments, **options):
        clients.append(make(*arguments, **options))
        return clients[-1]
    client(daemon.reader, "large")
    keep_sending(client(daemon.producer, "large"), numbered(20, LARGE).tobytes())
    client(daemon.reader, "slow")
    client(daemon.reader, "slow")
    keep_sending(client(daemon.producer, "slow"), numbered(1, LARGE).tobytes())
    client(native.Native, daemon.path("late", "sink"), native.CONSUMER)
    client(Client, daemon.path("late", "sink")).send(native.hello(native.CONSUMER)[:20])
    keep_sending(client(daemon.producer, "late"), numbered(1, SIZE).tobytes())
    shared = client(native.Shared, daemon.path("shared", "source"))
    for slot in range(3):
        shared.submit(slot, bytes(SIZE))
    stream = client(native.Native, daemon.path("shared", "source"), native.BOTH)
    keep_sending(stream, native.frame(bytes(SIZE)))
    client(Client, daemon.path("shared", "source")).send(native.hello(native.BOTH)[:7])
    keep_sending(client(daemon.producer, "video"), y4m_stream(numbered(2000, SIZE), 64, 64))
    for name in ("large", "slow", "late", "shared", "video", "file"):
        daemon.wait_view("frames came", lambda view: view["frames"]["in"] > 2, name)


@pytest.mark.host  # each of many starts would wait for a device
@pytest.mark.takes(7200 if SOAK else 120)
def test_whatever_a_state_says_no_process_crashes_over_it(place):
    (place / "in").write_bytes(numbered(3, SIZE).tobytes())
    program, outcome = place / "framed", place / "outcome"
    shutil.copy(BINARY, program)
    clients = []
    environment = {"FRAMED_MUTATED": str(BINARY), "FRAMED_OUTCOME": str(outcome), "FRAMED_MUTATE": f"{FIRST}:{COUNT}"}
    with Daemon(place, entries(place), lanes=2, drain_timeout="50ms", binary=program, env=environment) as daemon:
        busy(daemon, clients)
        program.unlink()
        shutil.copy(MUTATE, program)
        daemon.signal(signal.SIGUSR2)
        try:
            assert daemon.process.wait(limit(6000 if SOAK else 100)) == 0, daemon.log
        finally:
            for client in clients:
                client.close()
        found = json.loads(outcome.read_text())
        print(f"{found['tried']} tried, {found['taken']} taken")
        for wrong in found["wrong"]:
            print(f"-- state {wrong['number']}: {wrong['outcome']}\n{wrong['log']}")
        assert not found["wrong"], [f"{wrong['number']}: {wrong['outcome']}" for wrong in found["wrong"]]
        assert found["tried"] == COUNT and found["taken"] > 0, found
        daemon.leaves_frames = daemon.leaves_sockets = daemon.settled = True
