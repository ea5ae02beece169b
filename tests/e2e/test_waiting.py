"""What the machine refuses one pipeline (room on a disk, a mounted folder, a descriptor) makes that pipeline wait until the machine
has it again; every other one starts, is upgraded and goes on. Only what the text of the configuration makes wrong is status 78."""

import errno
import json
import os
import resource
import signal
import socket
import subprocess

import pytest

from harness import (FRAMECTL, Daemon, complete, environment, limit, numbered, pipeline, require_whole, run_framed, wait_until,
                     whole)
from harness.injection import Injection
from harness.store import settle, start

pytestmark = pytest.mark.host

SIZE = 64 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


@pytest.fixture
def mount(place):
    """Makes small file systems, and takes them away."""
    mounted = []

    def make(name, options):
        disk = place / name
        disk.mkdir(exist_ok=True)
        done = os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", disk],
                                                    stderr=subprocess.DEVNULL, check=False).returncode == 0
        if not done:
            pytest.skip("no file system can be mounted here")
        mounted.append(disk)
        return disk
    yield make
    for disk in mounted:
        subprocess.run(["umount", "-l", disk], check=False, stderr=subprocess.DEVNULL)


def fill(disk):
    with open(disk / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError):
        while True:
            ballast.write(bytes(4096))


def passes(daemon, name, number=7):
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        producer.send(whole(number, SIZE).tobytes())
        assert reader.read(SIZE) == whole(number, SIZE).tobytes()


def recorded(disk, **keys):
    return pipeline(FORMAT, record={"file": str(disk / "in-%H%M%S.raw"), "memory": "1MiB", **keys})


def waits(daemon, reason, name="cam0"):
    """All views say so: status, metrics and health, with the reason."""
    view = daemon.wait_view("it waits", lambda view: view["state"] == "waiting", name)
    assert reason in view["waits_for"] and view["condition"] == "waiting"
    shown = subprocess.run([FRAMECTL, "-s", daemon.socket, "status", name], env=environment(), timeout=limit(20), check=True,
                           capture_output=True, text=True).stdout
    assert shown.startswith(f"{name}: waiting") and "frames move" not in shown, shown
    assert f'framed_pipeline_state{{pipeline="{name}",state="waiting"}} 1' in daemon.metrics()
    code, body = daemon.request("GET", "/v1/health")
    assert code == 503 and reason in body and name in body, body
    assert reason in daemon.log and "not handed over" not in daemon.log


def runs(daemon, name="cam0"):
    daemon.wait_view("it runs", lambda view: view["state"] == "running", name)
    wait_until(lambda: daemon.request("GET", "/v1/health")[0] == 200, lambda: daemon.request("GET", "/v1/health")[1])


# -- starts --------------------------------------------------------------------------------------------------------------------


def no_room(place, mount):
    disk = mount("disk", "size=1m")
    fill(disk)
    return recorded(disk), "No space left", (disk / "ballast").unlink


def no_inodes(place, mount):
    disk = mount("run", "size=1m,nr_inodes=2")
    (disk / "ballast").touch()
    ends = {"source": {"socket": str(disk / "in")}, "sink": {"socket": str(disk / "out")}}
    return (pipeline(FORMAT, **ends), "No space left",
            lambda: subprocess.run(["mount", "-o", "remount,nr_inodes=9", disk], check=True))


def read_only(place, mount):
    disk = mount("disk", "size=1m,ro")
    return (pipeline(FORMAT, sink={"file": str(disk / "out")}), "Read-only file system",
            lambda: subprocess.run(["mount", "-o", "remount,rw", disk], check=True))


def no_folder(place, mount):
    disk = place / "disk"
    return pipeline(FORMAT, sink={"file": str(disk / "out")}), "No such file or directory", disk.mkdir


def no_source(place, mount):
    file = place / "source"
    entry = pipeline(FORMAT, source={"file": str(file), "loop": True, "rate": 5}, sink={"file": "/dev/null"})
    return entry, "No such file or directory", lambda: file.write_bytes(numbered(4, SIZE).tobytes())


def torn_file(place, _):
    """As a cut of the power leaves it."""
    out = place / "out"
    out.write_bytes(bytes(SIZE + 1))
    return pipeline(FORMAT, sink={"file": str(out)}), "ends within a result", out.unlink


def file_at_socket(place, _):
    path = place / "taken.sock"
    path.write_text("")
    return pipeline(FORMAT, source={"socket": str(path)}), "exists and is not a socket", path.unlink


def socket_in_use(place, _):
    path, other = place / "taken.sock", socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    other.listen()
    return pipeline(FORMAT, source={"socket": str(path)}), "in use by another process", other.close


LACKS = [no_room, no_inodes, read_only, no_folder, no_source, torn_file, file_at_socket, socket_in_use]


@pytest.mark.parametrize("lack", LACKS, ids=lambda lack: lack.__name__)
def test_a_start_without_what_one_pipeline_needs(place, mount, lack):
    entry, reason, cure = lack(place, mount)
    with Daemon(place, {"cam0": entry, "cam1": pipeline(FORMAT)}) as daemon:
        waits(daemon, reason)
        passes(daemon, "cam1")
        cure()
        runs(daemon)
        if "socket" in daemon.config["pipelines"]["cam0"]["sink"]:
            passes(daemon, "cam0")
        elif lack is no_source:
            daemon.wait_view("frames come", lambda view: view["frames"]["emitted"] > 0)
        else:
            with daemon.producer() as producer:
                producer.send(whole(1, SIZE).tobytes())
                daemon.account(came=1, emitted=1)
    if lack is no_room:
        segment, = (place / "disk").glob("in-*.raw")
        assert require_whole(segment.read_bytes(), SIZE) == [7]


def test_a_recording_that_comes_late_has_what_came_meanwhile(place, mount):
    disk = mount("disk", "size=1m")
    fill(disk)
    with Daemon(place, {"cam0": recorded(disk)}) as daemon:
        waits(daemon, "No space left")
        for number in range(5):  # results go on
            passes(daemon, "cam0", number)
        (disk / "ballast").unlink()
        runs(daemon)
        passes(daemon, "cam0", 5)
    segment, = disk.glob("in-*.raw")
    assert require_whole(segment.read_bytes(), SIZE) == list(range(6))


def test_a_status_socket_that_comes_late(place, mount):
    """Pipelines run meanwhile."""
    disk = mount("run", "size=1m,ro")
    with Daemon(place, {"cam0": pipeline(FORMAT)}, ready=False, status={"socket": str(disk / "s")}) as daemon:
        daemon.wait_log("is ready")
        assert "Read-only file system" in daemon.log
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        daemon.socket = disk / "s"
        daemon.wait_log("status answers")
        passes(daemon, "cam0")


def test_nothing_ends_a_wait_but_a_stop(place):
    """All pipelines wait, and no input has come to its end."""
    with Daemon(place, {"cam0": no_folder(place, None)[0], "cam1": pipeline(FORMAT, source={"file": str(place / "none")})}) as daemon:
        waits(daemon, "No such file", "cam0")
        waits(daemon, "none", "cam1")
        assert not os.path.exists(daemon.path("cam0", "source"))  # as before a start
        daemon.signal(signal.SIGTERM)
        daemon.ends(0)


def test_commands_to_a_pipeline_that_waits(place):
    """It takes no frames, and begins as the last command says."""
    entry, _, cure = no_folder(place, None)
    with Daemon(place, {"cam0": entry}) as daemon:
        for command in ("drain", "resume", "pause"):
            assert daemon.command(f"/v1/pipelines/cam0/{command}")["state"] == "waiting"
        code, answer = daemon.post("/v1/pipelines/cam0/record")
        assert code == 409 and "waiting" in answer["error"]
        cure()
        daemon.wait_view("it starts paused", lambda view: view["state"] == "paused")
        daemon.command("/v1/pipelines/cam0/resume")
        with daemon.producer() as producer:
            producer.send(whole(1, SIZE).tobytes())
            daemon.account(came=1, emitted=1)


def test_a_mistake_in_the_text_still_is_one(place):
    """A folder where a file should be, also if another pipeline waits."""
    (place / "out").mkdir()
    entries = {"cam0": no_folder(place, None)[0], "cam1": pipeline(FORMAT, sink={"file": str(place / "out")})}
    (place / "framed.yaml").write_text(json.dumps(complete(place, entries)))
    done = run_framed("-c", place / "framed.yaml")
    assert done.returncode == 78 and "directory" in done.stderr, done


@pytest.mark.parametrize("call, error", [("flock", errno.ENOLCK), ("bind", errno.EROFS), ("bind", errno.EDQUOT),
                                         ("memfd_create", errno.EMFILE), ("chmod", errno.EIO), ("listen", errno.ENOMEM)],
                         ids=lambda part: part if isinstance(part, str) else errno.errorcode[part])
def test_calls_that_the_machine_refuses_once(place, call, error):
    counting = Injection(place, call)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env=counting.environment):
        count = counting.count
    injection = Injection(place, call, at=count, error=error)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env=injection.environment) as daemon:
        runs(daemon)
        passes(daemon, "cam0")
        assert injection.happened


def test_a_file_of_the_configuration_that_cannot_be_read_for_now_is_no_mistake(place):
    (place / "framed.yaml").write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT)})))
    injection = Injection(place, "open", at=2, error=errno.EMFILE)
    done = run_framed("-c", place / "framed.yaml", env=injection.environment)
    assert injection.happened and done.returncode == 70 and "Too many open files" in done.stderr, done


def test_a_start_with_too_few_descriptors_serves_what_it_can(place):
    """Status answers, and who waits runs once there are more."""
    entries = {f"cam{number}": pipeline(FORMAT) for number in range(12)}
    with Daemon(place, entries) as daemon:
        needed = daemon.open_files()
    def before():
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
    with Daemon(place, entries, before=before) as daemon:
        states = [view["state"] for view in daemon.status()["pipelines"].values()]
        assert states[0] == "running" and "waiting" in states, states
        passes(daemon, "cam0")
        assert "Too many open files" in daemon.request("GET", "/v1/health")[1]
        names = list(entries)[6:]
        daemon.write({name: entries[name] for name in names})
        daemon.command("/v1/reload")
        for name in names:
            runs(daemon, name)
        passes(daemon, names[-1])


# -- hand-overs ------------------------------------------------------------------------------------------------------------------


def test_an_upgrade_with_two_full_disks_of_three(place, mount):
    """Connections of all stay, those of pipelines whose recording waits too."""
    disks = [mount(name, "size=1m") for name in ("one", "two")]
    entries = {"cam0": recorded(disks[0], every="2s"), "cam1": recorded(disks[1]), "cam2": pipeline(FORMAT),
               "cam3": no_folder(place, None)[0]}
    with Daemon(place, entries) as daemon:
        clients = {name: (daemon.reader(name), daemon.producer(name)) for name in ("cam0", "cam1", "cam2")}
        for disk in disks:
            fill(disk)
        reader, producer = clients["cam1"]
        for number in range(8):
            producer.send(whole(number, SIZE).tobytes())
            reader.read(SIZE)
        daemon.wait_log("results are lost until there is room")
        process = daemon.process.pid
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "upgrade"], env=environment(), timeout=limit(30), check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0 and daemon.process.pid == process, done
        assert "cam1: 8 frames are missing in the recording" in daemon.log  # nothing else tells of them after the upgrade
        for name in ("cam0", "cam1", "cam3"):
            waits(daemon, "No such file" if name == "cam3" else "No space left", name)
        for name, (reader, producer) in clients.items():
            producer.send(whole(3, SIZE).tobytes())
            assert reader.read(SIZE) == whole(3, SIZE).tobytes(), name
        for disk in disks:
            (disk / "ballast").unlink()
        (place / "disk").mkdir()
        for name in entries:
            runs(daemon, name)
        for reader, producer in clients.values():
            reader.close()
            producer.close()


def test_a_kill_with_a_full_disk(place, store, mount):
    """A sink in segments, too, whose file may be lost with the process."""
    disk = mount("disk", "size=2m")
    entries = {"cam0": recorded(disk), "cam1": pipeline(FORMAT, sink={"file": str(disk / "out-%H%M%S.raw"), "rotate": {"every": "1h"}}),
               "cam2": pipeline(FORMAT)}
    with start(place, store, entries) as daemon:
        with daemon.reader("cam2") as reader, daemon.producer("cam2") as producer:
            settle(daemon)
            fill(disk)
            store.kill(daemon)
            waits(daemon, "No space left", "cam0")
            producer.send(whole(3, SIZE).tobytes())
            assert reader.read(SIZE) == whole(3, SIZE).tobytes()
            (disk / "ballast").unlink()
            runs(daemon, "cam0")
            runs(daemon, "cam1")


def test_a_socket_that_was_handed_over_is_left_as_it_is(place, mount):
    """Its folder is read-only by now, and its mode is right."""
    disk = mount("run", "size=1m")
    entry = pipeline(FORMAT, source={"socket": str(disk / "in"), "mode": "0666"}, sink={"socket": str(disk / "out")})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            done = subprocess.run([FRAMECTL, "-s", daemon.socket, "upgrade"], env=environment(), timeout=limit(30), check=False)
            assert done.returncode == 0 and daemon.view()["state"] == "running"
            producer.send(whole(3, SIZE).tobytes())
            assert reader.read(SIZE) == whole(3, SIZE).tobytes()
        assert "other rights" not in daemon.log
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


# -- reloads and checks ------------------------------------------------------------------------------------------------------------


def test_reloads_around_a_pipeline_that_waits(place, mount):
    entry, _, cure = no_folder(place, None)
    with Daemon(place, {"cam1": pipeline(FORMAT)}) as daemon:
        daemon.write({"cam0": entry, "cam1": pipeline(FORMAT)})
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "reload"], env=environment(), timeout=limit(30), check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0 and "waits" in done.stdout and "No such file" in done.stdout, done
        waits(daemon, "No such file")
        assert "No such file" in daemon.command("/v1/reload")["waiting"]["cam0"]
        daemon.write({"cam0": {**entry, "slots": 3}, "cam1": pipeline(FORMAT, slots=5)})
        assert "cam0" in daemon.command("/v1/reload")["waiting"]
        passes(daemon, "cam1")
        daemon.write({"cam1": pipeline(FORMAT, slots=5)})
        assert daemon.command("/v1/reload")["removed"] == ["cam0"]
        daemon.write({"cam1": {**entry, "source": pipeline(FORMAT)["source"]}})  # in the place of one that runs
        code, answer = daemon.post("/v1/reload")
        assert code >= 400 and "No such file" in answer["error"], answer
        daemon.write({"cam1": pipeline(FORMAT, slots=5)})
        passes(daemon, "cam1")


def test_a_check_says_what_the_machine_lacks_and_is_fine(place, mount):
    disk, full = mount("still", "size=1m,ro"), mount("full", "size=1m")
    fill(full)
    entries = {"cam0": no_folder(place, None)[0], "cam1": pipeline(FORMAT, sink={"file": str(disk / "out")}), "cam2": recorded(full)}
    (place / "framed.yaml").write_text(json.dumps(complete(place, entries)))
    done = run_framed("-c", place / "framed.yaml", "--check")
    assert done.returncode == 0, done
    for lack in (f"'{place}/disk/out' does not exist", f"'{disk}/out' is in a read-only", f"'{full}/in-%H%M%S.raw' is on a full disk"):
        assert f"note: {lack}" in done.stdout or f"file {lack}" in done.stdout, (lack, done.stdout)
