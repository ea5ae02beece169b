"""framed-link: results of a pipeline into a stream of NATS, each stored once, whatever is killed on the way."""

import pytest

from harness import Background, Daemon, numbered, pipeline, wait_until, whole
from harness.native import PRODUCER, Native
from harness.nats import Link, Server, needs_nats

pytestmark = needs_nats

SIZE = 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
NATIVE = {"protocol": "native"}


@pytest.fixture
def server(place):
    with Server(place) as server:
        yield server


def entry(protocol="raw", size=SIZE, sink=None, **keys):
    return pipeline({"dtype": "uint8", "shape": [size]}, source={"protocol": protocol}, sink={**NATIVE, **(sink or {})}, **keys)


def block(**keys):
    return {"sinks": {"cam0": {"stream": "RESULTS", "overload": "block", **keys}}}


def numbers_of(messages):
    return [int(message.headers["Framed-Frame"].split(":")[2]) for message in messages]


@pytest.mark.parametrize("protocol", ["raw", "native"])
def test_results_come_under_their_names(place, server, protocol):
    frames = numbered(100, SIZE)
    with Daemon(place, {"cam0": entry(protocol)}) as daemon, Link(daemon, server, **block()), server.client() as nats:
        if protocol == "native":
            with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
                for number, frame in enumerate(frames):
                    producer.send_frame(frame.tobytes(), sequence=7 * number)
                wait_until(lambda: nats.stored("RESULTS") == 100, "all are stored")
        else:
            with daemon.producer() as producer:
                producer.send(frames.tobytes())
                wait_until(lambda: nats.stored("RESULTS") == 100, "all are stored")
        daemon.account(came=100, emitted=100)
        messages = nats.messages("RESULTS", 100)
        assert [message.data for message in messages] == [frame.tobytes() for frame in frames]
        assert [message.subject for message in messages] == ["results.cam0"] * 100
        names = [message.headers["Nats-Msg-Id"].split(":") for message in messages]
        assert numbers_of(messages) == list(range(100)) and len({tuple(name[:2]) for name in names}) == 1
        assert all(message.headers["Framed-Frame"] == message.headers["Nats-Msg-Id"] for message in messages)
        assert [int(message.headers["Framed-Sequence"]) for message in messages] == \
            [7 * number if protocol == "native" else 0 for number in range(100)]


def all_stored(nats, frames, data=True):
    """Every result is in the stream, once, and in any order that retries may make of them."""
    wait_until(lambda: nats.stored("RESULTS") >= frames, lambda: f"all are stored: {nats.state('RESULTS')}", 40)
    messages = nats.messages("RESULTS", frames)
    assert nats.stored("RESULTS") == frames
    assert sorted(numbers_of(messages)) == list(range(frames))
    if data:
        assert all(message.data == whole(number, SIZE).tobytes() for number, message in zip(numbers_of(messages), messages))


def through(daemon, nats, frames, faults):
    """Sends frames while a list of faults happens to them, one after another, each after a part of the frames is stored."""
    with daemon.producer() as producer:
        sending = Background(producer.send, numbered(frames, SIZE).tobytes())
        for number, fault in enumerate(faults):
            wait_until(lambda: nats().stored("RESULTS") > frames * (number + 1) // (len(faults) + 2), "some are stored", 40)
            fault()
        sending.join(60)
        all_stored(nats(), frames)
    daemon.account(came=frames, emitted=frames)


def test_a_link_that_is_killed_loses_nothing(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, server, **block()) as link, server.client() as nats:
        def again():
            link.kill()
            link.start()
        through(daemon, lambda: nats, 4000, [again] * 4)


def test_a_server_that_is_killed_loses_nothing(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, server, **block()) as link:
        def again():
            server.kill()
            server.start()

        class Fresh:
            def __getattr__(self, name):
                def ask(*arguments):
                    with server.client() as nats:
                        return getattr(nats, name)(*arguments)
                return ask
        through(daemon, Fresh, 4000, [again] * 3)
        assert "no broker" in link.log and link.log.count("connected to the broker") == 4


def test_a_daemon_that_begins_anew_loses_nothing_that_came_in(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, server, **block()) as link, server.client() as nats:
        for life in range(1, 4):
            with daemon.producer() as producer:
                producer.send(numbered(100, SIZE).tobytes())
            wait_until(lambda: nats.stored("RESULTS") == 100 * life, "all are stored", 30)
            if life < 3:
                daemon.kill()
                daemon.start()
                daemon.wait_ready()
        assert len({message.headers["Nats-Msg-Id"] for message in nats.messages("RESULTS", 300)}) == 300
        link.wait("it is back", lambda view: view["pipeline_up"])
