"""framed-link: frames from a work queue of NATS into a pipeline, each told the queue by what became of it."""

import json
import signal
import subprocess
import time

import pytest

from harness import FRAMECTL, Daemon, environment, limit, numbered, pipeline, slow_stage, wait_until, whole
from harness.nats import Late, Link, Server, needs_nats

# With ASan alone: libnats' own locks are not seen by TSan.
pytestmark = [*needs_nats, pytest.mark.memory]

SIZE = 1024
BOTH = {"source": {"protocol": "native"}, "sink": {"protocol": "native"}}


@pytest.fixture
def server(place):
    with Server(place) as server:
        yield server


def entry(**keys):
    return pipeline({"dtype": "uint8", "shape": [SIZE]}, **BOTH, **keys)


def source(**keys):
    return {"cam0": {"stream": "FRAMES", "consumer": "workers", "ack_wait": "2s", **keys}}


def sink():
    return {"cam0": {"stream": "RESULTS", "overload": "block"}}


def put(nats, frames):
    for frame in numbered(frames, SIZE):
        nats.put("frames.cam0", frame.tobytes())


def queue(nats, frames):
    nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue")
    put(nats, frames)


def numbers_of(nats, count):
    """Which frames of the queue have a result, by the names of the results."""
    return {int(message.headers["Nats-Msg-Id"].split(":")[3]) for message in nats.messages("RESULTS", count)}


def test_frames_of_a_queue_are_computed_once(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, server.client() as nats:
        queue(nats, 200)
        with Link(daemon, server, sources=source(), sinks=sink()) as link:
            wait_until(lambda: nats.stored("RESULTS") == 200, lambda: f"all are stored; {link.log}", 20)
            wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty")
            link.wait("it counts them", lambda view: view["acked_total"] == 200, "source")
        daemon.account(came=200, emitted=200)
        messages = nats.messages("RESULTS", 200)
        names = [message.headers["Nats-Msg-Id"].split(":") for message in messages]
        assert [(name[0], name[1], name[3]) for name in names] == [("cam0", "FRAMES", str(n)) for n in range(1, 201)]
        assert len({name[2] for name in names}) == 1
        assert [message.data for message in messages] == [whole(number, SIZE).tobytes() for number in range(200)]


def dead_letters(nats):
    nats.make_stream("DEAD", ["dead.>"])


FATES = {
    "oldest": ({"overload": "drop-oldest", "slots": 3, "stages": [slow_stage(400)]}, "ended_total"),
    "late": ({"deadline": "1ms", "slots": 4, "stages": [slow_stage(50)]}, "ended_total"),
}


@pytest.mark.parametrize("fate", FATES)
def test_a_frame_that_the_pipeline_drops_is_ended(place, server, fate):
    keys, counter = FATES[fate]
    with Daemon(place, {"cam0": entry(**keys)}) as daemon, server.client() as nats:
        queue(nats, 12)
        with Link(daemon, server, sources=source(), sinks=sink()) as link:
            wait_until(lambda: nats.stored("FRAMES") == 0, lambda: f"the queue is empty: {link.metrics(role='source')}", 20)
            link.wait("it counts all", lambda view: view["acked_total"] + view[counter] == 12 and view[counter] > 0, "source")
            ended = link.metrics(role="source")[counter]
        daemon.account(came=12, emitted=12 - ended, **{fate: ended})


def test_a_frame_of_another_size_is_a_dead_letter(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats:
        queue(nats, 2)
        dead_letters(nats)
        nats.put("frames.cam0", b"too short")
        with Link(daemon, server, sources=source(), sinks=sink()) as link:
            wait_until(lambda: nats.stored("FRAMES") == 0 and nats.stored("DEAD") == 1, lambda: link.log, 20)
        letter = nats.messages("DEAD", 1)[0]
        assert letter.data == b"too short" and letter.subject == "dead.cam0"
        assert letter.headers["Framed-Reason"] == "it has 9 bytes, and a frame of the pipeline has 1024"
        assert (letter.headers["Framed-Stream"], letter.headers["Framed-Sequence"]) == ("FRAMES", "3")


def test_frames_of_a_box_that_dies_are_computed_by_another(place, server):
    """The first box takes frames and never ends them; SIGKILL, and the second has all of them in time."""
    boxes = [place / "box1", place / "box2"]
    for box in boxes:
        box.mkdir()
    with server.client() as nats:
        queue(nats, 40)
        with Daemon(boxes[0], {"cam0": entry(slots=4, stages=[slow_stage(60000)])}) as stuck:
            stuck.leaves_frames = stuck.leaves_sockets = True
            with Link(stuck, server, sources=source(), sinks=sink()) as first:
                first.wait("it has taken some", lambda view: view["in_flight"] == 4, "source")
                first.kill()
            stuck.kill()
            stuck.settled = True
            with Daemon(boxes[1], {"cam0": entry(slots=4)}) as daemon, Link(daemon, server, sources=source(), sinks=sink()):
                wait_until(lambda: nats.stored("RESULTS") == 40, lambda: f"all are stored: {nats.state('FRAMES')}", 4.5)
                wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty")
        assert len(numbers_of(nats, 40)) == 40


def test_a_frame_that_no_box_ends_is_a_dead_letter(place, server):
    """Also where each box dies over it: the queue alone would keep it for ever."""
    with server.client() as nats:
        queue(nats, 1)
        dead_letters(nats)
        with Daemon(place, {"cam0": entry(slots=1, stages=[slow_stage(60000)])}) as daemon:
            daemon.leaves_frames = daemon.leaves_sockets = True
            with Link(daemon, server, sources=source(ack_wait="500ms", deliver=1), sinks=sink()) as link:
                link.wait("it has taken it", lambda view: view["in_flight"] == 1, "source")
                link.kill()
                daemon.kill()
                daemon.start()
                daemon.wait_ready()
                link.start()
                wait_until(lambda: nats.stored("DEAD") == 1 and nats.stored("FRAMES") == 0, lambda: link.log, 20)
                assert nats.messages("DEAD", 1)[0].headers["Framed-Reason"] == "1 boxes had it, and none finished it"
            daemon.kill()
            daemon.settled = True


def test_a_queue_whose_server_is_killed_empties(place):
    """What it had removed comes back with it, what it had not counts as delivered, and what is gone is delivered again."""
    with Server(place, durable=True) as server, Daemon(place, {"cam0": entry(slots=4, stages=[slow_stage(2)])}) as daemon:
        with server.client() as nats:
            queue(nats, 250)
        with Link(daemon, server, sources=source(ack_wait="1s", deliver=100), sinks=sink()) as link:
            with server.client() as nats:
                wait_until(lambda: nats.stored("RESULTS") > 100, "some are stored", 20)
            server.kill()
            server.start()
            with server.client() as nats:
                wait_until(lambda: nats.stored("RESULTS") == 250, "all are stored", 30)
                wait_until(lambda: nats.stored("FRAMES") == 0, lambda: f"the queue is empty: {nats.ask('CONSUMER.INFO.FRAMES.workers')}", 20)
                numbers = numbers_of(nats, 250)
        assert numbers == set(range(1, 251)) and link.log.count("connected to the broker") == 4


def test_frames_of_a_daemon_that_dies_are_given_back_at_once(place, server):
    with Daemon(place, {"cam0": entry(slots=4, stages=[slow_stage(20)])}) as daemon, server.client() as nats:
        queue(nats, 60)
        with Link(daemon, server, sources=source(ack_wait="60s", deliver=100), sinks=sink()) as link:
            for part in (5, 20):
                wait_until(lambda: nats.stored("RESULTS") > part, "some are stored", 20)
                daemon.kill()
                daemon.start()
                daemon.wait_ready()
            wait_until(lambda: nats.stored("RESULTS") == 60, lambda: f"all are stored; {link.log}", 20)
            wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty")
            link.wait("it counts them", lambda view: view["given_back_total"] > 0, "source")
        assert nats.stored("RESULTS") == 60


def test_results_of_one_pipeline_are_frames_of_another(place, server):
    """Both links make the stream, whichever comes first."""
    chain = {name: entry() for name in ("made", "taken")}
    sinks = {"made": {"stream": "FRAMES", "subject": "frames.taken"}, "taken": {"stream": "RESULTS"}}
    with Daemon(place, chain) as daemon, server.client() as nats:
        with Link(daemon, server, sinks=sinks, sources={"taken": {"stream": "FRAMES", "consumer": "workers"}}) as link:
            link.wait_up("sink", "made")
            link.wait_up("source", "taken")
            assert nats.ask("STREAM.INFO.FRAMES")["config"]["retention"] == "workqueue"


def links(daemon):
    return daemon.view()["links"]


def test_a_stream_that_keeps_what_is_done_is_said(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats:
        nats.make_stream("FRAMES", ["frames.cam0"])
        with Link(daemon, server, sources=source()) as link:
            wait_until(lambda: "stream FRAMES is no work queue" in link.log, lambda: link.log)
            wait_until(lambda: "queue: true" in (links(daemon).get("source", {}).get("error") or ""), lambda: links(daemon))
            assert links(daemon)["source"]["connected"]
            [reason] = json.loads(daemon.request("GET", "/v1/health")[1])["degraded"]
            assert reason["reason"] == "broker" and "its link (source) does not work as it should: stream FRAMES" in reason["text"]


def test_a_consumer_that_gives_nothing_is_asked_now_and_then(place, server):
    """One that pushes refuses each time at once."""
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats:
        nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue")
        nats.ask("CONSUMER.DURABLE.CREATE.FRAMES.workers", {"stream_name": "FRAMES", "config": {
            "durable_name": "workers", "ack_policy": "explicit", "filter_subject": "frames.cam0", "deliver_subject": "pushed"}})
        with Link(daemon, server, sources=source()) as link:
            wait_until(lambda: links(daemon).get("source", {}).get("warns"), lambda: link.log, 20)
            assert links(daemon)["source"]["error"] == "consumer workers sends no frames: Consumer is push based"
            begin = time.monotonic()
            nats.subscribe("$JS.API.CONSUMER.MSG.NEXT.>")
            for _ in range(8):
                nats.next()
            assert time.monotonic() - begin >= 1, "two rounds of at most four, with a pause between"


def test_a_stream_and_a_consumer_that_are_gone_are_made_again(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats, \
            Link(daemon, server, sources=source(), sinks=sink()) as link:
        link.wait_up("source")
        link.wait_up("sink")
        nats.ask("STREAM.DELETE.RESULTS")
        nats.put("frames.cam0", whole(0, SIZE).tobytes())
        wait_until(lambda: nats.stored("RESULTS") == 1 and nats.stored("FRAMES") == 0, lambda: link.log, 40)
        nats.ask("CONSUMER.DELETE.FRAMES.workers")
        nats.put("frames.cam0", whole(1, SIZE).tobytes())
        wait_until(lambda: nats.stored("RESULTS") == 2, lambda: link.log, 4)
        wait_until(lambda: nats.stored("FRAMES") == 0, lambda: link.log)
        for _ in range(2):  # the second stream's frames have numbers of the first one's
            nats.ask("STREAM.DELETE.FRAMES")
            wait_until(lambda: "its stream is gone" in link.log and is_there(nats, "CONSUMER.INFO.FRAMES.workers"), lambda: link.log, 20)
            nats.put("frames.cam0", whole(2, SIZE).tobytes())
            wait_until(lambda: nats.stored("FRAMES") == 0, lambda: link.log, 20)
        daemon.account(came=4, emitted=4)
        wait_until(lambda: nats.stored("RESULTS") == 4, lambda: f"none is a duplicate: {link.log}")


def is_there(nats, what):
    try:
        return nats.ask(what)
    except LookupError:
        return None


def consumer(nats):
    return is_there(nats, "CONSUMER.INFO.FRAMES.workers") or {}


def framectl(daemon, *arguments):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, *arguments], capture_output=True, text=True, timeout=limit(20),
                          env=environment(), check=False)


def give(nats, count):
    """Takes frames from the queue as another box would, and never ends them."""
    for _ in range(count):
        nats.publish("$JS.API.CONSUMER.MSG.NEXT.FRAMES.workers", b"1", f"{nats.inbox}.given")
        assert nats.next().reply.startswith("$JS.ACK.")


def test_frames_that_are_gone_do_not_hold_up_a_queue(place, server):
    """The first frame that waits is there, the next ones are gone: nobody will ever acknowledge them."""
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, server.client() as nats:
        nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue")
        nats.ask("CONSUMER.DURABLE.CREATE.FRAMES.workers", {"stream_name": "FRAMES", "config": {
            "durable_name": "workers", "ack_policy": "explicit", "filter_subject": "frames.cam0", "ack_wait": 600_000_000_000}})
        put(nats, 3)
        give(nats, 3)
        with Link(daemon, server, sources=source(), sinks=sink()) as link:
            link.wait_up("source")
            for number in (2, 3):
                nats.ask("STREAM.MSG.DELETE.FRAMES", {"seq": number})
            wait_until(lambda: nats.ask("CONSUMER.INFO.FRAMES.workers")["num_ack_pending"] == 1,
                       lambda: nats.ask("CONSUMER.INFO.FRAMES.workers"), 20)


def test_frames_that_nobody_is_given_are_said(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, server.client() as nats:
        nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue")
        nats.ask("CONSUMER.DURABLE.CREATE.FRAMES.workers", {"stream_name": "FRAMES", "config": {
            "durable_name": "workers", "ack_policy": "explicit", "max_deliver": 1, "ack_wait": 500_000_000}})
        put(nats, 2)
        give(nats, 2)
        with Link(daemon, server, sources=source(), sinks=sink()) as link:
            wait_until(lambda: "the queue holds 2 frames that are not delivered" in (links(daemon).get("source", {}).get("error") or ""),
                       lambda: f"{nats.ask('CONSUMER.INFO.FRAMES.workers')}; {link.log}", 25)
            told = links(daemon)["source"]["queue"]
            assert (told["depth"], told["unserved"]) == (2, 2) and 3 < told["oldest_s"] < 100
            assert "2 frames in its queue" in framectl(daemon, "status", "cam0").stdout
            assert 'framed_link_queue_depth{pipeline="cam0",role="source"} 2\n' in daemon.metrics()


def test_streams_are_made_with_their_bounds(place, server):
    bounds = {"most": "8MiB", "keep": "1h"}
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats:
        with Link(daemon, server, sources=source(**bounds), sinks=sink()) as link:
            link.wait_up("source")
            link.wait_up("sink")
            config = nats.ask("STREAM.INFO.FRAMES")["config"]
            assert (config["max_bytes"], config["max_age"], config["num_replicas"]) == (8 << 20, 3600 * 10**9, 1)
            assert (config["retention"], config["discard"]) == ("workqueue", "new")
            assert "warning: stream RESULTS has no bounds" in link.log and "warning: stream FRAMES" not in link.log


def test_a_queue_that_removes_frames_when_it_is_full_is_said(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats:
        nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue", max_msgs=10, discard="old")
        with Link(daemon, server, sources=source()):
            wait_until(lambda: "set discard: new" in (links(daemon).get("source", {}).get("error") or ""), lambda: links(daemon))


def test_a_sink_makes_a_queue_for_other_boxes(place, server):
    chain = {"cam0": {"stream": "FRAMES", "subject": "frames.archive", "queue": True}}
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats, Link(daemon, server, sinks=chain) as link:
        link.wait_up()
        assert nats.ask("STREAM.INFO.FRAMES")["config"]["retention"] == "workqueue" and "no work queue" not in link.log


def test_a_right_that_is_refused_is_said_once(place):
    box = {"user": "box", "password": "box", "permissions": {"publish": {"deny": ["$JS.API.STREAM.MSG.>"]}}}
    with Server(place, authorization={"users": [box]}, no_auth_user="box") as server, Daemon(place, {"cam0": entry()}) as daemon:
        with Link(daemon, server, sources=source()) as link:
            expected = 'the server refuses a right: Permissions Violation for Publish to "$JS.API.STREAM.MSG.GET.FRAMES"'
            wait_until(lambda: links(daemon).get("source", {}).get("error") == expected, lambda: f"{links(daemon)}; {link.log}")
            server.kill()
            server.start()
            wait_until(lambda: link.log.count("connected to the broker") == 2, lambda: link.log, 20)
        assert link.log.count(expected) == 1


def test_a_frame_that_takes_longer_than_ack_wait_is_delivered_once(place, server):
    with Daemon(place, {"cam0": entry(slots=1, stages=[slow_stage(1500)])}) as daemon, server.client() as nats:
        queue(nats, 2)
        with Link(daemon, server, sources=source(ack_wait="500ms"), sinks=sink()):
            wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty", 20)
        daemon.account(came=2, emitted=2)


def test_a_box_that_is_stopped_finishes_its_frames(place, server):
    with Daemon(place, {"cam0": entry(slots=4, stages=[slow_stage(100)])}) as daemon, server.client() as nats:
        queue(nats, 30)
        with Link(daemon, server, sources=source(ack_wait="60s"), sinks=sink()) as link:
            link.wait("it has taken some", lambda view: view["in_flight"] >= 2, "source")
            link.process.send_signal(signal.SIGTERM)
            assert link.process.wait(20) == 0
            assert 0 < nats.stored("FRAMES") == 30 - nats.stored("RESULTS")
            link.start()
            wait_until(lambda: nats.stored("RESULTS") == 30, "another has the others", 20)
            wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty")
        daemon.account(came=30, emitted=30)


def test_a_frame_that_comes_when_a_box_is_stopped_is_computed(place, server):
    """The server has sent it before it knows that the box asks no more."""
    with Daemon(place, {"cam0": entry()}) as daemon, server.client() as nats, Late(server) as way:
        with Link(daemon, server, sources=source(ack_wait="60s"), sinks=sink(), nats={"servers": [way.url]}) as link:
            link.wait_up()
            wait_until(lambda: consumer(nats).get("num_waiting"), lambda: f"it asks for frames: {link.log}", 20)
            way.delay = 0.5
            put(nats, 1)
            wait_until(lambda: consumer(nats)["num_ack_pending"] == 1, "the frame is on its way")
            link.process.send_signal(signal.SIGTERM)
            assert link.process.wait(limit(20)) == 0
            assert (nats.stored("RESULTS"), nats.stored("FRAMES")) == (1, 0)
