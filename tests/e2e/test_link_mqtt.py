"""framed-link: what is seen in results reaches Home Assistant by the MQTT port of a NATS server."""

import json
import signal
import socket
import subprocess

import numpy as np
import pytest

from harness import Background, Daemon, environment, pipeline, wait_until
from harness.mqtt import Mqtt
from harness.nats import LINK, Link, Server, needs_nats

pytestmark = [*needs_nats, pytest.mark.memory]

BOXES = 4
BASE = "framed/box/cam0"
OCCUPIED = "homeassistant/binary_sensor/framed_box/cam0_occupied/config"
COUNT = "homeassistant/sensor/framed_box/cam0_count/config"
DOGS = "homeassistant/sensor/framed_box/cam0_count_big_dog/config"
STATUS = "homeassistant/status"


class Broker(Server):
    """A server with an MQTT port."""

    def __init__(self, place, **keys):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.mqtt_port = free.getsockname()[1]
        super().__init__(place, server_name="broker", mqtt={"host": "127.0.0.1", "port": self.mqtt_port}, **keys)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.mqtt_port), 1).close()
        except OSError:
            return False
        return super().answers()

    def home(self):
        """Home Assistant, as far as it is seen from here; says that it is there as that does when it starts."""
        home = Mqtt(self.mqtt_port, "homeassistant/#", "framed/#")
        home.publish(STATUS, "online")
        return home


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


def home_assistant(hold="1h"):
    return {"mqtt": {"node": "box", "pipelines": {"cam0": {"hold": hold}}}}


def state(home, condition):
    return json.loads(home.wait(f"{BASE}/state", lambda payload: condition(json.loads(payload))))


def test_detections_reach_home_assistant(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()) as link:
        with daemon.producer() as producer:
            producer.send(boxes(1, 0, 1))
            seen = state(home, lambda state: state["count"] == 3)
            assert seen["occupied"] == "ON" and seen["labels"] == {"big_dog": 2, "cat": 1}
            assert seen["boxes"][0] == {"x": 0, "y": 10, "width": 5, "height": 20, "score": 0.5, "class": 1, "label": "Big dog"}
            entity = json.loads(home.last[OCCUPIED])
            assert (entity["state_topic"], entity["availability_topic"]) == (f"{BASE}/state", f"{BASE}/availability")
            assert (entity["unique_id"], entity["device_class"]) == ("framed_box_cam0_occupied", "occupancy")
            assert json.loads(home.last[COUNT])["value_template"] == "{{ value_json.count }}"
            assert json.loads(home.last[DOGS])["name"] == "detections of Big dog"
            assert json.loads(home.last[DOGS])["device"] == entity["device"]
            assert home.last[f"{BASE}/availability"] == "online"
            producer.send(boxes())
            seen = state(home, lambda state: state["count"] == 0)
            assert seen["occupied"] == "ON" and seen["labels"] == {"big_dog": 0, "cat": 0}
        link.wait("it counts", lambda view: view["results_total"] == 2 and view["published_total"] >= 7, "mqtt")
        link.process.send_signal(signal.SIGTERM)
        home.wait(f"{BASE}/availability", lambda payload: payload == "offline")


def test_what_was_seen_is_held_for_a_while(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant("100ms")):
        with daemon.producer() as producer:
            producer.send(boxes(0))
            state(home, lambda state: state["occupied"] == "ON")
            assert state(home, lambda state: state["occupied"] == "OFF")["count"] == 1


def test_all_is_told_again_when_home_assistant_begins_anew(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()):
        with daemon.producer() as producer:
            producer.send(boxes(0))
            state(home, lambda state: state["count"] == 1)
        with Mqtt(broker.mqtt_port, "homeassistant/#", "framed/#", name="again") as again:
            again.publish(STATUS, "online")
            assert state(again, lambda state: state["count"] == 1)["occupied"] == "ON"
            assert again.last[OCCUPIED] == home.last[OCCUPIED] and again.last[f"{BASE}/availability"] == "online"


def test_a_server_that_is_killed_gets_what_holds_then(place, broker):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()) as link:
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
                assert seen["labels"] == {"cat": 0, "big_dog": 2} and DOGS in home.last


@pytest.mark.parametrize("which", ["link", "daemon"])
def test_one_that_begins_anew_is_there_again(place, broker, which):
    with Daemon(place, detector(place)) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()) as link:
        for count in (1, 2):
            with daemon.producer() as producer:
                wait_until(lambda: daemon.view()["readers"] == 1, "the link reads")
                producer.send(boxes(*[0] * count))
                state(home, lambda state: state["count"] == count)
            if count == 1:
                (link if which == "link" else daemon).kill()
                if which == "daemon":
                    home.wait(f"{BASE}/availability", lambda payload: payload == "offline")
                (link if which == "link" else daemon).start()
                daemon.wait_ready()
        assert home.last[f"{BASE}/availability"] == "online"


def test_lines_are_read_while_a_server_does_not_answer(place):
    """As one whose machine is off: attempts last half a minute, and the pipeline's sink waits for its readers."""
    with socket.socket() as dead, Daemon(place, detector(place)) as daemon:
        dead.bind(("0.0.0.0", 0))
        dead.listen()
        nats = {"servers": [f"nats://127.0.0.{number}:{dead.getsockname()[1]}" for number in range(1, 16)]}
        with Link(daemon, None, nats=nats, **home_assistant()) as link, daemon.producer() as producer:
            producer.send(boxes(0) * 1000)
            link.wait("it reads", lambda view: view["results_total"] == 1000 and not view["broker_up"], "mqtt")
            link.kill()


def entity(name, what):
    return f"homeassistant/binary_sensor/framed_box/{name}_{what}/config"


def test_pipelines_are_shown_as_the_daemon_has_them(place, broker):
    """None is named: those with lines of JSON are taken, also when a reload adds one, and one that it removes is forgotten."""
    other = {"raw": pipeline(GRAY), "cam.0": detector(place, "cam.0")["cam.0"]}
    with Daemon(place, {**detector(place), **other}) as daemon, broker.home() as home:
        with Link(daemon, broker, mqtt={"node": "box"}) as link:
            with daemon.producer() as producer:
                producer.send(boxes(0))
                assert state(home, lambda state: state["count"] == 1)["occupied"] == "ON"
            assert json.loads(home.last[entity("cam0", "occupied")])["state_topic"] == f"{BASE}/state"
            daemon.write({**detector(place, "cam1"), **other})
            daemon.command("/v1/reload")
            home.wait(entity("cam0", "occupied"), lambda payload: payload == "")
            assert home.last[f"{BASE}/availability"] == "offline"
            with daemon.producer("cam1") as producer:
                producer.send(boxes(1))
                home.wait("framed/box/cam1/state")
            assert entity("cam1", "occupied") in home.last
            wait_until(lambda: link.metrics("cam1", "mqtt") and not link.metrics("cam0", "mqtt"), "one runs")
            assert not link.metrics("raw", "mqtt") and link.log.count("mqtt cam.0: left out: its name") == 1
            wait_until(lambda: daemon.view("cam1")["links"].get("mqtt", {}).get("connected"), "the daemon is told")


def test_without_a_daemon_nothing_is_known_of_pipelines(place, broker):
    with Daemon(place, {"raw": pipeline(GRAY)}) as daemon:
        daemon.kill()
        with Link(daemon, broker, mqtt={"node": "box"}) as link:
            wait_until(lambda: "it is not known which pipelines there are: " in link.log, lambda: link.log)
            daemon.start()
            daemon.wait_ready()
            wait_until(lambda: "no pipeline has a sink with a socket and protocol: json" in link.log, lambda: link.log)


def test_labels_of_any_alphabet_are_apart(place, broker):
    names = ["кот", "пёс"]
    with Daemon(place, detector(place, labels="\n".join(names))) as daemon, broker.home() as home:
        with Link(daemon, broker, **home_assistant()), daemon.producer() as producer:
            producer.send(boxes(0, 1, 1))
            assert sorted(state(home, lambda state: state["count"] == 3)["labels"].values()) == [1, 2]
            described = [json.loads(payload)["name"] for topic, payload in home.last.items() if "count_" in topic]
            assert sorted(described) == [f"detections of {name}" for name in names]


GRAY = {"pixels": "gray", "width": 64, "height": 48}


def test_motion_is_a_motion_sensor(place, broker):
    entry = pipeline(GRAY, stages=[{"motion": {"output": "boxes", "cell": 8, "boxes": 4}}], sink={"protocol": "json"})
    with Daemon(place, {"cam0": entry}) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()):
        with daemon.producer() as producer:
            picture = np.zeros((48, 64), np.uint8)
            producer.send(picture.tobytes())
            assert state(home, lambda state: state["count"] == 0)["occupied"] == "OFF"
            picture[16:24, 8:32] = 200
            producer.send(picture.tobytes())
            assert state(home, lambda state: state["count"] == 1)["changed"] == 0.0625
            assert json.loads(home.last[OCCUPIED])["device_class"] == "motion"


def test_the_best_class_is_a_sensor(place, broker):
    entry = pipeline({"dtype": "float32", "shape": [8]}, stages=[{"top": {"k": 2}}], sink={"protocol": "json"})
    with Daemon(place, {"cam0": entry}) as daemon, broker.home() as home, Link(daemon, broker, **home_assistant()):
        with daemon.producer() as producer:
            producer.send(np.float32([0, 0, 5, 0, 0, 1, 0, 0]).tobytes())
            assert state(home, lambda state: state["class"] == "2")["score"] > 0.5
            assert OCCUPIED not in home.last and "homeassistant/sensor/framed_box/cam0_class/config" in home.last


@pytest.mark.parametrize("protocol", ["json", "raw"])
def test_what_says_of_no_detections_is_said_so_once(place, broker, protocol):
    entry = pipeline(GRAY, stages=["stats"], sink={"protocol": protocol})
    with Daemon(place, {"cam0": entry}) as daemon, Link(daemon, broker, **home_assistant()) as link:
        with daemon.producer() as producer:
            sending = Background(producer.send, bytes(range(256)) * 12 * 1200)
            wait_until(lambda: "nothing is seen in what" in link.log, lambda: link.log)
            sending.join()
        daemon.account(came=1200, emitted=1200)
        assert link.log.count("nothing is seen") == 1


# -- configuration ----------------------------------------------------------------------------------------------------


def check(place, mqtt):
    file = place / "link.yaml"
    file.write_text(f"nats: {{servers: [nats://127.0.0.1:4222]}}\nmqtt: {mqtt}\n")
    return subprocess.run([LINK, "-c", file, "--check"], capture_output=True, text=True, check=False, env=environment())


def test_a_check_says_where_detections_would_go(place):
    done = check(place, "{node: box, pipelines: {cam0: {}}}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "pipeline cam0 at /run/framed/cam0.out.sock -> framed/box/cam0, announced under homeassistant\n"


def test_a_check_says_that_pipelines_are_asked_for(place):
    done = check(place, "{prefix: home, node: box}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("every pipeline of the daemon at /run/framed/status.sock whose sink has a socket and protocol: json -> "
                           "framed/box/PIPELINE, announced under home\n")


@pytest.mark.parametrize("mqtt,text", [
    ("{pipelines: {cam0: {hodl: 5s}}}", "2:27: unknown key 'hodl' in mqtt 'cam0'"),
    ("{pipelines: {cam.0: {}}}", "2:20: 'cam.0' is not a name that 'name' can have"),
    ("{prefix: a/b, pipelines: {cam0: {}}}", "2:16: 'a/b' is not a name that 'prefix' can have"),
    ("{pipelines: {cam0: {hold: 0s}}}", "2:33: 'hold'"),
    ("{pipelines: {}}", "there are no 'sinks', 'sources' or pipelines of 'mqtt'"),
])
def test_a_mistake_in_mqtt_has_its_place(place, mqtt, text):
    done = check(place, mqtt)
    assert done.returncode == 78 and text in done.stderr, done.stderr
