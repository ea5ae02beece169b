"""Reload after reload under load, every other one invalid: no frame is lost, and an invalid one changes nothing.

FRAMED_RELOADS says how many (30; `make soak` makes it 1,000).
"""

import json
import os
import re

import pytest

from harness import Background, Daemon, Producer, Reader, complete, numbered, pipeline, require_whole, wait_until, whole

RELOADS = int(os.environ.get("FRAMED_RELOADS", "30"))
pytestmark = [pytest.mark.host, pytest.mark.takes(max(60, RELOADS))]

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
KEYS = {"lanes": 2, "drain_timeout": "20s"}


def shifted(offset, **keys):
    return pipeline(FORMAT, stages=[{"affine": {"scale": 1.0, "offset": offset}}], **keys)


def entries(version):
    """One that stays as it is, two that change with every version, and one that comes and goes."""
    return {
        "steady": pipeline(FORMAT, slots=3),
        "asked": shifted(version % 100, source={"clients": 2}, sink={"reply": True}),
        "flooded": pipeline(FORMAT, slots=2 + version % 2),
        f"passing-{version % 3}": shifted(version % 100, sink={"overload": "drop"}),
    }


# -- mistakes: each gets what would be a valid configuration, and gives the text of one that is not -------------------------


def altered(config, change):
    change(config)
    return json.dumps(config)


def misnamed(config):
    config["pipelines"]["steady"]["slotz"] = 3


def too_many(config):
    config["pipelines"]["asked"]["slots"] = 99


def restarting(config):
    config["lanes"] = 3


def nowhere(config):
    config["pipelines"]["flooded"]["sink"] = {"file": "/no/such/folder/results"}


def occupied(config):
    config["pipelines"]["flooded"]["source"]["socket"] = config["status"]["socket"] + ".file"


def shared_path(config):
    config["pipelines"]["asked"]["source"]["socket"] = config["pipelines"]["steady"]["source"]["socket"]


def odd_stage(config):
    config["pipelines"]["asked"]["stages"] = [{"convert": {"to": "nv12"}}]


MISTAKES = [misnamed, too_many, restarting, nowhere, occupied, shared_path, odd_stage]


def mistaken(place, version):
    config = complete(place, entries(version), **KEYS)
    turn = version % (len(MISTAKES) + 2)
    if turn < len(MISTAKES):
        return altered(config, MISTAKES[turn])
    return json.dumps(config)[:-20] if turn == len(MISTAKES) else "pipelines: {}\n---\n"


# -- clients ----------------------------------------------------------------------------------------------------------------


def stream(producer, reader, stop):
    """Sends numbered frames until told to stop, ten under way at most; returns how many went through, each in its place."""
    sent = taken = 0
    while taken < sent or not stop:
        if sent - taken < 10 and not stop:
            producer.send(whole(sent, SIZE).tobytes())
            sent += 1
        else:
            assert reader.read(SIZE) == whole(taken, SIZE).tobytes(), f"expected frame {taken}"
            taken += 1
    return sent


def ask(path, stop):
    """A frame and its answer, again and again; whoever is cut off by a change comes back. Returns how many were answered."""
    answers = 0
    while not stop:
        with Producer(path) as client:
            try:
                while not stop:
                    client.send(bytes(SIZE))
                    answer = client.read(SIZE)
                    assert len(set(answer)) == 1, "an answer of two versions"
                    answers += 1
            except (EOFError, ConnectionError):
                continue
    return answers


def flood(path, stop):
    """As many frames as the pipeline takes; returns how many were sent."""
    number = 0
    while not stop:
        with Producer(path) as producer:
            try:
                while not stop:
                    producer.send(whole(number, SIZE).tobytes())
                    number += 1
            except ConnectionError:
                number += 1  # that one may have been taken
    return number


def drink(path, seen):
    """Every result, over all versions, until the daemon has gone."""
    while True:
        try:
            with Reader(path) as reader:
                numbers = require_whole(reader.rest(), SIZE)
        except (FileNotFoundError, ConnectionRefusedError):
            return
        assert not seen or not numbers or numbers[0] > seen[-1], "a result came twice"
        seen += numbers


# -- the test ---------------------------------------------------------------------------------------------------------------


def reload_wrongly(daemon, place, version):
    before = daemon.request("GET", "/v1/config"), daemon.status()["reloads"]
    daemon.file.write_text(mistaken(place, version))
    code, answer = daemon.post("/v1/reload")
    assert code == 400 and answer["error"], (code, answer)
    after = daemon.request("GET", "/v1/config"), daemon.status()["reloads"]
    assert after[0] == before[0], "the configuration has changed"
    assert after[1] == {"done": before[1]["done"], "failed": before[1]["failed"] + 1, "refused": after[1]["refused"]}
    assert answer["error"].splitlines()[0] in after[1]["refused"], (answer, after)


def reload_rightly(daemon, version):
    daemon.write(entries(version), **KEYS)
    code, answer = daemon.post("/v1/reload")
    assert code == 200 and answer["unchanged"] == ["steady"], (code, answer)
    assert sorted(answer["changed"]) == ["asked", "flooded"], answer


def losses(log, name):
    """(how many came in, how many were emitted, how many were not) in all versions of a pipeline."""
    lines = re.findall(rf" {name}: stopped: in (\d+) = emitted (\d+) \+ in flight 0 \+ dropped (\d+)", log)
    return [sum(int(line[column]) for line in lines) for column in range(3)]


def test_reloads_under_load(place, say):
    stop, seen = [], []
    (place / "status.sock.file").write_text("not a socket")
    with Daemon(place, entries(0), **KEYS) as daemon:
        inodes = [os.stat(daemon.path("asked", "source")).st_ino, os.stat(daemon.path("flooded", "sink")).st_ino]
        reader, producer = daemon.reader("steady"), daemon.producer("steady")
        steady = Background(stream, producer, reader, stop)
        asking = [Background(ask, daemon.path("asked", "source"), stop) for _ in range(2)]
        flooding = Background(flood, daemon.path("flooded", "source"), stop)
        drinking = Background(drink, daemon.path("flooded", "sink"), seen)
        files = None
        for version in range(1, RELOADS // 2 + 1):
            reload_wrongly(daemon, place, version)
            reload_rightly(daemon, version)
            assert not any(client.done for client in (steady, flooding, drinking, *asking)), "a client has ended"
            if version % 50 == 3:
                files = files or daemon.open_files()  # perhaps while those whom the change cut off were not back yet
                wait_until(lambda: daemon.open_files() <= files + 9, lambda: f"{files} files, now {daemon.open_files()}")
        assert daemon.status()["reloads"].items() >= {"done": RELOADS // 2, "failed": RELOADS // 2}.items()
        assert inodes == [os.stat(daemon.path("asked", "source")).st_ino, os.stat(daemon.path("flooded", "sink")).st_ino]
        stop.append(True)
        count = steady.join()
        daemon.account("steady", came=count, emitted=count)
        answered = sum(client.join() for client in asking)
        flooding.join()
        producer.close()
        reader.close()
        daemon.quiet()
        daemon.process.terminate()
        daemon.ends(0)
        drinking.join()
    came, emitted, lost = losses(daemon.log, "asked")
    assert (came, lost) == (emitted, 0) and emitted >= answered > 0, (came, emitted, lost, answered)
    came, emitted, lost = losses(daemon.log, "flooded")
    assert emitted == len(seen) > 0 and lost <= RELOADS // 2 + 1, (came, emitted, lost, len(seen))
    invalid = re.findall(r" flooded: stopped: .*dropped \d+ \((?!invalid 1\)|shutdown 1\))(.*)\)", daemon.log)
    assert not invalid, "only the frame within which a producer is cut off may be lost"
    say(f"{RELOADS} reloads: {count} frames through the pipeline that stays, {answered} answers, {len(seen)} of a flood")
