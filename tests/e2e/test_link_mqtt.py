"""framed-link: what is seen in results reaches Home Assistant over a broker of MQTT 5."""

import json
import re
import signal
import socket
import subprocess

import numpy as np
import pytest

from harness import Background, Daemon, environment, pipeline, wait_until
from harness.mqtt import Broker, Mqtt, needs_mosquitto
from harness.nats import LINK, Link, Server, needs_nats

pytestmark = [*needs_nats, needs_mosquitto, pytest.mark.memory]

BOXES = 4
BASE = "framed/cam0"
DEVICE = "homeassistant/device/framed/cam0/config"
STATE, AVAILABILITY = f"{BASE}/state", f"{BASE}/availability"


@pytest.fixture
def broker(place):
    with Broker(place) as broker:
        yield broker


def detector(place, *names, labels="cat\nBig dog\n"):
    """Boxes come as they are: corners, score, class."""
    file = place / "labels.txt"
    file.write_text(labels)
    stages = [{"detect": {"layout": "end2end", "labels": str(file), "most": BOXES}}]
    return {name: pipeline({"dtype": "float32", "shape": [1, BOXES, 6]}, stages=stages, sink={"protocol": "json"})
            for name in names or ["cam0"]}


def boxes(*classes):
    frame = np.zeros((BOXES, 6), np.float32)
    for number, index in enumerate(classes):
        frame[number] = 10 * number, 10, 10 * number + 5, 30, 0.5, index
    return frame.tobytes()


def home_assistant(broker, hold="1h", **keys):
    return {"mqtt": {"server": broker.url, "pipelines": {"cam0": {"hold": hold}}, **keys}}


def link_to(daemon, broker, hold="1h", **keys):
    return Link(daemon, None, **home_assistant(broker, hold, **keys))


def state(home, condition):
    return json.loads(home.wait(STATE, lambda payload: condition(json.loads(payload))))


def entities(home, topic=DEVICE):
    return json.loads(home.last[topic])["components"]


def test_detections_reach_home_assistant(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, link_to(daemon, broker) as link:
        with daemon.producer() as producer:
            producer.send(boxes(1, 0, 1))
            seen = state(home, lambda state: state["count"] == 3)
            assert seen["occupied"] == "ON" and seen["labels"] == {"big_dog": 2, "cat": 1}
            assert seen["boxes"][0] == {"x": 0, "y": 10, "width": 5, "height": 20, "score": 0.5, "class": 1, "label": "Big dog"}
            device = json.loads(home.last[DEVICE])
            assert (device["state_topic"], device["availability_topic"]) == (STATE, AVAILABILITY)
            assert device["device"]["identifiers"] == [BASE] and device["origin"]["name"] == "framed-link"
            found = device["components"]
            assert (found["occupied"]["platform"], found["occupied"]["device_class"]) == ("binary_sensor", "occupancy")
            assert found["count"]["value_template"] == "{{ value_json.count }}"
            assert found["count_big_dog"]["name"] == "detections of Big dog"
            assert {entity["default_entity_id"] for entity in found.values()} == {
                "binary_sensor.cam0_occupied", "sensor.cam0_count", "sensor.cam0_count_cat", "sensor.cam0_count_big_dog"}
            assert found["occupied"]["unique_id"] == f"{BASE}/occupied" and "object_id" not in found["occupied"]
            assert socket.gethostname() not in home.last[DEVICE] and "p5" in broker.log
            producer.send(boxes())
            seen = state(home, lambda state: state["count"] == 0)
            assert seen["occupied"] == "ON" and seen["labels"] == {"big_dog": 0, "cat": 0}
        link.wait("it counts", lambda view: view["results_total"] == 2 and view["published_total"] >= 4, "mqtt")
        link.process.send_signal(signal.SIGTERM)
        home.wait(AVAILABILITY, lambda payload: payload == "offline")
    with broker.client("#", name="later") as later:
        later.wait(AVAILABILITY)
        later.wait(DEVICE) if DEVICE not in later.last else None
        assert later.retained[AVAILABILITY] == "offline" and STATE not in later.retained
        assert later.retained[DEVICE] == home.last[DEVICE]


def test_what_was_seen_is_held_for_a_while(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, link_to(daemon, broker, "100ms"):
        with daemon.producer() as producer:
            producer.send(boxes(0))
            state(home, lambda state: state["occupied"] == "ON")
            assert state(home, lambda state: state["occupied"] == "OFF")["count"] == 1


def test_all_is_told_again_when_home_assistant_begins_anew(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, link_to(daemon, broker):
        with daemon.producer() as producer:
            producer.send(boxes(0))
            state(home, lambda state: state["count"] == 1)
        with broker.home(name="again") as again:
            assert state(again, lambda state: state["count"] == 1)["occupied"] == "ON"
            assert again.last[DEVICE] == home.last[DEVICE] and again.last[AVAILABILITY] == "online"


def test_a_broker_that_is_killed_gets_what_holds_then(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, link_to(daemon, broker) as link:
        with daemon.producer() as producer:
            producer.send(boxes(0))
            state(home, lambda state: state["count"] == 1)
            broker.kill()
            link.wait("it has noticed", lambda view: not view["broker_up"], "mqtt")
            producer.send(boxes(1, 1))
            link.wait("it reads on", lambda view: view["results_total"] == 2, "mqtt")
            broker.start()
            with broker.home() as home:
                seen = state(home, lambda state: state["count"] == 2)
                assert seen["labels"] == {"cat": 0, "big_dog": 2} and "count_big_dog" in entities(home)


@pytest.mark.parametrize("which", ["link", "daemon"])
def test_one_that_is_killed_is_offline_until_it_starts_again(place, broker, which):
    """Of the link the broker says so itself: its last will."""
    with Daemon(place, detector(place)) as daemon, broker.home() as home, link_to(daemon, broker) as link:
        for count in (1, 2):
            with daemon.producer() as producer:
                wait_until(lambda: daemon.view()["readers"] == 1, "the link reads")
                producer.send(boxes(*[0] * count))
                state(home, lambda state: state["count"] == count)
            if count == 1:
                (link if which == "link" else daemon).kill()
                home.wait(AVAILABILITY, lambda payload: payload == "offline")
                (link if which == "link" else daemon).start()
                daemon.wait_ready()
        assert home.last[AVAILABILITY] == "online"


def test_lines_are_read_while_a_broker_does_not_answer(place):
    """As one whose machine is off: the pipeline's sink waits for its readers."""
    with socket.socket() as dead, Daemon(place, detector(place)) as daemon:
        dead.bind(("127.0.0.1", 0))
        dead.listen()
        mqtt = {"server": f"mqtt://127.0.0.1:{dead.getsockname()[1]}", "pipelines": {"cam0": {}}}
        with Link(daemon, None, mqtt=mqtt) as link, daemon.producer() as producer:
            producer.send(boxes(0) * 1000)
            link.wait("it reads", lambda view: view["results_total"] == 1000 and not view["broker_up"], "mqtt")


def test_a_pipeline_that_moves_stays_the_same_device(place, broker):
    """Whatever the box that loses it says, the one that has it is believed."""
    old, new = place / "old", place / "new"
    old.mkdir()
    new.mkdir()
    with Daemon(old, detector(place)) as before, Daemon(new, detector(place)) as after, broker.home() as home:
        with Link(before, None, mqtt={"server": broker.url}), link_to(after, broker):
            for daemon, count in ((before, 1), (after, 2)):
                with daemon.producer() as producer:
                    wait_until(lambda: daemon.view()["readers"] == 1, "the link reads")
                    producer.send(boxes(*[0] * count))
                    state(home, lambda state: state["count"] == count)
            device = json.loads(home.last[DEVICE])
            before.write({"raw": pipeline(GRAY)})
            before.command("/v1/reload")
            home.wait(AVAILABILITY, lambda payload: payload == "offline")
            home.wait(AVAILABILITY, lambda payload: payload == "online")
            wait_until(lambda: '"cam0"' not in (old / "link.prom").read_text(), "the old box has let go of it")
        home.wait(AVAILABILITY, lambda payload: payload == "offline")
        assert json.loads(home.last[DEVICE]) == device


def test_pipelines_are_shown_as_the_daemon_has_them(place, broker):
    """None is named: those with lines of JSON are taken, also when a reload adds one, and one that it removes is forgotten."""
    other = {"raw": pipeline(GRAY), "cam.0": detector(place, "cam.0")["cam.0"]}
    with Daemon(place, {**detector(place), **other}) as daemon, broker.home() as home:
        with Link(daemon, None, mqtt={"server": broker.url}) as link:
            with daemon.producer() as producer:
                producer.send(boxes(0))
                assert state(home, lambda state: state["count"] == 1)["occupied"] == "ON"
            daemon.write({**detector(place, "cam1"), **other})
            daemon.command("/v1/reload")
            home.wait(AVAILABILITY, lambda payload: payload == "offline")
            home.wait(DEVICE, lambda payload: payload == "")
            with daemon.producer("cam1") as producer:
                producer.send(boxes(1))
                home.wait("framed/cam1/state")
            assert "occupied" in entities(home, DEVICE.replace("cam0", "cam1"))
            wait_until(lambda: link.metrics("cam1", "mqtt") and not link.metrics("cam0", "mqtt"), "one runs")
            assert not link.metrics("raw", "mqtt") and link.log.count("mqtt cam.0: left out: its name") == 1
            wait_until(lambda: daemon.view("cam1")["links"].get("mqtt", {}).get("connected"), "the daemon is told")


def test_without_a_daemon_nothing_is_known_of_pipelines(place, broker):
    with Daemon(place, {"raw": pipeline(GRAY)}) as daemon:
        daemon.kill()
        with Link(daemon, None, mqtt={"server": broker.url}) as link:
            wait_until(lambda: "cannot list the daemon's pipelines: " in link.log, lambda: link.log)
            daemon.start()
            daemon.wait_ready()
            wait_until(lambda: "no pipeline has a sink with a socket and protocol: json" in link.log, lambda: link.log)


def test_labels_and_names_become_identities_that_home_assistant_takes(place, broker):
    """Small letters and digits with single '_' between them: it refuses others."""
    names, base = ["кот", "пёс", "-A  b-"], "framed/Cam--0_"
    device = detector(place, "Cam--0_", labels="\n".join(names))
    with Daemon(place, device) as daemon, broker.home() as home:
        with Link(daemon, None, mqtt={"server": broker.url}), daemon.producer("Cam--0_") as producer:
            producer.send(boxes(0, 1, 1, 2))
            seen = json.loads(home.wait(f"{base}/state"))
            assert sorted(seen["labels"].values()) == [1, 1, 2]
            found = entities(home, "homeassistant/device/framed/Cam--0_/config").values()
            assert {f"detections of {name}" for name in names} <= {entity["name"] for entity in found}
            identities = [entity["default_entity_id"] for entity in found]
            assert len(set(identities)) == len(identities) and "sensor.cam_0_count_a_b" in identities
            assert all(re.fullmatch(r"(?!.+__)(?!_)[a-z_]+\.(?!_)[\da-z_]+(?<!_)", identity) for identity in identities)


# -- brokers ----------------------------------------------------------------------------------------------------------


def test_a_broker_that_wants_a_password_and_speaks_tls(place):
    def run(*words):
        subprocess.run(words, check=True, capture_output=True, cwd=place)
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem", "-out", "ca.pem",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")
    run("mosquitto_passwd", "-c", "-b", "passwords", "framed", "right word")
    (place / "key.pem").chmod(0o644)
    (place / "password").write_text("wrong\n")
    lines = ("allow_anonymous false", f"password_file {place}/passwords", f"certfile {place}/ca.pem", f"keyfile {place}/key.pem")
    with Broker(place, *lines) as broker, Daemon(place, detector(place)) as daemon:
        broker.url = broker.url.replace("mqtt://", "mqtts://")
        login = {"user": "framed", "password": "password"}
        with link_to(daemon, broker, **login) as link:
            wait_until(lambda: "its certificate cannot be verified: set mqtt.tls.ca" in link.log, lambda: link.log)
        with link_to(daemon, broker, tls={"ca": "nowhere.pem"}) as link:
            wait_until(lambda: "nowhere.pem: No such file or directory" in link.log, lambda: link.log)
        with link_to(daemon, broker, tls={"ca": "ca.pem"}) as link:
            wait_until(lambda: "it wants a user and a password" in link.log, lambda: link.log)
        with link_to(daemon, broker, tls={"ca": "ca.pem"}, **login) as link:
            wait_until(lambda: "it refuses the user or the password" in link.log, lambda: link.log)
            (place / "password").write_text("right word\n")
            link.wait_up("mqtt")


class Port(Server):
    """A NATS server with an MQTT port, which speaks 3.1.1."""

    def __init__(self, place, host="127.0.0.1", **keys):
        super().__init__(place, server_name="broker", mqtt={"host": host, "port": 1883}, host=host, **keys)


def test_a_broker_that_refuses_mqtt_5_is_named(place):
    with Port(place, "127.0.0.83"), Daemon(place, detector(place)) as daemon:
        with Link(daemon, None, mqtt={"server": "mqtt://127.0.0.83", "pipelines": {"cam0": {}}}) as link:
            wait_until(lambda: "it does not speak MQTT 5; use a broker that does" in link.log, lambda: link.log)


def test_the_old_form_works_with_the_port_of_nats(place):
    with Port(place, "127.0.0.84") as server, Daemon(place, detector(place)) as daemon:
        with Link(daemon, server, mqtt={"node": "box"}) as link, daemon.producer() as producer:
            link.wait_up("mqtt")
            producer.send(boxes(0))
            link.wait("it tells", lambda view: view["published_total"] >= 3, "mqtt")
            with Mqtt(1883, "#", version=4, host="127.0.0.84") as home:
                home.publish("homeassistant/status", "online")
                home.wait(STATE)
            assert "mqtt: no 'server' is named" in link.log and "'node' is not used any more" in link.log


GRAY = {"pixels": "gray", "width": 64, "height": 48}


def test_motion_is_a_motion_sensor(place, broker):
    entry = pipeline(GRAY, stages=[{"motion": {"output": "boxes", "cell": 8, "boxes": 4}}], sink={"protocol": "json"})
    with Daemon(place, {"cam0": entry}) as daemon, broker.home() as home, link_to(daemon, broker):
        with daemon.producer() as producer:
            picture = np.zeros((48, 64), np.uint8)
            producer.send(picture.tobytes())
            assert state(home, lambda state: state["count"] == 0)["occupied"] == "OFF"
            picture[16:24, 8:32] = 200
            producer.send(picture.tobytes())
            assert state(home, lambda state: state["count"] == 1)["changed"] == 0.0625
            assert entities(home)["occupied"]["device_class"] == "motion"


def test_the_best_class_is_a_sensor(place, broker):
    entry = pipeline({"dtype": "float32", "shape": [8]}, stages=[{"top": {"k": 2}}], sink={"protocol": "json"})
    with Daemon(place, {"cam0": entry}) as daemon, broker.home() as home, link_to(daemon, broker):
        with daemon.producer() as producer:
            producer.send(np.float32([0, 0, 5, 0, 0, 1, 0, 0]).tobytes())
            assert state(home, lambda state: state["class"] == "2")["score"] > 0.5
            assert sorted(entities(home)) == ["class", "score"]


@pytest.mark.parametrize("protocol", ["json", "raw"])
def test_what_says_of_no_detections_is_said_so_once(place, broker, protocol):
    entry = pipeline(GRAY, stages=["stats"], sink={"protocol": protocol})
    with Daemon(place, {"cam0": entry}) as daemon, link_to(daemon, broker) as link:
        with daemon.producer() as producer:
            sending = Background(producer.send, bytes(range(256)) * 12 * 1200)
            wait_until(lambda: "no detections in the results at" in link.log, lambda: link.log)
            sending.join()
        daemon.account(came=1200, emitted=1200)
        assert link.log.count("no detections") == 1


# -- configuration ----------------------------------------------------------------------------------------------------


def check(place, mqtt, nats=""):
    file = place / "link.yaml"
    file.write_text(f"{nats}mqtt: {mqtt}\n")
    return subprocess.run([LINK, "-c", file, "--check"], capture_output=True, text=True, check=False, env=environment())


def test_a_check_says_where_detections_would_go(place):
    done = check(place, "{server: 'mqtt://127.0.0.1:1', pipelines: {cam0: {}}}")
    assert done.returncode == 0 and "cannot reach the broker of MQTT: mqtt://127.0.0.1:1: " in done.stderr
    assert done.stdout == ("pipeline cam0 at /run/framed/cam0.out.sock -> mqtt://127.0.0.1:1, framed/cam0, announced under homeassistant\n")


def test_a_check_says_that_pipelines_are_asked_for_and_names_the_old_form(place):
    done = check(place, "{prefix: home, topic: site}", "nats: {servers: ['nats://me@[::1]:4222']}\n")
    assert done.returncode == 0 and "write mqtt: {server: mqtt://HOST:1883}" in done.stderr
    assert done.stdout == ("every pipeline of the daemon at /run/framed/status.sock whose sink has a socket and protocol: json -> "
                           "mqtt://[::1]:1883, site/PIPELINE, announced under home\n")


@pytest.mark.parametrize("mqtt,text", [
    ("{server: mqtt://a, pipelines: {cam0: {hodl: 5s}}}", "1:45: unknown key 'hodl' in mqtt 'cam0'"),
    ("{server: mqtt://a, pipelines: {cam.0: {}}}", "1:38: 'cam.0' is not a name that 'name' can have"),
    ("{server: mqtt://a, prefix: a/b}", "1:34: 'a/b' is not a name that 'prefix' can have"),
    ("{server: mqtt://a, pipelines: {cam0: {hold: 0s}}}", "1:51: 'hold'"),
    ("{server: mqtt://a, pipelines: {}}", "there are no 'sinks', 'sources' or pipelines of 'mqtt'"),
    ("{server: nats://a}", "1:16: 'nats://a' is not the address of a broker"),
    ("{server: 'mqtt://a:99999'}", "is not the address of a broker"),
    ("{server: 'mqtt://me:word@a'}", "is not the address of a broker"),
    ("{server: mqtt://a, password: a}", "1:26: 'password' needs 'user'"),
    ("{server: mqtt://a, tls: {ca: a}}", "1:26: 'tls' needs a server with TLS"),
    ("{}", "'mqtt' needs 'server'"),
])
def test_a_mistake_in_mqtt_has_its_place(place, mqtt, text):
    done = check(place, mqtt)
    assert done.returncode == 78 and text in done.stderr, done.stderr
