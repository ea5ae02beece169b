"""framed-link: results of a pipeline into a stream of NATS, each stored once, whatever is killed on the way."""

import json
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

from harness import Background, Daemon, environment, numbered, pipeline, wait_until, whole
from harness.native import PRODUCER, Native
from harness.nats import LINK, Link, Server, needs_nats

# With ASan alone: libnats' own locks are not seen by TSan.
pytestmark = [*needs_nats, pytest.mark.memory]

SIZE = 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
NATIVE = {"protocol": "native"}


@pytest.fixture
def server(place):
    with Server(place) as server:
        yield server


@pytest.fixture
def durable(place):
    with Server(place, durable=True) as server:
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
            [7 * number if protocol == "native" else number for number in range(100)]


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


def test_a_link_that_is_killed_loses_nothing(place, durable):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, durable, **block()) as link, durable.client() as nats:
        def again():
            link.kill()
            link.start()
        through(daemon, lambda: nats, 4000, [again] * 4)


def test_a_server_that_is_killed_loses_nothing(place, durable):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, durable, **block()) as link:
        def again():
            durable.kill()
            durable.start()

        class Fresh:
            def __getattr__(self, name):
                def ask(*arguments):
                    with durable.client() as nats:
                        return getattr(nats, name)(*arguments)
                return ask
        through(daemon, Fresh, 4000, [again] * 3)
        assert "no broker" in link.log and link.log.count("connected to the broker") == 4


def test_a_daemon_that_begins_anew_loses_nothing_that_came_in(place, durable):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, durable, **block()) as link, durable.client() as nats:
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


# -- a broker in trouble ----------------------------------------------------------------------------------------------


def test_without_a_broker_a_sink_that_drops_leaves_frames_unread(place, server):
    sink = {"cam0": {"stream": "RESULTS", "overload": "drop"}}
    with Daemon(place, {"cam0": entry(slots=4, sink={"overload": "drop"})}) as daemon, Link(daemon, server, sinks=sink) as link:
        with daemon.producer() as producer:
            link.wait_up()
            producer.send(numbered(20, SIZE).tobytes())
            link.wait("what it got is stored", lambda view: view["stored_total"] + view["missed_total"] == 20)
            stored = link.metrics()["stored_total"]
            server.kill()
            link.wait("it has noticed", lambda view: not view["broker_up"] and not view["pipeline_up"])
            producer.send(numbered(50, SIZE).tobytes())
            daemon.account(came=70, emitted=stored, unread=70 - stored)
            server.start()
            link.wait_up()
            producer.send(numbered(1, SIZE).tobytes())
            link.wait("the next is stored", lambda view: view["stored_total"] == stored + 1, seconds=30)


def test_while_a_broker_hangs_a_sink_that_blocks_holds_its_slots(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, Link(daemon, server, **block()) as link:
        link.wait_up()
        server.process.send_signal(signal.SIGSTOP)
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(2000, SIZE).tobytes())
            daemon.wait_view("all slots wait for the reader", lambda view: view["waiting"] == "reader")
            link.wait("they are its", lambda view: view["in_flight"] == 4)
            assert daemon.frames()["emitted"] == 0
            server.process.send_signal(signal.SIGCONT)
            sending.join()
            with server.client() as nats:
                all_stored(nats, 2000)


def test_while_a_broker_hangs_a_sink_that_drops_keeps_no_slots(place, server):
    """More frames than it keeps messages for."""
    with Daemon(place, {"cam0": entry(size=128 << 10, slots=4, sink={"overload": "drop"})}) as daemon:
        sinks = {"cam0": {"stream": "RESULTS", "overload": "drop"}}
        with Link(daemon, server, sinks=sinks, limits={"memory": "1MiB"}) as link, daemon.producer() as producer:
            link.wait_up()
            server.process.send_signal(signal.SIGSTOP)
            for number in range(24):
                producer.send(whole(number, 128 << 10).tobytes())
                daemon.wait_view("it has its fate", lambda view: view["frames"]["in"] == number + 1 and not view["frames"]["in_flight"])
            server.kill()
        assert link.metrics()["lost_total"] > 0


def test_while_a_broker_hangs_a_sink_that_drops_leaves_the_pipeline(place, server):
    sink = {"cam0": {"stream": "RESULTS", "overload": "drop"}}
    with Daemon(place, {"cam0": entry(slots=4, sink={"overload": "drop"})}) as daemon, Link(daemon, server, sinks=sink) as link:
        link.wait_up()
        with daemon.producer() as producer:
            server.process.send_signal(signal.SIGSTOP)
            producer.send(numbered(1, SIZE).tobytes())
            wait_until(lambda: any(why in link.log for why in ("the broker does not answer", "Stale Connection")), lambda: link.log)
            link.wait("it has left", lambda view: not view["broker_up"] and not view["pipeline_up"])
            wait_until(lambda: not daemon.view()["links"]["sink"]["connected"], "the daemon is told", 20)
            producer.send(numbered(20, SIZE).tobytes())
            daemon.account(came=21, emitted=1, unread=20)
            server.process.send_signal(signal.SIGCONT)
            link.wait_up()
            before = link.metrics()["stored_total"]
            producer.send(numbered(1, SIZE).tobytes())
            link.wait("the next is stored", lambda view: view["stored_total"] > before, seconds=30)


def test_a_stream_that_is_full_holds_the_pipeline_until_there_is_room(place, server):
    with Daemon(place, {"cam0": entry(slots=4)}) as daemon, server.client() as nats:
        nats.make_stream("RESULTS", ["results.>"], max_msgs=10, discard="new")
        with Link(daemon, server, **block()) as link, daemon.producer() as producer:
            producer.send(numbered(12, SIZE).tobytes())
            wait_until(lambda: "the stream refuses a result: maximum messages exceeded" in link.log, lambda: link.log)
            daemon.wait_view("the others wait", lambda view: view["frames"]["emitted"] == 10)
            daemon.wait_view("it is told", lambda view: view["links"].get("sink", {}).get("warns"))
            names = numbers_of(nats.messages("RESULTS", 10))
            nats.ask("STREAM.PURGE.RESULTS")
            wait_until(lambda: nats.stored("RESULTS") == 2, "there is room", 20)
            daemon.account(came=12, emitted=12)
            daemon.wait_view("it is mended", lambda view: not view["links"]["sink"]["warns"])
            assert names == list(range(10))


@pytest.mark.parametrize("limit,remedy", [(1 << 20, "set max_payload: 8MB"), (8 << 20, "let a stage make them smaller")])
def test_results_that_are_too_large_are_refused_with_the_reason(place, limit, remedy):
    with Server(place, max_payload=limit) as server, Daemon(place, {"cam0": entry(size=limit)}) as daemon:
        with Link(daemon, server, **block()) as link:
            wait_until(lambda: "refused: results have" in link.log and remedy in link.log, lambda: link.log)
            assert not link.metrics().get("pipeline_up")
            daemon.write({"cam0": entry()})
            daemon.command("/v1/reload")
            link.wait_up()


def test_metrics_that_cannot_be_written_are_said_so(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, Link(daemon, server, metrics=str(place / "no" / "prom"), **block()) as link:
        wait_until(lambda: "cannot write metrics to " in link.log and "No such file" in link.log, lambda: link.log)


# -- configuration ----------------------------------------------------------------------------------------------------


GOOD = """nats:
  servers: [nats://127.0.0.1:4222]
sinks:
  cam0: {stream: RESULTS, overload: block}
  archive: {stream: RESULTS, subject: done.archive}
sources:
  archive: {stream: FRAMES, consumer: workers, ack_wait: 5s, deliver: 5}
"""


def check(place, text):
    file = place / "link.yaml"
    file.write_text(text)
    return subprocess.run([LINK, "-c", file, "--check"], capture_output=True, text=True, check=False, env=environment())


def test_a_check_says_what_would_be_done(place):
    done = check(place, GOOD)
    assert done.returncode == 0 and "cannot reach the server nats://127.0.0.1:4222" in done.stderr
    assert done.stdout.splitlines() == [
        "pipeline cam0 at /run/framed/cam0.out.sock -> stream RESULTS (results.cam0), block",
        "pipeline archive at /run/framed/archive.out.sock -> stream RESULTS (done.archive), block, named by the frames of FRAMES",
        "stream FRAMES (frames.archive), consumer workers -> pipeline archive at /run/framed/archive.sock"]


def test_the_example_of_the_manual_is_right(place):
    manual = (pathlib.Path(__file__).parents[2] / "packaging/man/framed-link.1").read_text()
    done = check(place, manual.split(".EX\n")[1].split(".EE")[0])
    assert done.returncode == 0 and "pipeline yard at" in done.stdout, done.stderr


def test_a_check_says_what_cannot_be_reached(place, server):
    with Daemon(place, {"cam0": entry()}) as daemon, socket.create_server(("127.0.0.1", 0)) as silent:
        dumb = f"127.0.0.1:{silent.getsockname()[1]}"
        config = {"nats": {"servers": [server.url]}, "status": daemon.config["status"]["socket"],
                  "sinks": {"cam0": {"socket": str(daemon.path("cam0", "sink")), "stream": "RESULTS"}}}
        done = check(place, json.dumps(config))
        assert (done.returncode, done.stderr) == (0, "")
        config["nats"]["servers"] += ["nats://me:secret@127.0.0.1:1", f"nats://{dumb}"]
        config["mqtt"] = {"server": f"mqtt://{dumb}", "pipelines": {"yard": {"socket": str(place / "nobody.sock")}}}
        done = check(place, json.dumps(config))
        assert done.returncode == 0 and done.stderr.splitlines() == [f"framed-link: warning: {text}" for text in [
            f"mqtt yard: cannot reach its socket {place}/nobody.sock: No such file or directory",
            "cannot reach the server nats://127.0.0.1:1: no server listens there",
            f"cannot reach the server nats://{dumb}: it does not answer",
            f"cannot reach the broker of MQTT: mqtt://{dumb}: it does not answer"]]
        daemon.kill()
        told = check(place, json.dumps({key: config[key] for key in ("nats", "status", "sinks")})).stderr
        assert told.count("nobody has it open; start framed") == 2
        daemon.start()
        daemon.wait_ready()


def test_the_daemon_is_named_by_the_environment_or_the_file(place, monkeypatch):
    monkeypatch.setenv("FRAMED_SOCKET", "/run/other.sock")
    text = GOOD + "mqtt: {server: mqtt://127.0.0.1:1883}\n"
    assert "the daemon at /run/other.sock " in check(place, text).stdout
    assert "the daemon at /run/named.sock " in check(place, text + "status: /run/named.sock\n").stdout


@pytest.mark.parametrize("old,new,place_of_it,text", [
    ("overload: block", "overlaod: block", "4:27", "unknown key 'overlaod' in sink 'cam0'"),
    ("overload: block", "overload: keep", "4:37", "'overload' must be one of: block, drop, not 'keep'"),
    ("ack_wait: 5s", "ack_wait: 5", "7:58", "'ack_wait' needs a unit"),
    ("consumer: workers, ", "", "7:3", "source 'archive' needs 'consumer'"),
    ("nats://127.0.0.1:4222", "127.0.0.1", "2:13", "'127.0.0.1' is not the address of a server"),
    ("done.archive", "done.*", "5:39", "'done.*' is not a name that 'subject' can have"),
    ("[nats://127.0.0.1:4222]", "nats", "2:12", "'nats' needs 'servers', a list of addresses"),
    ("sinks:", "sink:", "3:1", "unknown key 'sink' in the file"),
])
def test_a_mistake_has_its_place(place, old, new, place_of_it, text):
    done = check(place, GOOD.replace(old, new, 1))
    assert done.returncode == 78 and done.stdout == ""
    assert f"link.yaml:{place_of_it}: {text}" in done.stderr and "^" in done.stderr


# -- who may ----------------------------------------------------------------------------------------------------------


def certificates(folder):
    """An authority, and a certificate of this machine by it."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out",
            "ca.pem", "-subj", "/CN=authority", "-days", "2")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out",
            "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem",
            "-days", "2", "-extfile", "names")


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_a_tenant_of_a_server_with_tls(place):
    """Both sides have certificates; the account of one tenant holds what the other's does not."""
    certificates(place)
    tls = {"cert_file": str(place / "server.pem"), "key_file": str(place / "server.key"), "ca_file": str(place / "ca.pem"),
           "verify": True}
    accounts = {name: {"jetstream": True, "users": [{"user": name, "password": "secret"}]} for name in ("north", "south")}
    nats = {"tls": {"ca": "ca.pem", "certificate": "server.pem", "key": "server.key"}}
    with Server(place, tls=tls, accounts=accounts) as server, Daemon(place, {"cam0": entry()}) as daemon:
        for password, expected in (("wrong", "Authorization"), ("secret", "connected to the broker")):
            url = f"tls://north:{password}@127.0.0.1:{server.port}"
            with Link(daemon, server, nats={**nats, "servers": [url]}, **block()) as link:
                wait_until(lambda: expected in link.log, lambda: link.log)
                assert "secret" not in link.log and "wrong" not in link.log
                if password == "secret":
                    with daemon.producer() as producer:
                        producer.send(numbered(10, SIZE).tobytes())
                    link.wait("they are stored", lambda view: view["stored_total"] == 10)
        with Link(daemon, server, nats={"servers": [server.url]}, **block()) as link:
            wait_until(lambda: "no broker" in link.log, lambda: link.log)
