"""`spread: frames`: one session's frames on several devices, its results in order; and what of it a device that fails costs.

The devices are those of test_many_devices.py.
"""

import glob
import json
import signal
import subprocess

import numpy as np
import pytest

from harness import (BACKEND, FRAMECTL, Background, Client, complete, environment, limit, numbered, pipeline, require_whole,
                     run_framed, wait_until)
from harness.native import Shared
from harness.store import settle

from test_batches import SHAPE, batches, model
from test_many_devices import FORMAT, LOST, SIZE, Many, Traffic
from test_model import tensor, through, with_runtime
from test_trace import Asked

there = glob.glob("/dev/nvidia[0-9]*")
pytestmark = pytest.mark.skipif(BACKEND != "cpu" and len(there) < 4, reason="there are not so many devices")

UNEVEN = {"fault": {"kind": "delay", "ms": 3, "at": 3, "every": 7}}


def spread(slots=8, stages=(LOST,), given=FORMAT, **keys):
    return pipeline(given, slots=slots, devices="all", spread="frames", stages=stages, **keys)


def strike(kind, at, again="no"):
    return {"fault": {"kind": kind, "at": at, "every": 0, "again": again}}


def carry(daemon, count, lost=()):
    """Sends numbered frames, and demands all results but those in order."""
    with daemon.reader() as reader, daemon.producer() as producer:
        sending = Background(producer.send, numbered(count, SIZE).tobytes())
        assert require_whole(reader.read((count - len(lost)) * SIZE), SIZE) == [n for n in range(count) if n not in lost]
        sending.join()
    daemon.account(came=count, emitted=count - len(lost), gpu_fault=len(lost))


@pytest.mark.parametrize("completion", ["callback", "spin", "persistent"])
@pytest.mark.parametrize("slots", [2, 5, 16])
def test_results_keep_their_order(place, slots, completion):
    """Some frames take longer than others, so that those behind them are done first on other devices."""
    with Many(place, {"cam0": spread(slots, [UNEVEN, {"affine": {"scale": 1.0}}], completion=completion)}, count=2) as daemon:
        carry(daemon, 400)
        assert daemon.view()["devices"] == [0, 1]


def test_who_is_on_which_devices_is_told(place):
    with Many(place, {"cam0": spread(slots=2, sink={"reply": True}), "cam1": spread(slots=5)}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            client.send(numbered(1, SIZE).tobytes())
            assert client.read(SIZE) == numbered(1, SIZE).tobytes()
            view = daemon.view()
            assert len(view["devices"]) == 2 and view["connected"][0]["devices"] == view["devices"], view
            assert daemon.view("cam1")["devices"] == [0, 1, 2, 3]
            shown = subprocess.run([FRAMECTL, "-s", place / "status.sock", "status", "cam0"], capture_output=True, text=True,
                                   env=environment(), timeout=limit(30), check=True).stdout
            assert ",".join(map(str, view["devices"])) in shown, shown
            for device in range(4):
                count = 1 if device in view["devices"] else 0
                assert f'framed_device_producers{{device="{device}"}} {count}' in daemon.metrics()
        wait_until(lambda: 'framed_device_producers{device="0"} 0' in daemon.metrics(), "nobody is there any more")


def test_frames_in_shared_memory_are_on_the_device_of_their_slot(place):
    gray = {"pixels": "gray", "width": 32, "height": 16}
    entry = spread(4, [UNEVEN, {"affine": {"scale": -1.0, "offset": 255.0}}], gray, source={"protocol": "native"},
                   sink={"reply": True, "protocol": "native"})
    with Many(place, {"cam0": entry}, count=2) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            for n in range(4):
                client.submit(n, bytes([n]) * 512, sequence=n)
            for n in range(200):
                slot, fate, result = client.completion()
                assert (fate, result.sequence, client.payload(slot)) == (0, n, bytes([255 - n]) * 512)
                client.take()
                if n < 196:
                    client.submit(slot, bytes([n + 4]) * 512, sequence=n + 4)
        daemon.account(came=200, emitted=200)


def test_a_trace_names_the_device_of_each_stream(place):
    with Many(place, {"cam0": spread(slots=4)}, count=2) as daemon:
        asked = Asked(daemon, 1)
        carry(daemon, 40)
        trace = asked.result()
        assert {("cam0", f"stream {slot} on device {slot % 2}") for slot in range(4)} <= set(trace.rows.values()), trace.rows


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [2, 8])
@pytest.mark.parametrize("kind, timeout", [("illegal", "20s"), ("hang", "700ms")])
def test_a_fault_costs_no_frame(place, kind, timeout, slots):
    with Many(place, {"cam0": spread(slots, [strike(kind, 21)])}, count=2, timeout=timeout) as daemon:
        carry(daemon, 100)
        assert daemon.status()["handovers"]["fault"] == 1 or kind == "hang", daemon.log


def test_the_device_that_has_the_frame_is_blamed(place):
    """Frames 21 and 41 are on the second device, which fails too often and is left out."""
    with Many(place, {"cam0": spread(2, [strike("illegal", 21), strike("illegal", 41)])}, count=2, faults="1/min") as daemon:
        carry(daemon, 100)
        assert "illegal" in daemon.wait_state(1, "failed")["text"]
        assert daemon.view()["devices"] == [0]


def test_a_frame_that_strikes_alone_twice_is_dropped_and_the_others_go_on(place):
    with Many(place, {"cam0": spread(stages=[strike("illegal", 20, again="yes")])}) as daemon:
        carry(daemon, 60, lost=[20])
        assert 2 <= daemon.status()["handovers"]["fault"] <= 3


def test_the_session_goes_on_over_the_devices_that_are_left(place):
    with Many(place, {"cam0": spread(sink={"reply": True})}) as daemon:
        with Traffic(daemon, clients=1) as traffic:
            traffic.wait_more()
            daemon.break_devices(1)
            assert "broken" in daemon.wait_state(1, "failed")["text"]
            traffic.wait_more()
            assert daemon.view()["devices"] == [0, 2, 3]
            daemon.command("/v1/devices/3/drain")
            daemon.wait_state(3, "drained")
            traffic.wait_more()
            assert daemon.view()["devices"] == [0, 2]
            daemon.command("/v1/devices/0/drain")
            daemon.wait_state(0, "drained")
            traffic.wait_more()
            assert daemon.view()["devices"] == [2]
            code, answer = daemon.post("/v1/devices/2/drain")
            assert code == 409 and "'cam0' has no other device" in answer["error"], answer
            daemon.break_devices()
            for device in (0, 1, 3):
                daemon.command(f"/v1/devices/{device}/resume")
                daemon.wait_state(device, "open")
            traffic.wait_more()
            assert daemon.view()["devices"] == [0, 1, 2, 3]
        count = sum(traffic.counts)
        daemon.account(came=count, emitted=count)


def test_a_kill_and_an_upgrade_cost_no_frame(place, store):
    with Many(place, {"cam0": spread(slots=4, stages=[UNEVEN])}, more=store.environment, binary=store.program) as daemon:
        daemon.leaves_sockets = True
        with daemon.reader() as reader, daemon.producer() as producer:
            for turn in range(3):
                producer.send(numbered(10, SIZE, first=20 * turn).tobytes())
                assert require_whole(reader.read(10 * SIZE), SIZE)[0] == 20 * turn
                settle(daemon)
                store.kill(daemon)
                sending = Background(producer.send, numbered(10, SIZE, first=20 * turn + 10).tobytes())
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == turn + 1, lambda: f"it takes over\n{daemon.log}", 30)
                assert require_whole(reader.read(10 * SIZE), SIZE)[-1] == 20 * turn + 19
                sending.join()
        daemon.account(came=60, emitted=60)


# -- what may be spread -----------------------------------------------------------------------------------------------


def test_a_reload_exchanges_stages_and_spreads_frames_or_sessions(place):
    def written(**keys):
        return {"cam0": pipeline(FORMAT, slots=4, devices="all", sink={"reply": True}, **keys)}

    with Many(place, written(spread="frames"), count=2) as daemon:
        def change(**keys):
            daemon.write(written(**keys), gpu=daemon.config["gpu"], lanes=2)
            daemon.command("/v1/reload")

        with Traffic(daemon, clients=1) as traffic:
            traffic.wait_more()
            change(spread="frames", stages=[{"affine": {"scale": 1.0}}])
            traffic.wait_more()
            assert daemon.view()["devices"] == [0, 1]
        count = sum(traffic.counts)
        daemon.account(came=count, emitted=count)
        change()
        assert len(daemon.view()["devices"]) == 1
        change(spread="frames")
        assert daemon.view()["devices"] == [0, 1]


def test_stages_that_go_from_frame_to_frame_are_refused(place):
    gray = {"pixels": "gray", "width": 32, "height": 16}
    entries = {"cam0": spread(4, [{"affine": {"scale": 1.0}}, {"motion": {}}], gray)}
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, entries, gpu={"backend": "cpu", "count": 2}), indent=1))
    done = run_framed("-c", file, "--check")
    assert done.returncode == 78 and "stages[1] (motion) goes from each frame to the next one" in done.stderr, done.stderr
    assert "leave `spread: frames` out" in done.stderr, done.stderr


@with_runtime
@pytest.mark.parametrize("settings", [{"wait": "auto"}, {"most": 1, "instances": 1}])
def test_each_device_has_instances_and_batches_of_its_own(place, settings):
    frames = np.random.default_rng(1).standard_normal((200, *SHAPE)).astype(np.float32)
    entry = spread(8, [{"model": {"name": "open"}}], tensor("float32", 3, 4, 5))
    with Many(place, {"cam0": entry}, count=2, models=model(**settings)) as daemon:
        np.testing.assert_array_equal(through(daemon, frames, SHAPE, np.float32), frames * np.float32(2) + np.float32(1))
        assert sum(count * (i + 1) for i, count in enumerate(batches(daemon))) == 200
