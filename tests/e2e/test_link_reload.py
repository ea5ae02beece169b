"""framed-link reads its configuration again on SIGHUP: every result is stored once, in the old stream or in the new."""

import json
import signal

import pytest

from harness import Background, Daemon, numbered, pipeline, wait_until
from harness.nats import Link, Server, needs_nats

pytestmark = [*needs_nats, pytest.mark.memory]

SIZE = 1024
FRAMES = 4000
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def reload(link, **keys):
    link.file.write_text(json.dumps({**json.loads(link.file.read_text()), **keys}))
    link.process.send_signal(signal.SIGHUP)


def stored_in(nats, stream):
    return [int(message.headers["Framed-Frame"].split(":")[2]) for message in nats.messages(stream, nats.stored(stream))]


def test_results_go_to_a_new_stream_and_none_is_lost(place):
    entries = {name: pipeline(FORMAT, slots=4, sink={"protocol": "native"}) for name in ("cam0", "cam1", "cam2")}
    with Server(place, durable=True) as server, Daemon(place, entries) as daemon, server.client() as nats:
        stays = {"stream": "OTHER", "subject": "other.cam2", "socket": str(daemon.path("cam2", "sink"))}
        with Link(daemon, server, sinks={"cam0": {"stream": "RESULTS", "overload": "block"}, "cam2": stays}) as link, \
                daemon.producer() as producer:
            sending = Background(producer.send, numbered(FRAMES, SIZE).tobytes())
            wait_until(lambda: nats.stored("RESULTS") > FRAMES // 20, "some are stored", 40)
            new = {name: {"stream": "OTHER", "subject": f"other.{name}", "socket": str(daemon.path(name, "sink"))}
                   for name in ("cam0", "cam1")}
            reload(link, sinks={**new, "cam2": stays})
            sending.join(60)
            wait_until(lambda: nats.stored("RESULTS") + nats.stored("OTHER") >= FRAMES, "all are stored", 40)
            daemon.account(came=FRAMES, emitted=FRAMES)
            link.wait_up(name="cam1")
            before, after = stored_in(nats, "RESULTS"), stored_in(nats, "OTHER")
            assert before and after and sorted(before + after) == list(range(FRAMES))
            assert "reload: 1 links stopped" in link.log and link.log.count("sink cam2: connected to pipeline") == 1


def test_a_wrong_file_changes_nothing(place):
    with Server(place) as server, Daemon(place, {"cam0": pipeline(FORMAT, sink={"protocol": "native"})}) as daemon:
        with Link(daemon, server, sinks={"cam0": {"stream": "RESULTS"}}) as link, server.client() as nats:
            link.wait_up()
            reload(link, limits={"memroy": "1MiB"})
            wait_until(lambda: "reload refused" in link.log and "unknown key 'memroy'" in link.log, lambda: link.log)
            with daemon.producer() as producer:
                producer.send(numbered(5, SIZE).tobytes())
                wait_until(lambda: nats.stored("RESULTS") == 5, "it goes on")
            assert link.log.count("connected to the broker") == 1


def test_frames_of_a_queue_are_done_once_over_a_reload(place):
    """Frames that are on their way to the source when it ends are computed, and wait for no `ack_wait`."""
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"protocol": "native"}, overload="block", slots=4)
    with Server(place, durable=True) as server, Daemon(place, {"cam0": entry}) as daemon, server.client() as nats:
        queue = {"cam0": {"stream": "FRAMES", "consumer": "workers", "ack_wait": "60s"}}
        with Link(daemon, server, sinks={"cam0": {"stream": "RESULTS", "overload": "block"}}, sources=queue) as link:
            link.wait_up("source")
            for number, frame in enumerate(numbered(300, SIZE)):
                nats.put("frames.cam0", frame.tobytes())
                if number in (60, 180):
                    reload(link, sources={"cam0": {**json.loads(link.file.read_text())["sources"]["cam0"], "deliver": number}})
            wait_until(lambda: nats.stored("RESULTS") >= 300, lambda: f"all are stored: {nats.state('RESULTS')}", 40)
            wait_until(lambda: nats.stored("FRAMES") == 0, "all are done", 20)
            assert nats.stored("RESULTS") == 300 and link.log.count("reload: ") == 2
