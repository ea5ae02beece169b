"""Reloads in odd moments: changes of every kind under load, at once, in a pause, and at the end."""

import contextlib
import itertools
import pathlib
import signal
import time

import pytest

from harness import BACKEND, Background, Client, Daemon, Producer, Reader, numbered, pipeline, require_whole, wait_until, whole
from harness.injection import REST, UNTIL_TOLD, Injected, Injection
from harness.native import Shared
from test_own_stages import GRAY, build, table

pytestmark = pytest.mark.host

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def shifted(offset, **keys):
    """More than the stages differ from that of another offset, so that a reload replaces the pipeline."""
    return pipeline(FORMAT, stages=[{"affine": {"scale": 1.0, "offset": offset}}], spin_for=f"{200 + offset}us", **keys)


def answers_with(daemon, offset, name="cam0"):
    """A frame through the pipeline comes back as this version of it makes it."""
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        producer.send(bytes(SIZE))
        assert reader.read(SIZE) == bytes([offset]) * SIZE


def test_a_changed_pipeline_finishes_what_it_had(place):
    """Its producer is cut off at some frame; each frame that was taken comes out of the old version, whole."""
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=4), "cam1": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def flood():
                try:
                    for number in itertools.count():
                        producer.send(whole(number, SIZE).tobytes())
                except OSError:
                    return
            sending, taking = Background(flood), Background(reader.rest)
            daemon.wait_view("frames move", lambda view: view["frames"]["emitted"] > 100)
            daemon.write({"cam0": shifted(7), "cam1": pipeline(FORMAT)})
            daemon.command("/v1/reload")
            sending.join()
            numbers = require_whole(taking.join(), SIZE)
        assert numbers == list(range(len(numbers)))
        account = daemon.final_account()  # of the old version
        assert account["emitted"] == len(numbers), account
        assert account["in"] - account["emitted"] <= 1, account  # the frame within which it was cut off
        answers_with(daemon, 7)


@pytest.mark.parametrize("change", [
    {"slots": 5}, {"completion": "spin"}, {"overload": "drop-newest"}, {"deadline": "10s"},
    {"sink": {"overload": "drop"}}, {"source": {"timeout": "3s"}}, {"source": {"mode": "0600"}},
], ids=str)
def test_every_key_can_change(place, change):
    def changed():
        entry = shifted(1)
        for key, value in change.items():
            entry[key] = {**entry[key], **value} if isinstance(value, dict) else value
        return entry
    with Daemon(place, {"cam0": shifted(1)}) as daemon:
        answers_with(daemon, 1)
        daemon.write({"cam0": changed()})
        assert daemon.command("/v1/reload")["changed"] == ["cam0"]
        answers_with(daemon, 1)
        daemon.write({"cam0": shifted(1)})
        daemon.command("/v1/reload")
        answers_with(daemon, 1)


def test_a_pipeline_can_get_another_name_and_keep_its_socket(place):
    def entry(offset):
        return shifted(offset, source={"socket": str(place / "in")}, sink={"socket": str(place / "out")})
    with Daemon(place, {"old": entry(1)}) as daemon:
        daemon.write({"new": entry(2)})
        daemon.command("/v1/reload")
        answers_with(daemon, 2, "new")


def test_source_and_sink_can_swap_paths(place):
    def entry(source, sink):
        return shifted(3, source={"socket": str(place / source)}, sink={"socket": str(place / sink)})
    with Daemon(place, {"cam0": entry("a", "b")}) as daemon:
        daemon.write({"cam0": entry("b", "a")})
        daemon.command("/v1/reload")
        answers_with(daemon, 3)


def test_clients_that_connect_during_a_reload_are_served_by_the_new_version(place):
    """The listening socket never goes away: no connection is refused, each gets a result of one version."""
    def entry(offset):
        return shifted(offset, source={"clients": 4}, sink={"reply": True})
    with Daemon(place, {"cam0": entry(0)}) as daemon:
        seen, stop = set(), []

        def knock():
            while not stop:
                with Producer(daemon.path("cam0", "source")) as client:
                    try:
                        client.send(bytes(SIZE))
                        answer = client.read(SIZE)
                    except (EOFError, BrokenPipeError, ConnectionResetError):
                        continue  # it was cut off by the change
                    assert len(set(answer)) == 1
                    seen.add(answer[0])
        knocking = [Background(knock) for _ in range(3)]
        for offset in range(1, 8):
            daemon.write({"cam0": entry(offset)})
            daemon.command("/v1/reload")
            wait_until(lambda: offset in seen or any(thread.done for thread in knocking), f"version {offset} answers")
        stop.append(True)
        for thread in knocking:
            thread.join()


def test_a_paused_pipeline_stays_paused(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "cam1": shifted(1)}) as daemon:
        daemon.command("/v1/pipelines/cam0/pause")
        daemon.write({"cam0": pipeline(FORMAT), "cam1": shifted(2)})
        daemon.command("/v1/reload")
        assert daemon.view("cam0")["state"] == "paused"
        answers_with(daemon, 2, "cam1")
        daemon.command("/v1/pipelines/cam0/resume")
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            producer.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()


def test_a_drain_goes_on_where_a_reload_was_refused(place):
    """It does not wait for a reader that the reload would have cut off within a result."""
    large = 4 * 1024 * 1024

    def entries(slots):
        return {"cam0": pipeline({"dtype": "uint8", "shape": [large]}, slots=slots, sink={"overload": "drop"})}
    with Daemon(place, entries(1), drain_timeout="300ms") as daemon:
        with daemon.reader(), daemon.reader() as quick, daemon.producer() as producer:
            for size in (large, 100):
                producer.send(bytes(size))
            assert quick.read(large) == bytes(large)
            daemon.wait_view("half a frame is there", lambda view: view["frames"]["in"] == 2)
            assert daemon.post("/v1/pipelines/cam0/drain")[0] == 504
            source = pathlib.Path(daemon.path("cam0", "source"))
            away = source.rename(source.with_suffix(".away"))
            daemon.write(entries(2), drain_timeout="300ms")
            assert daemon.post("/v1/reload")[0] == 400
            away.rename(source)
            producer.send(bytes(large - 100))
            assert quick.read(large) == bytes(large)
            daemon.wait_view("it is drained", lambda view: view["state"] == "drained")


def test_whoever_waits_for_a_drain_is_told_that_a_reload_came(place):
    """Which may be refused in the end: nobody says that the pipeline has been stopped."""
    with Daemon(place, {"cam0": shifted(1)}, drain_timeout="30s") as daemon:
        with daemon.reader(), daemon.producer() as producer:
            producer.send(bytes(100))
            daemon.wait_view("half a frame is there", lambda view: view["frames"]["in"] == 1)
            draining = Background(daemon.post, "/v1/pipelines/cam0/drain")
            daemon.wait_view("it drains", lambda view: view["state"] == "draining")
            daemon.write({"cam0": shifted(2)}, drain_timeout="30s")
            reloading = Background(daemon.post, "/v1/reload")
            code, answer = draining.join()
            assert code == 409 and "was held for a reload" in answer["error"], answer
            producer.send(bytes(SIZE - 100))
            assert reloading.join()[0] == 200


def test_two_reloads_at_once(place):
    """One is done, the other is done or told to wait; the daemon is in one piece after it."""
    with Daemon(place, {"cam0": shifted(1)}) as daemon:
        for offset in range(2, 7):
            daemon.write({"cam0": shifted(offset)})
            threads = [Background(daemon.post, "/v1/reload") for _ in range(3)]
            codes = [thread.join()[0] for thread in threads]
            assert 200 in codes and set(codes) <= {200, 409}, codes
            answers_with(daemon, offset)


def test_a_changed_pipeline_with_a_stalled_reader_is_cut_at_the_limit(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="200ms") as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_view("results wait", lambda view: view["frames"]["in_flight"] == 2)
            daemon.write({"cam0": shifted(1)}, drain_timeout="200ms")
            daemon.command("/v1/reload")
            assert daemon.final_account() == {"in": 2, "emitted": 0, "shutdown": 2}
        answers_with(daemon, 1)


@pytest.mark.parametrize("moment", range(4))
def test_sigterm_during_a_reload(place, moment):
    """Whatever the reload is at, the daemon ends with every account settled."""
    with Daemon(place, {"cam0": shifted(1), "cam1": shifted(1)}) as daemon:
        with daemon.producer("cam0") as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_view("results wait", lambda view: view["frames"]["in_flight"] == 2)
            daemon.write({"cam0": shifted(2), "cam1": shifted(2)})
            reloading = Background(daemon.post, "/v1/reload")
            for _ in range(moment):
                daemon.status()
            daemon.signal(signal.SIGTERM)
            with Reader(daemon.path("cam0", "sink")) as reader:
                assert len(reader.rest()) in (0, 2 * SIZE)
            daemon.ends(0)
            try:
                code, _ = reloading.join()
                assert code in (200, 409, 503), code
            except (OSError, EOFError):
                pass  # the daemon was gone before it could answer
        for name in ("cam0", "cam1"):
            daemon.final_account(name)


class Waiting(Daemon):
    """Its only worker thread is busy for some seconds, from when a reload waits for half a frame of cam0 on."""

    def __init__(self, place):
        self.strikes = place / "strikes"
        self.strikes.write_bytes(b"")
        environment = {"UV_THREADPOOL_SIZE": "1", "FRAMED_FAULT_WARM_UPS": str(self.strikes)}
        super().__init__(place, self.entries(1), drain_timeout="4s", env=environment)

    @staticmethod
    def entries(offset):
        stages = [{"fault": {"kind": "delay", "ms": 7000, "at": 1 << 40}}]
        late = pipeline(FORMAT, source={"protocol": "native"}, sink={"reply": True}, stages=stages)
        return {"cam0": shifted(offset), "cam1": shifted(offset), "late": late}

    def wait_for(self, producer):
        with Shared(self.path("late", "source")) as client:
            producer.send(bytes(100))
            self.wait_view("half a frame has come", lambda view: view["frames"]["in"] == 1)
            self.write(self.entries(2), drain_timeout="4s")
            self.signal(signal.SIGHUP)
            self.wait_view("the pipeline waits for the frame", lambda view: view["state"] == "stopping")
            self.strikes.write_bytes(b".")
            client.close()
        wait_until(lambda: self.strikes.stat().st_size == 0, "the client's memory is being made anew")

    def ends_once(self):
        self.signal(signal.SIGTERM)
        self.ends()
        self.leaves_frames = True
        assert self.log.count("nothing was changed: the daemon is stopping") == 1
        assert self.log.count("cam0: stopped") == self.log.count("cam1: stopped") == 1, self.log


def test_sigterm_while_a_reload_waits_and_its_limit_passes_behind_it(place):
    """What the reload has prepared is given back by a worker, and the time that the frame was given is over before that."""
    with Waiting(place) as daemon, daemon.producer() as producer:
        daemon.wait_for(producer)
        daemon.ends_once()


def test_sigterm_whose_limit_passes_before_a_reload_is_taken_back(place):
    """Pipelines that the stop has cut off by then stay stopped, whatever they were before."""
    with Waiting(place) as daemon, daemon.producer() as producer, daemon.reader() as reader:
        daemon.command("/v1/pipelines/cam1/pause")
        daemon.wait_for(producer)
        producer.send(bytes(SIZE - 100))
        assert reader.read(SIZE) == bytes([1]) * SIZE
        daemon.wait_view("the frame is done", lambda view: view["frames"]["in_flight"] == 0)
        daemon.ends_once()


class Resting:
    """A stage whose frames rest, those that warm it up too, until the test is over."""

    def __init__(self, place):
        self.begun, self.rests = place / "begun", place / "rests"
        self.rests.touch()
        run = f'close(open("{self.begun}", O_CREAT | O_WRONLY, 0600)); while (access("{self.rests}", F_OK) == 0) usleep(10000)'
        self.stage = {"library": {"file": build(place, "#include <fcntl.h>\n#include <unistd.h>\n" + table(run=run))}}

    def wait(self, daemon):
        wait_until(self.begun.exists, lambda: f"the stage warms up\n{daemon.log}", 30)
        self.begun.unlink()


@pytest.mark.skipif(BACKEND != "cpu", reason="the devices are those of the CPU backend")
def test_a_reload_during_which_another_device_fails_goes_on(place):
    resting = Resting(place)
    keys = {"gpu": {"backend": "cpu", "count": 2, "faults": "60/min"}}

    def entries(*stages):
        faulty = [{"fault": {"kind": "illegal", "at": 1, "every": 2, "again": "no"}}]
        return {"cam0": pipeline(FORMAT, stages=faulty, sink={"reply": True}), "slow": pipeline(GRAY, stages=stages, device=1)}

    with Daemon(place, entries(), **keys) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            daemon.write(entries(resting.stage), **keys)
            daemon.signal(signal.SIGHUP)
            resting.wait(daemon)
            for faults in (1, 2):
                client.send(numbered(2, SIZE).tobytes())
                assert client.read(2 * SIZE) == numbered(2, SIZE).tobytes()
                wait_until(lambda: daemon.status()["handovers"]["fault"] == faults, lambda: f"it goes on\n{daemon.log}", 30)
            resting.rests.unlink()
            wait_until(lambda: daemon.status()["reloads"]["done"] == 1, lambda: f"the reload is done\n{daemon.log}")
        daemon.account(came=4, emitted=4)


def test_a_reload_is_not_refused_for_the_fault_of_another_pipeline(place):
    """The worker in which it prepares a chain ends by a frame of that pipeline: the next worker prepares the chain."""
    resting = Resting(place)
    keys = {"gpu": {"backend": BACKEND, "faults": "60/min"}}
    faulty = pipeline(FORMAT, stages=[{"fault": {"kind": "illegal", "at": 1, "every": 0, "again": "no"}}], sink={"reply": True})
    with Daemon(place, {"cam0": faulty}, **keys) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            daemon.write({"cam0": faulty, "slow": pipeline(GRAY, stages=[resting.stage])}, **keys)
            daemon.signal(signal.SIGHUP)
            resting.wait(daemon)
            client.send(numbered(2, SIZE).tobytes())
            resting.wait(daemon)
            assert client.read(2 * SIZE) == numbered(2, SIZE).tobytes()
            resting.rests.unlink()
            wait_until(lambda: daemon.status()["reloads"]["done"] == 1, lambda: f"the reload is done\n{daemon.log}", 30)
        assert "nothing was changed" not in daemon.log
        daemon.account(came=2, emitted=2)


def calls(place, call, entries, **keys):
    """How many of these calls a daemon makes that starts and ends."""
    counting = Injection(place, call)
    with Injected(place, entries, counting, **keys) as daemon:
        daemon.wait_ready()
    return counting.count


@contextlib.contextmanager
def taking_sockets_over(place, **keys):
    """A daemon whose reload is at the first socket of the pipeline that it changes until it is told to go on, and what tells it."""
    def entries(offset):
        return {"cam0": shifted(offset, source={"mode": f"060{offset}"}), "bad": pipeline(FORMAT, stages=[{"fault": {"kind": "illegal"}}])}
    injection = Injection(place, "chmod", at=calls(place, "chmod", entries(1), **keys) + 1, error=REST, wait=UNTIL_TOLD)
    with Injected(place, entries(1), injection, **keys) as daemon:
        daemon.wait_ready()
        daemon.write(entries(2), **keys)
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: injection.happened, "the reload is at the first socket")
        yield daemon, injection.go_on


def test_a_stop_and_a_fault_while_a_reload_makes_sockets(place):
    """Nobody begins it again, and what it has made is left by nobody."""
    keys = {"gpu": {"backend": BACKEND}}
    bad = pipeline(FORMAT, stages=[{"fault": {"kind": "illegal", "at": 0, "again": "no"}}], sink={"reply": True})
    injection = Injection(place, "listen", at=calls(place, "listen", {"bad": bad}, **keys) + 2, error=REST, wait=UNTIL_TOLD)
    with Injected(place, {"bad": bad}, injection, **keys) as daemon:
        daemon.wait_ready()
        with daemon.producer("bad") as producer:
            daemon.write({"bad": bad, "cam0": shifted(1)}, **keys)
            daemon.signal(signal.SIGHUP)
            wait_until(lambda: injection.happened, "the reload is at the second socket")
            daemon.signal(signal.SIGTERM)
            daemon.status()  # it has acted upon that by now
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_log("the worker of device 0 failed")
            injection.go_on()
            daemon.leaves_frames = True
            daemon.ends()
        assert "reloaded" not in daemon.log


def test_sigterm_whose_limit_passes_while_a_reload_takes_sockets_over(place):
    """The same for a stop."""
    with taking_sockets_over(place, drain_timeout="100ms") as (daemon, go_on):
        daemon.signal(signal.SIGTERM)
        asked = daemon.status()["uptime_s"]  # it is by now
        wait_until(lambda: daemon.status()["uptime_s"] > asked + 0.2, "the limit has passed")
        go_on()
        daemon.ends()
        log = daemon.log.rpartition("is ready")[2]
        assert log.count("nothing was changed: the daemon is stopping") == log.count("cam0: stopped") == 1


def test_a_reload_that_an_upgrade_overtakes(place):
    """The program that takes over begins it again."""
    with Daemon(place, {"cam0": shifted(1)}) as daemon:
        daemon.write({"cam0": shifted(2)})
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: daemon.status()["handovers"]["upgrading"] or daemon.status()["handovers"]["upgrade"], "it is asked")
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, "it has taken over")
        answers_with(daemon, 2)


def test_a_signal_to_reload_while_the_daemon_starts(place):
    """The file has changed since it was read."""
    injection = Injection(place, "memfd_create", at=1, error=REST, wait=500)
    with Injected(place, {"cam0": shifted(1)}, injection) as daemon:
        wait_until(lambda: injection.happened, "it prepares the pipeline")
        daemon.write({"cam0": shifted(2)})
        daemon.signal(signal.SIGHUP)
        daemon.wait_ready()
        daemon.wait_log("configuration reloaded")
        answers_with(daemon, 2)


def test_a_signal_to_reload_while_a_reload_is_under_way(place):
    """The same; it begins once more."""
    injection = Injection(place, "chmod", at=calls(place, "chmod", {"cam0": shifted(1)}) + 1, error=REST, wait=500)
    with Injected(place, {"cam0": shifted(1)}, injection) as daemon:
        daemon.wait_ready()
        daemon.write({"cam0": shifted(2, source={"mode": "0600"})})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: injection.happened, "the reload has read the file")
        daemon.write({"cam0": shifted(3)})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.log.count("configuration reloaded") == 2, lambda: f"it reloads twice:\n{daemon.log}")
        answers_with(daemon, 3)


def test_many_pipelines_come_and_go(place):
    with Daemon(place, {f"cam{index}": shifted(index) for index in range(20)}, lanes=3) as daemon:
        before = daemon.open_files()
        for turn in range(3):
            daemon.write({f"cam{index}": shifted(index + turn) for index in range(10 * (turn % 2), 40, 2)}, lanes=3)
            daemon.command("/v1/reload")
        daemon.write({f"cam{index}": shifted(index) for index in range(20)}, lanes=3)
        daemon.command("/v1/reload")
        wait_until(lambda: daemon.open_files() <= before, lambda: f"{before} files before, {daemon.open_files()} now")
        for index in (0, 7, 19):
            answers_with(daemon, index, f"cam{index}")


def test_the_log_level_changes_at_once(place):
    with Daemon(place, {"cam0": shifted(1)}) as daemon:
        daemon.write({"cam0": shifted(1)}, log={"level": "error"})
        daemon.command("/v1/reload")
        before = daemon.log
        answers_with(daemon, 1)
        assert daemon.log == before
