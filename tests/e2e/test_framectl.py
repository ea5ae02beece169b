"""framectl: every command against a real daemon, its errors and its exit status."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import numpy as np
import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, numbered, pace, pipeline, wait_until, whole
from harness.terminal import Terminal

pytestmark = pytest.mark.host

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def framectl(place, *arguments, input=None, seconds=20):
    """Runs framectl on the status socket in `place`, to its end."""
    return subprocess.run([FRAMECTL, "-s", place / "status.sock", *map(str, arguments)], input=input, capture_output=True,
                          text=not isinstance(input, bytes), env=environment(), timeout=limit(seconds), check=False)


def succeeds(place, *arguments, **options):
    done = framectl(place, *arguments, **options)
    assert done.returncode == 0 and not done.stderr, (arguments, done)
    return done.stdout


def test_status_for_people_and_for_machines(place):
    with Daemon(place, {"front": pipeline(FORMAT), "rear": pipeline(FORMAT)}) as daemon:
        with daemon.reader("front") as reader, daemon.producer("front") as producer:
            producer.send(numbered(42, SIZE).tobytes())
            reader.frames(42, SIZE)
            daemon.account("front", came=42, emitted=42)
            text = succeeds(place, "status")
            assert "front" in text and "rear" in text and "42" in text and "running" in text, text
            document = json.loads(succeeds(place, "--json", "status"))
            assert document["pipelines"]["front"]["frames"]["emitted"] == 42
            one = succeeds(place, "status", "front")
            assert "front" in one and "rear" not in one, one


def test_metrics_are_the_daemons(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}):
        assert 'framed_frames_in_total{pipeline="cam0"} 0' in succeeds(place, "metrics")


@pytest.mark.parametrize("command", ["status", "status --json", "metrics", "health", "check"])
def test_what_cannot_be_printed_is_an_error(place, command):
    """Also where it is more than is written at once."""
    entries = {f"cam{number}": pipeline(FORMAT) for number in range(8)}
    with Daemon(place, entries) as daemon, open("/dev/full", "wb") as full:
        arguments = [daemon.file] if command == "check" else []
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, *command.split(), *arguments], stdout=full, stderr=subprocess.PIPE,
                              text=True, env=environment(), timeout=limit(20), check=False)
        assert done.returncode == 70 and "cannot write to standard output" in done.stderr, done


def wait_asked(daemon, client):
    """The daemon has heard the client's request: that sleeps over its connection, and a later one was answered."""
    def sleeps_over_a_socket():
        process = pathlib.Path(f"/proc/{client.pid}")
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state == "S" and any(file.is_socket() for file in (process / "fd").iterdir())
    wait_until(sleeps_over_a_socket, "it has asked")
    daemon.status()


def test_a_trace_goes_into_a_file(place):
    file = place / "here.json"
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        with subprocess.Popen([FRAMECTL, "-s", daemon.socket, "trace", "-o", file, "--seconds", str(pace(3))],
                              stdout=subprocess.PIPE, text=True, env=environment()) as tracing:
            wait_asked(daemon, tracing)
            producer.send(numbered(7, SIZE).tobytes())
            reader.frames(7, SIZE)
            text = tracing.communicate(timeout=limit(20))[0]
        assert tracing.returncode == 0 and "7 frames" in text and str(file) in text and "perfetto" in text, text
        assert json.loads(file.read_text())[0]["args"]["frames"] == 7
        done = framectl(place, "trace", "--output", "-", "--seconds", "0.1")
        assert done.returncode == 0 and json.loads(done.stdout)[0]["args"]["frames"] == 0
        assert "0 frames" in done.stderr and "while frames pass" in done.stderr, done.stderr


def test_a_trace_that_fails_leaves_no_half_of_it(place):
    file = place / "here.json"
    file.write_text("earlier")
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        done = framectl(place, "trace", "-o", place / "nowhere/here.json", "--seconds", "0.1")
        assert done.returncode == 70 and "nowhere" in done.stderr and "-o" in done.stderr, done
        done = framectl(place, "trace", "-o", "/dev/full", "--seconds", "0.1")
        assert done.returncode == 70 and "No space left" in done.stderr and os.path.exists("/dev/full"), done
        tracing = subprocess.Popen([FRAMECTL, "-s", place / "status.sock", "trace", "-o", file, "--seconds", "60"],
                                   stderr=subprocess.PIPE, text=True, env=environment())
        wait_asked(daemon, tracing)
    error = tracing.communicate(timeout=limit(20))[1]
    assert tracing.returncode == 1 and "stopping" in error, error
    assert file.read_text() == "earlier"
    done = framectl(place, "trace", "-o", file)
    assert done.returncode == 69 and file.read_text() == "earlier"


@pytest.mark.parametrize("seconds", ["0", "61", "two", "", "1e1"])
def test_traces_of_a_wrong_length(place, seconds):
    done = framectl(place, "trace", "--seconds", seconds)
    assert done.returncode == 64 and "from 0.1 to 60" in done.stderr, done


def test_pause_drain_and_resume(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        succeeds(place, "pause", "cam0")
        assert daemon.view()["state"] == "paused"
        succeeds(place, "resume", "cam0")
        assert daemon.view()["state"] == "running"
        succeeds(place, "drain", "cam0")
        assert daemon.view()["state"] == "drained"
        assert json.loads(succeeds(place, "--json", "resume", "cam0"))["ok"] is True


def test_drain_that_takes_too_long_says_what_it_waits_for(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="500ms") as daemon:
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            done = framectl(place, "drain", "cam0")
            assert done.returncode != 0 and "reader" in done.stderr, done
            daemon.command("/v1/pipelines/cam0/resume")
            with daemon.reader() as reader:
                reader.frames(1, SIZE)
            daemon.quiet()


def test_reload_and_its_errors(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        assert succeeds(place, "reload").strip() == "the configuration has not changed"
        two = {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}
        daemon.write(two)
        assert succeeds(place, "reload") == "the new configuration is in force\n  added: cam1\n"
        daemon.write(two, drain_timeout="7s")
        assert succeeds(place, "reload") == "the new configuration is in force\n"
        daemon.write({"cam0": pipeline(FORMAT, slots=5)}, drain_timeout="7s")
        assert succeeds(place, "reload").splitlines()[1:] == ["  removed, clients disconnected: cam1",
                                                              "  changed and restarted, clients disconnected: cam0"]
        daemon.file.write_text("pipelines: {cam0: {sorce: {}}}\n")
        done = framectl(place, "reload")
        assert done.returncode != 0 and "sorce" in done.stderr and "framed.yaml:1:" in done.stderr, done
        assert daemon.view()["state"] == "running"


def test_check_needs_no_daemon(place):
    config = json.dumps({"status": {"socket": str(place / "s")}, "gpu": {"backend": "cpu"}, "pipelines": {"cam0": {
        "source": {"socket": str(place / "a"), "format": FORMAT}, "sink": {"socket": str(place / "b")}}}})
    (place / "good.yaml").write_text(config)
    (place / "bad.yaml").write_text(config.replace("cam0", "cam 0").replace("source", "sorce"))
    done = framectl(place, "check", place / "good.yaml")
    assert done.returncode == 0, done
    done = framectl(place, "check", place / "bad.yaml")
    assert done.returncode == 78 and "sorce" in done.stderr, done


# -- push and pull ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [True, False], ids=["beside it", "in PATH"])
@pytest.mark.parametrize("command", [["check"], ["try", "invert", "--format", "gray 4x4", "--in", "frame"]], ids=["check", "try"])
def test_a_framed_that_is_no_program_is_not_given_to_a_shell(place, command, beside):
    own = place / "bin"
    own.mkdir()
    (place / "frame").write_bytes(bytes(16))
    shutil.copy(FRAMECTL, own / "framectl")
    framed = (own if beside else place) / "framed"
    framed.write_text(f"touch {place}/ran\n")
    framed.chmod(0o755)
    done = subprocess.run([own / "framectl", *command], capture_output=True, text=True, timeout=limit(20), check=False, cwd=place,
                          env={**environment(), "PATH": f"{place}:{os.environ['PATH']}"})
    assert done.returncode != 0 and "cannot run framed: Exec format error" in done.stderr, done
    assert not (place / "ran").exists()


def test_push_and_pull_carry_every_byte(place):
    frames = np.random.default_rng(9).integers(0, 256, (400, SIZE), np.uint8)
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[{"affine": {"scale": -1, "offset": 255}}])}) as daemon:
        command = [FRAMECTL, "-s", daemon.socket, "pull", "cam0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as pull:
            daemon.wait_view("it pulls", lambda view: view["readers"] == 1)
            taking = Background(pull.stdout.read)
            done = framectl(place, "push", "cam0", input=frames.tobytes())
            assert done.returncode == 0, done
            daemon.account(came=400, emitted=400)
            daemon.finish()
            assert taking.join() == (255 - frames).tobytes()
            assert pull.wait(limit(10)) == 0


@pytest.mark.parametrize("protocol", ["raw", "y4m"])
def test_pull_ends_after_so_many_frames(place, protocol):
    """Whole frames and no byte more, although more are there."""
    image = {"pixels": "gray", "width": 32, "height": 16}
    header = b"" if protocol == "raw" else b"YUV4MPEG2 W32 H16 F30:1 Ip A1:1 Cmono\n"
    marker = b"" if protocol == "raw" else b"FRAME\n"
    source = header + b"".join(marker + bytes([number]) * SIZE for number in range(30))
    ends = {"source": {"protocol": protocol}, "sink": {"protocol": protocol}}
    with Daemon(place, {"cam0": pipeline(image, **ends)}) as daemon:
        with daemon.reader(), subprocess.Popen([FRAMECTL, "-s", daemon.socket, "pull", "--frames", "7", "cam0"],
                                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as pull:
            daemon.wait_view("both read", lambda view: view["readers"] == 2)
            with daemon.producer() as producer:
                producer.send(source)
                got, said = pull.communicate(timeout=limit(20))
                assert pull.returncode == 0, said
                lines = got.split(b"\n", 1)[1] if header else got
                assert lines == b"".join(marker + bytes([number]) * SIZE for number in range(7)), said
                assert not header or got.startswith(b"YUV4MPEG2 W32 H16 "), got[:80]
                daemon.wait_view("all came through", lambda view: view["frames"]["emitted"] == 30)


def test_binary_data_stays_off_terminals(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "echo": pipeline(FORMAT, sink={"reply": True})}) as daemon:
        for command in (["pull", "cam0"], ["push", "cam0"], ["push", "echo"]):
            with Terminal(FRAMECTL, "-s", daemon.socket, *command) as terminal:
                terminal.shows(b"is a terminal")
                assert terminal.ends() == 64


@pytest.mark.parametrize("options", [(), ("--shm",)])
def test_push_on_native_pipelines_carries_every_byte(place, options):
    frames = np.random.default_rng(9).integers(0, 256, (400, SIZE), np.uint8)
    entry = pipeline(FORMAT, stages=[{"affine": {"scale": -1, "offset": 255}}], source={"protocol": "native"},
                     sink={"reply": True, "protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        done = framectl(place, "push", "cam0", *options, input=frames.tobytes())
        assert done.returncode == 0, done.stderr
        assert done.stdout == (255 - frames).tobytes()
        assert (b"400 frames through shared memory" in done.stderr) == bool(options), done.stderr
        done = framectl(place, "push", "cam0", *options, input=frames.tobytes()[:SIZE + 10])
        assert done.returncode == 0 and len(done.stdout) == SIZE, done
        assert b"standard input ended after 10 of %d bytes" % SIZE in done.stderr, done
        daemon.account(came=401, emitted=401)


@pytest.mark.parametrize("options", [(), ("--shm",)])
def test_push_and_pull_on_native_sockets(place, options):
    frames = np.random.default_rng(9).integers(0, 256, (50, SIZE), np.uint8)
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"protocol": "native"}, sink={"protocol": "native"})}) as daemon:
        command = [FRAMECTL, "-s", daemon.socket, "pull", "cam0", "--frames", "50", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as pull:
            daemon.wait_view("it pulls", lambda view: view["readers"] == 1)
            done = framectl(place, "push", "cam0", *options, input=frames.tobytes())
            assert done.returncode == 0, done.stderr
            results, said = pull.communicate(timeout=limit(20))
            assert pull.returncode == 0 and results == frames.tobytes(), said
            assert b"pulled" in said and b"50 frames" in said and (b"through shared memory" in said) == bool(options), said
        daemon.account(came=50, emitted=50)


def test_push_says_that_a_pipeline_has_no_shared_memory(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        done = framectl(place, "push", "--shm", "cam0", input=b"")
        assert done.returncode == 1 and b"cam0 speaks raw there, which has no shared memory" in done.stderr, done
        daemon.account(came=0)


def test_push_that_is_refused_says_why(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.producer():
            daemon.wait_view("the place is taken", lambda view: view["sessions"] == 1)
            done = framectl(place, "push", "cam0", input=bytes(SIZE * 1000))
            assert done.returncode != 0 and b"already has its 1 producer" in done.stderr, done
            assert b"see `framectl status cam0`, and the daemon's log (in its terminal, or journalctl -u framed)" in done.stderr


def test_push_of_half_a_frame_says_so(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader:
            framectl(place, "push", "cam0", input=bytes(SIZE + 10))
            reader.frames(1, SIZE)
            daemon.account(came=2, emitted=1, invalid=1)


@pytest.mark.parametrize("protocol", ["raw", "y4m", "native"])
@pytest.mark.parametrize("sent, takes", [(0, True), (5, True), (20000, False)], ids=["nothing", "five", "stuck"])
def test_pull_says_how_much_it_was_when_it_is_interrupted(place, protocol, sent, takes):
    """Also before anything has come, and while nobody takes what it writes; Ctrl-C and SIGTERM do the same."""
    image = {"pixels": "gray", "width": 32, "height": 16}
    number = signal.SIGINT if takes else signal.SIGTERM
    sink = {"socket": str(place / "out.sock"), "protocol": protocol}
    with Daemon(place, {"cam0": pipeline(image, sink=sink)}, drain_timeout="100ms") as daemon:
        daemon.leaves_frames = not takes
        with subprocess.Popen([FRAMECTL, "-s", daemon.socket, "pull", "--force", "cam0"], stderr=subprocess.PIPE, text=True,
                              stdout=subprocess.DEVNULL if takes else subprocess.PIPE, env=environment()) as pull:
            daemon.wait_view("it pulls", lambda view: view["readers"] == 1)
            with daemon.producer("cam0") as producer:
                sending = Background(producer.send, bytes(SIZE * sent))
                daemon.wait_view("frames came", lambda view: view["frames"]["emitted"] >= sent if takes else
                                 view["waiting"] == "reader")
                pull.send_signal(number)
                said = pull.stderr.read()
                assert pull.wait(limit(10)) == 0 and said.startswith("cam0: pulled ") and said.count("\n") == 1, said
                if takes:
                    sending.join()


def test_pull_ends_quietly_when_its_reader_does(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        with daemon.producer() as producer:
            pull = subprocess.Popen([FRAMECTL, "-s", daemon.socket, "pull", "cam0"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env=environment())
            daemon.wait_view("it pulls", lambda view: view["readers"] == 1)
            producer.send(whole(0, SIZE).tobytes())
            assert pull.stdout.read(SIZE) == whole(0, SIZE).tobytes()
            pull.stdout.close()

            def feed():
                producer.send(whole(1, SIZE).tobytes())
                return pull.poll() is not None
            wait_until(feed, "it notices that nobody reads")
            assert pull.stderr.read() == b""
            pull.stderr.close()
        daemon.quiet()


# -- errors --------------------------------------------------------------------------------------------------------------


def test_no_daemon_is_said_with_a_remedy(place):
    done = framectl(place, "status")
    assert done.returncode == 69 and str(place / "status.sock") in done.stderr, done
    assert len(done.stderr.strip().splitlines()) >= 2 or "-s" in done.stderr, done


@pytest.mark.parametrize("command", ["status", "pause", "resume", "drain", "push", "pull"])
def test_an_unknown_pipeline_is_named_with_those_there_are(place, command):
    with Daemon(place, {"front": pipeline(FORMAT), "rear": pipeline(FORMAT)}):
        done = framectl(place, command, "side", input="")
        assert done.returncode not in (0, 64), done
        assert "side" in done.stderr and "front" in done.stderr and "rear" in done.stderr, done


@pytest.mark.parametrize("arguments", [
    [], ["explode"], ["pause"], ["push"], ["pull"], ["--nonsense"], ["pause", "a", "b"],
], ids=str)
def test_wrong_usage_is_64(place, arguments):
    done = framectl(place, *arguments)
    assert done.returncode == 64 and done.stderr, done


@pytest.mark.parametrize("arguments,said", [
    (["-x"], "no option -x"), (["-xs", "here"], "no option -x"), (["status", "-xy"], "no option -x"),
    (["push", "--force", "-hx"], "no option -x"), (["status", "--nonsense"], "no option --nonsense"),
    (["status", "--json=yes"], "no option --json=yes"), (["status", "--socket"], "--socket needs a value"), (["-s"], "-s needs a value"),
], ids=str)
def test_the_option_that_is_wrong_is_named(place, arguments, said):
    done = framectl(place, *arguments)
    assert done.returncode == 64 and said in done.stderr, done


@pytest.mark.parametrize("name", ["caf\udce9", "\udcff\udc80", "caf\u00e9"], ids=ascii)
def test_a_name_in_any_encoding_is_an_error_in_json(place, name):
    with Daemon(place, {"front": pipeline(FORMAT)}):
        done = framectl(place, "--json", "status", name)
        document = json.loads(done.stdout)
        assert done.returncode == 1 and "no pipeline" in document["error"] and "front" in document["remedy"], done


def test_a_slip_in_a_command_is_answered_with_the_one_it_may_mean(place):
    assert "did you mean 'status'?" in framectl(place, "statsu").stderr
    assert "did you mean" not in framectl(place, "explode").stderr


def test_help_may_be_a_command(place):
    assert framectl(place, "help").stdout == framectl(place, "help", "help").stdout == framectl(place, "--help").stdout
    assert framectl(place, "help", "push").stdout == framectl(place, "push", "--help").stdout
    assert framectl(place, "help", "explode").returncode == 64 and framectl(place, "help", "push", "cam0").returncode == 64


def test_help_and_version(place):
    for argument, text in (("--help", "drain"), ("--version", "0.1.0")):
        done = framectl(place, argument)
        assert done.returncode == 0 and text in done.stdout and not done.stderr, done


def test_stages_shows_types_ranges_and_defaults(place):
    blur = framectl(place, "stages", "blur").stdout
    assert "number 0.1 to 64; required" in blur and "whole number 0 to 256; default: 0" in blur, blur
    convert = framectl(place, "stages", "convert").stdout
    assert "one of: bt601, bt709; default: bt601" in convert, convert


def test_help_says_the_exit_statuses_and_who_takes_json(place):
    text = framectl(place, "--help").stdout
    for status in (0, 1, 2, 64, 69, 70, 78):
        assert f"\n  {status:<3} " in text, text
    named = " ".join(text.split("print JSON; for ")[1].split("-h, --help")[0].split()).split()
    for command in named:
        assert "[--json]" in framectl(place, "help", command).stdout, command
    assert "watch" in named and "record" in named, named
