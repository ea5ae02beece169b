"""`realtime`: how lanes are scheduled, on which processors, and what is said where that may not be."""

import ctypes
import json
import os
import pathlib
import resource

import pytest

from harness import BACKEND, Daemon, numbered, pipeline
from harness.daemon import complete, run_framed

from test_batches import model, runs
from test_model import with_runtime

FORMAT = {"dtype": "uint8", "shape": [256]}
CAP_IPC_LOCK, CAP_SYS_NICE, PR_CAPBSET_DROP = 14, 23, 24


def may_have_priority():
    """Whether this machine lets the tests have it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        return os.geteuid() == 0
    except PermissionError:
        return False


needs_rights = pytest.mark.skipif(not may_have_priority(), reason="this machine gives no real-time priority, or the user is not root")


def without_rights():
    """As for the user of the service: no capabilities, and the limits that systemd gives by default."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (CAP_IPC_LOCK, CAP_SYS_NICE):
        assert prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0
    resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))


def check(place, before=None, **realtime):
    file = pathlib.Path(place) / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT)}, realtime=realtime)))
    return run_framed("--check", "-c", file, preexec_fn=before)


def threads(pid):
    """Name, policy, real-time priority and processors of each thread, also of workers."""
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    for child in [int(number) for task in tasks for number in (task / "children").read_text().split()]:
        yield from threads(child)
    for task in tasks:
        name = (task / "comm").read_text().strip()
        numbers = (task / "stat").read_text().rpartition(") ")[2].split()
        status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
        yield name, int(numbers[38]), int(numbers[37]), status["Cpus_allowed_list"]


@needs_rights
@pytest.mark.parametrize("policy", ["fifo", "rr"])
def test_lanes_have_what_was_asked_for_and_workers_one_priority_less(place, policy):
    cpu = max(os.sched_getaffinity(0))
    everywhere = sorted(os.sched_getaffinity(0))
    with Daemon(place, {"cam0": pipeline(FORMAT)}, lanes=2,
                realtime={"policy": policy, "priority": 7, "cpus": [cpu], "lock": True}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(3, 256).tobytes())
            assert len(reader.frames(3, 256)) == 3
        found = list(threads(daemon.process.pid))
    lanes = [entry for entry in found if entry[0].startswith("framed-lane-")]
    assert [entry[1:] for entry in lanes] == [(getattr(os, f"SCHED_{policy.upper()}"), 7, str(cpu))] * 2, found
    workers = [entry for entry in found if entry[0] in ("framed-pool", "framed-serve")]
    assert workers and all(entry[1:3] == (lanes[0][1], 6) for entry in workers), found
    others = [entry for entry in found if entry not in lanes + workers]
    assert others and all(entry[1:3] == (os.SCHED_OTHER, 0) for entry in others), found
    if len(everywhere) > 1:
        assert all(entry[3] != str(cpu) for entry in others + workers), found


@needs_rights
def test_workers_have_a_priority_where_there_is_none_below_the_lanes(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, realtime={"policy": "fifo", "priority": 1}) as daemon:
        found = [entry for entry in threads(daemon.process.pid) if entry[0].startswith(("framed-lane-", "framed-pool", "framed-serve"))]
    assert found and all(entry[1:3] == (os.SCHED_FIFO, 1) for entry in found), found


@needs_rights
@with_runtime
def test_threads_of_batches_have_the_priority_of_workers(place):
    cpu = max(os.sched_getaffinity(0))
    with Daemon(place, {"cam0": runs()}, models=model(), lanes=1, realtime={"policy": "fifo", "priority": 7, "cpus": [cpu]}) as daemon:
        found = [entry for entry in threads(daemon.process.pid) if entry[0] == "framed-batch"]
    assert found and all(entry[1:3] == (os.SCHED_FIFO, 6) and (entry[3] != str(cpu) or os.cpu_count() == 1) for entry in found), found


@needs_rights
def test_what_is_not_allowed_is_said_with_what_would_help(place):
    answer = check(place, without_rights, policy="fifo", priority=20)
    assert answer.returncode == 78
    assert "realtime.priority is 20, and this process may have 0 at most (RLIMIT_RTPRIO)" in answer.stderr
    assert "LimitRTPRIO=20" in answer.stderr
    answer = check(place, without_rights, lock=True)
    assert answer.returncode == 78 and "may lock 65536 bytes" in answer.stderr and "LimitMEMLOCK=infinity" in answer.stderr


def test_a_processor_that_is_not_there_is_named(place):
    answer = check(place, cpus=[min(os.sched_getaffinity(0)), 1023])
    assert answer.returncode == 78 and "processor 1023" in answer.stderr and "lscpu" in answer.stderr
    daemon = Daemon(place, {"cam0": pipeline(FORMAT)}, realtime={"cpus": [1023]}, ready=False)
    daemon.start()
    daemon.ends(78)
    assert "processor 1023" in daemon.log


@pytest.mark.parametrize("realtime, complaint", [
    ({"priority": 20}, "a priority without a policy"),
    ({"policy": "other", "priority": 20}, "a priority without a policy"),
    ({"policy": "rr"}, "a policy without a priority"),
    ({"policy": "fifo", "priority": 100}, "'priority' must be between 1 and 99"),
    ({"cpus": []}, "must be a list of processors"),
    ({"cpus": [0, -1]}, "'cpus' must be between 0 and 1023"),
])
def test_what_makes_no_sense_is_refused(place, realtime, complaint):
    answer = check(place, **realtime)
    assert answer.returncode == 78 and complaint in answer.stderr, answer.stderr
