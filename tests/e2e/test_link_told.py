"""What framed-link tells the daemon of its broker: status, health, metrics and framectl show it, and forget it."""

import json
import signal
import subprocess

import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until
from harness.nats import Link, Server, needs_nats

SIZE = 1024


def framectl(daemon, *arguments):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, *arguments], capture_output=True, text=True, timeout=limit(20),
                          env=environment(), check=False)


def block():
    return {"sinks": {"cam0": {"stream": "RESULTS", "overload": "block"}}}


def entry(**keys):
    return {"cam0": pipeline({"dtype": "uint8", "shape": [SIZE]}, sink={"protocol": "native"}, **keys)}


def word(**keys):
    return json.dumps({"role": "sink", "connected": False, "since_s": 3, "expires_s": 60, "unacknowledged": 2,
                       "error": "no server", **keys}).encode()


def tell(daemon, **keys):
    code, body = daemon.request("POST", "/v1/pipelines/cam0/link", word(**keys))
    assert code == 200, body


def links(daemon):
    return daemon.view()["links"]


def reasons(daemon):
    return json.loads(daemon.request("GET", "/v1/health")[1])["degraded"]


def test_a_link_without_a_broker_makes_its_pipeline_unwell(place):
    with Daemon(place, entry()) as daemon:
        assert links(daemon) == {}
        tell(daemon)
        told = links(daemon)["sink"]
        assert (told["connected"], told["unacknowledged"], told["error"]) == (False, 2, "no server") and told["since_s"] >= 3
        [reason] = reasons(daemon)
        assert reason["reason"] == "broker" and reason["name"] == "cam0" and reason["since_s"] >= 3 and reason["remedy"]
        assert reason["text"] == "the broker of its link (sink) is unreachable: no server"
        assert daemon.request("GET", "/v1/health")[0] == 503 and daemon.request("GET", "/v1/live")[0] == 200
        told = framectl(daemon, "health")
        assert told.returncode == 2 and "pipeline cam0: broker, for " in told.stdout and "journalctl -u framed-link" in told.stdout
        for arguments in (["status"], ["status", "cam0"]):
            assert "link (sink): its broker is unreachable for " in framectl(daemon, *arguments).stdout
        assert 'framed_link_connected{pipeline="cam0",role="sink"} 0\n' in daemon.metrics()
        assert 'framed_link_unacknowledged{pipeline="cam0",role="sink"} 2\n' in daemon.metrics()
        assert 'framed_pipeline_degraded{pipeline="cam0",reason="broker"} 1\n' in daemon.metrics()
        tell(daemon, connected=True)
        assert reasons(daemon) == [] and "link (sink): has its broker" in framectl(daemon, "status", "cam0").stdout
        assert "link" not in framectl(daemon, "status").stdout
        tell(daemon, connected=True, warns=True, error="full")
        [reason] = reasons(daemon)
        assert reason["text"] == "its link (sink) does not work as it should: full" and reason["since_s"] < 3
        told = framectl(daemon, "status").stdout
        assert "link (sink): has its broker for " in told and told.rstrip().endswith("2 unacknowledged: full")


def test_a_link_that_has_gone_is_forgotten(place):
    with Daemon(place, entry()) as daemon:
        tell(daemon)
        tell(daemon, expires_s=0)
        assert links(daemon) == {} and reasons(daemon) == []
        tell(daemon, expires_s=0.001)
        wait_until(lambda: links(daemon) == {} and reasons(daemon) == [], "its word holds no longer")
        code, body = daemon.request("POST", "/v1/pipelines/cam0/link", b"nonsense")
        assert code == 400 and json.loads(body)["remedy"] and links(daemon) == {}


def test_what_a_link_tells_is_told_again_after_an_upgrade(place):
    with Daemon(place, entry()) as daemon:
        tell(daemon)
        assert daemon.command("/v1/upgrade")
        wait_until(lambda: links(daemon) == {}, "the next process knows of no link")
        tell(daemon)
        assert links(daemon)["sink"]["unacknowledged"] == 2


def with_nats(test):
    for mark in [*needs_nats, pytest.mark.memory]:
        test = mark(test)
    return test


@with_nats
def test_a_server_that_is_killed_shows_until_it_is_back(place):
    with Server(place) as server, Daemon(place, entry()) as daemon, Link(daemon, server, **block()) as link:
        wait_until(lambda: links(daemon).get("sink", {}).get("connected"), "the daemon is told", 20)
        server.kill()
        unreachable = "the broker of its link (sink) is unreachable: cannot connect to its server: no server listens there"
        wait_until(lambda: [reason["text"] for reason in reasons(daemon)] == [unreachable], lambda: reasons(daemon), 20)
        server.start()
        wait_until(lambda: reasons(daemon) == [], "it is back", 30)
        assert links(daemon)["sink"]["connected"] and links(daemon)["sink"]["error"]
        link.process.send_signal(signal.SIGTERM)
        wait_until(lambda: links(daemon) == {}, "it has said that it goes")


@with_nats
def test_a_server_without_jetstream_is_said_to_lack_it(place):
    with Server(place, jetstream=False) as server, Daemon(place, entry()) as daemon, Link(daemon, server, **block()):
        wait_until(lambda: "add a section jetstream" in links(daemon).get("sink", {}).get("error", ""), lambda: links(daemon), 20)


@with_nats
def test_what_is_unacknowledged_shows_while_a_server_hangs(place):
    with Server(place) as server, Daemon(place, entry(slots=4)) as daemon, Link(daemon, server, **block()) as link:
        link.wait_up()
        server.process.send_signal(signal.SIGSTOP)
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(20, SIZE).tobytes())
            wait_until(lambda: links(daemon).get("sink", {}).get("unacknowledged") == 4, "all slots wait", 20)
            server.process.send_signal(signal.SIGCONT)
            sending.join()
            wait_until(lambda: links(daemon)["sink"]["unacknowledged"] == 0, "the stream has them", 30)


@with_nats
def test_a_daemon_that_cannot_be_told_is_said_so_once(place):
    with Server(place) as server, Daemon(place, entry()) as daemon:
        with Link(daemon, server, status=str(place / "nobody.sock"), **block()) as link:
            wait_until(lambda: "nobody.sock: No such file" in link.log, lambda: link.log)
            link.wait_up()
        assert link.log.count("cannot report this link") == 1
