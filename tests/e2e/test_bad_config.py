"""What a wrong configuration gets: every error at once, each with its place and what to do, and status 78."""

import errno
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from harness import BACKEND, BINARY, NOBODY, Background, Client, Daemon, as_nobody, pipeline, run_framed, wait_until
from harness.injection import Injection

pytestmark = [pytest.mark.host, pytest.mark.plain]

GOOD = """\
status: {{socket: {place}/status.sock}}
gpu: {{backend: cpu}}
pipelines:
  cam0:
    source:
      socket: {place}/cam0.sock
      format: {{pixels: gray, width: 64, height: 48}}
    slots: 2
    stages:
      - affine: {{scale: 2.0, offset: 1.0}}
    sink:
      socket: {place}/cam0.out.sock
"""


def check(place, text, *arguments):
    file = place / "framed.yaml"
    file.write_text(text)
    return run_framed("-c", file, *arguments)


def good(place):
    return GOOD.format(place=place)


def changed(place, old, new):
    text = good(place)
    assert old in text
    return text.replace(old, new.format(place=place))


def test_a_good_file_passes_and_says_what_it_takes(place):
    done = check(place, good(place), "--check")
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "cam0" in said and re.search(r"\d+(\.\d+)? ?([KMG]i)?B", said), said
    assert not list(place.glob("*.sock")), "--check leaves no socket behind"


def test_directories_that_are_missing_are_noted(place):
    """They may be made before the start; without them their pipelines wait."""
    text = changed(place, "socket: {place}/cam0.out.sock".format(place=place), "file: {place}/none/out.raw")
    text = text.replace(f"{place}/cam0.sock", f"{place}/no/cam0.sock")
    assert "note:" not in check(place, good(place), "--check").stdout
    done = check(place, text, "--check")
    assert done.returncode == 0, done
    line = 1 + text.splitlines().index(f"      socket: {place}/no/cam0.sock")
    assert f"framed.yaml:{line}:" in done.stdout and f"the socket '{place}/no/cam0.sock' does not exist" in done.stdout, done
    assert "RuntimeDirectory=" in done.stdout and f"'{place}/none/out.raw' does not exist" in done.stdout, done


# (what is changed, into what, what the message must say)
MISTAKES = {
    "unknown key": ("slots: 2", "slot: 2", ["slot", "did you mean", "slots"]),
    "unknown key at the top": ("gpu: {backend: cpu}", "gpus: {{backend: cpu}}", ["gpus", "did you mean", "gpu"]),
    "unknown stage": ("affine:", "afine:", ["afine", "did you mean", "affine"]),
    "unknown parameter": ("scale: 2.0", "scal: 2.0", ["scal", "did you mean", "scale"]),
    "unknown unit": ("slots: 2", "deadline: 50lightyears", ["50lightyears", "ms"]),
    "missing unit": ("slots: 2", "deadline: 50", ["deadline", "50", "ms"]),
    "wrong type": ("slots: 2", "slots: two", ["two"]),
    "list for a mapping": ("slots: 2", "slots: [2]", ["slots"]),
    "too few slots": ("slots: 2", "slots: 0", ["slots", "1", "16"]),
    "too many slots": ("slots: 2", "slots: 17", ["slots", "1", "16"]),
    "unknown choice": ("slots: 2", "overload: blok", ["blok", "did you mean", "block"]),
    "unknown pixel format": ("gray", "grey", ["grey", "did you mean", "gray"]),
    "size overflow": ("width: 64, height: 48", "width: 4294967295, height: 4294967295", ["width"]),
    "number overflow": ("width: 64", "width: 99999999999999999999", ["99999999999999999999"]),
    "negative size": ("width: 64", "width: -1", ["width"]),
    "zero size": ("width: 64", "width: 0", ["width"]),
    "not a number": ("scale: 2.0", "scale: .nan", ["scale"]),
    "missing format": ("      format: {pixels: gray, width: 64, height: 48}\n", "", ["format"]),
    "two sources": ("slots: 2", "slots: 2\n    source: {{file: '-'}}", ["source"]),
    "socket and file": ("      format:", "      file: '-'\n      format:", ["socket", "file"]),
    "no endpoint": ("      socket: {place}/cam0.out.sock", "      protocol: raw", ["sink", "socket"]),
    "rate on a socket": ("      format:", "      rate: 30\n      format:", ["rate"]),
    "drop-oldest with two slots": ("slots: 2", "slots: 2\n    overload: drop-oldest", ["drop-oldest", "slots", "3"]),
    "y4m of a format it has not": ("socket: {place}/cam0.out.sock",
                                   "socket: {place}/cam0.out.sock\n      protocol: y4m", None),
    "several producers on one sink": ("      format:", "      clients: 2\n      format:", ["clients", "reply"]),
    "path too long for sun_path": ("socket: {place}/cam0.sock", "socket: /tmp/" + "x" * 120, ["107", "x" * 20]),
    "URL for a socket": ("socket: {place}/cam0.sock", "socket: rtsp://camera/1", ["a path, not a URL", "rtsp://camera/1", "write url: rtsp://"]),
    "URL for a file": ("socket: {place}/cam0.out.sock", "file: https://store/1", ["a path, not a URL", "https://store/1", "-i unix:PATH OUTPUT"]),
    "URL for a source": ("      format:", "      url: rtsp://camera/1\n      format:", ["'socket' and 'url' exclude each other"]),
    "codec for pixels": ("pixels: gray", "pixels: mjpeg", ["decoded frames", "ffmpeg -i INPUT"]),
    "codec for a format": ("format: {pixels: gray, width: 64, height: 48}", "format: h264", ["decoded frames"]),
    "codec of results": ("socket: {place}/cam0.out.sock", "socket: {place}/cam0.out.sock\n      codec: h264", ["let ffmpeg encode"]),
    "ffmpeg's way to name a socket": ("socket: {place}/cam0.sock", "socket: unix:/run/cam0.sock", ["without 'unix:'"]),
    "same socket twice": ("cam0.out.sock", "cam0.sock", ["cam0.sock"]),
    "more pinned memory than allowed": ("width: 64, height: 48", "width: 65536, height: 65536", ["pin", "memory"]),
    "stage that is for other formats": ("affine: {scale: 2.0, offset: 1.0}", "convert: {{to: nonsense}}", ["nonsense"]),
    "tab": ("    slots: 2", "\tslots: 2", ["framed.yaml:8"]),
    "key twice": ("slots: 2", "slots: 2\n    slots: 3", ["slots"]),
    "anchor to nowhere": ("slots: 2", "slots: *two", ["framed.yaml:8"]),
    "unknown protocol": ("      format:", "      protocol: mpegts\n      format:", ["mpegts", "native"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("how", ["--check", "start"])
def test_a_mistake_is_named_with_place_and_remedy(place, mistake, how):
    old, new, expected = MISTAKES[mistake]
    if expected is None:  # float images have no Y4M
        text = good(place).replace("pixels: gray", "pixels: grayf32le").replace(
            old.format(place=place), new.format(place=place))
        expected = ["y4m", "grayf32le"]
    else:
        text = changed(place, old.format(place=place) if "{place}" in old else old, new)
    done = check(place, text, *(["--check"] if how == "--check" else []))
    assert done.returncode == 78, (done.returncode, done.stdout, done.stderr)
    assert re.search(r"framed\.yaml:\d+:\d+: ", done.stderr), done.stderr
    for word in expected:
        assert word in done.stderr, f"{word!r} is not in:\n{done.stderr}"
    assert not list(place.glob("*.sock"))


def test_stages_that_do_not_fit_are_both_named(place):
    """normalize gives a float tensor, of which motion makes nothing."""
    text = changed(place, "      - affine: {scale: 2.0, offset: 1.0}",
                   "      - normalize: {{mean: 0.5, std: 0.5}}\n      - motion: {{}}")
    done = check(place, text, "--check")
    assert done.returncode == 78, done.stderr
    assert "normalize" in done.stderr and "motion" in done.stderr, done.stderr


def test_all_errors_come_at_once_in_the_order_of_their_lines(place):
    text = good(place).replace("backend: cpu", "backend: gpu").replace("slots: 2", "slot: 2").replace("scale:", "scal:")
    done = check(place, text, "--check")
    assert done.returncode == 78
    lines = [int(number) for number in re.findall(r"framed\.yaml:(\d+):\d+: ", done.stderr)]
    assert len(lines) >= 3 and lines == sorted(lines) and {2, 8, 10} <= set(lines), done.stderr


def test_the_offending_text_is_marked(place):
    done = check(place, changed(place, "slots: 2", "slot: 2"), "--check")
    quoted, marked = re.search(r"\n( *slot: 2)\n( *\^~*)\n", done.stderr).groups()
    assert marked.index("^") == quoted.index("slot"), done.stderr


def test_a_deeply_nested_file_is_refused(place):
    done = check(place, "pipelines: " + "[" * 5000, "--check")
    assert done.returncode == 78 and "framed.yaml:1:" in done.stderr, done.stderr


def test_a_huge_file_is_refused(place):
    done = check(place, good(place) + "# comment\n" * 200000, "--check")
    assert done.returncode == 78 and "1 MiB" in done.stderr, done.stderr


def test_binary_garbage_is_refused(place):
    (place / "framed.yaml").write_bytes(bytes(range(256)) * 4)
    done = run_framed("-c", place / "framed.yaml", "--check")
    assert done.returncode == 78 and "framed.yaml" in done.stderr, done.stderr


def test_a_missing_file_is_named(place):
    done = run_framed("-c", place / "nothing.yaml")
    assert done.returncode == 78 and "nothing.yaml" in done.stderr and "No such file" in done.stderr, done.stderr


def test_drop_ins_are_read_and_their_errors_name_their_file(place):
    (place / "conf.d").mkdir()
    (place / "conf.d/20-rear.yaml").write_text(good(place).split("pipelines:\n")[1].replace("cam0", "rear").join(
        ["pipelines:\n", ""]))
    (place / "conf.d/10-log.yaml").write_text("log: {level: debug}\n")
    done = check(place, good(place), "--print-config")
    assert done.returncode == 0, done.stderr
    assert "rear" in done.stdout and "level: debug" in done.stdout, done.stdout
    (place / "conf.d/20-rear.yaml").write_text("pipelines: {rear: {slot: 2}}\n")
    done = check(place, good(place), "--check")
    assert done.returncode == 78 and re.search(r"20-rear\.yaml:1:\d+: .*slot", done.stderr), done.stderr


@pytest.mark.parametrize("make, what", [
    (os.mkfifo, "it is a FIFO"), (os.mkdir, "Is a directory"), (lambda path: path.symlink_to("/dev/zero"), "it is a device"),
    (lambda path: path.symlink_to("/dev/ptmx"), "it is a device")])
def test_a_drop_in_that_is_no_file_is_an_error(place, make, what):
    """It would be waited for, with nobody there to write it."""
    (place / "conf.d").mkdir()
    make(place / "conf.d/50-odd.yaml")
    done = check(place, good(place), "--check")
    assert done.returncode == 78 and f"conf.d/50-odd.yaml: cannot read it: {what}" in done.stderr, done.stderr


def test_a_fifo_beside_the_configuration_keeps_neither_a_reload_nor_an_end_waiting(place):
    with Daemon(place, text=good(place)) as daemon:
        (place / "conf.d").mkdir()
        os.mkfifo(place / "conf.d/50-odd.yaml")
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("conf.d/50-odd.yaml: cannot read it: it is a FIFO")
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: daemon.log.count("nothing was changed") == 2, lambda: f"it is refused again:\n{daemon.log}")


def test_the_configuration_may_come_through_a_pipe(place):
    """As a shell's <(...) gives it: in parts, and with pauses in between."""
    reading, writing = os.pipe()
    def write():
        with open(writing, "w") as pipe:
            for part in good(place).splitlines(keepends=True):
                pipe.write(part)
                pipe.flush()
                time.sleep(0.01)
    parts = Background(write)
    done = run_framed("-c", f"/dev/fd/{reading}", "--check", pass_fds=[reading])
    parts.join()
    os.close(reading)
    assert done.returncode == 0, done.stderr


def test_the_configuration_may_come_from_standard_input(place):
    done = run_framed("-c", "/dev/stdin", "--check", input=good(place))
    assert done.returncode == 0, done.stderr


def test_a_device_is_no_configuration(place):
    done = run_framed("-c", "/dev/zero", "--check")
    assert done.returncode == 78 and "/dev/zero: cannot read it: it is a device" in done.stderr, done.stderr


def test_print_config_is_a_configuration_that_means_the_same(place):
    first = check(place, good(place), "--print-config")
    assert first.returncode == 0, first.stderr
    second = check(place, first.stdout, "--print-config")
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout


@pytest.mark.parametrize("arguments", [["--nonsense"], ["-c"], ["-c", "a", "b"], ["--state", "1"], ["--print-config", "--state", "1"]],
                         ids=str)
def test_wrong_usage_is_64(arguments):
    done = run_framed(*arguments)
    assert done.returncode == 64 and done.stderr, done


def test_a_configuration_without_its_option_is_recognised(place):
    (place / "my configuration").write_text("")
    for argument in ("cam0.yaml", place / "my configuration"):
        done = run_framed("--check", argument)
        assert done.returncode == 64 and f"write -c {argument}\n" in done.stderr, done
    assert "-c" not in run_framed("nonsense").stderr


def test_help_and_version():
    for argument, text in (("--help", "--check"), ("--version", "0.1.0")):
        done = run_framed(argument)
        assert done.returncode == 0 and text in done.stdout and not done.stderr, done


# -- what only shows at the start ----------------------------------------------------------------------------------


@pytest.mark.skipif(BACKEND == "cuda" or bool(list(pathlib.Path("/dev").glob("nvidia[0-9]*"))), reason="there is a GPU")
def test_cuda_without_a_gpu_is_69(place):
    done = check(place, changed(place, "backend: cpu", "backend: cuda"))
    assert done.returncode == 69, (done.returncode, done.stderr)
    assert "gpu.backend" in done.stderr, done.stderr  # the remedy


@pytest.mark.skipif(BACKEND == "cuda" or bool(list(pathlib.Path("/dev").glob("nvidia[0-9]*"))), reason="there is a GPU")
def test_a_gpu_that_cannot_be_used_is_noted(place):
    """The file is valid, and the start fails; each device is named once."""
    done = check(place, changed(place, "backend: cpu", "backend: cuda, device: 3"), "--check")
    assert done.returncode == 0 and done.stdout.count("note:") == 1, done
    assert "gpu.backend cuda cannot start on this machine" in done.stdout
    assert re.search(r"note: .*device 3 cannot be used: .*\n  .*, or set gpu.backend to cpu\n", done.stdout), done


def test_a_socket_of_a_live_daemon_is_left_to_it(place):
    with Daemon(place, {"cam0": pipeline({"pixels": "gray", "width": 64, "height": 48})}) as daemon:
        other = place / "other.yaml"
        other.write_text(good(place).replace("status.sock", "status2.sock"))
        with subprocess.Popen([BINARY, "-c", other], stderr=subprocess.PIPE, text=True) as second:
            said = second.stderr.readline()
            second.terminate()
        assert re.search(r"cam0: it waits, .*/cam0\.(out\.)?sock' is in use", said), said
        with daemon.producer(), daemon.reader():  # and the live one still has them
            pass


def test_a_status_socket_of_a_live_daemon_is_refused(place):
    with Daemon(place, {"cam0": pipeline({"pixels": "gray", "width": 64, "height": 48})}) as daemon:
        other = place / "other.yaml"
        other.write_text(good(place).replace("cam0", "cam1"))
        done = run_framed("-c", other)
        assert done.returncode == 78 and "status.sock" in done.stderr, (done.returncode, done.stderr)
        assert daemon.view()["state"] == "running"


def test_sockets_of_a_dead_daemon_are_taken_over(place):
    entry = pipeline({"dtype": "uint8", "shape": [4]})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.process.kill()
        daemon.process.wait()
        assert os.path.exists(daemon.path("cam0", "source"))
        daemon.settled = True
        with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [4]})}) as heir:
            with heir.reader() as reader, heir.producer() as producer:
                producer.send(b"abcd")
                assert reader.read(4) == b"abcd"


def test_the_longest_path_that_fits_works(place):
    path = str(place / "s").ljust(107, "s")
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [4]}, source={"socket": path})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(b"abcd")
            assert reader.read(4) == b"abcd"


def test_a_file_where_a_socket_should_be_is_not_removed(place):
    (place / "cam0.sock").write_text("precious")
    with Daemon(place, {"cam0": pipeline({"pixels": "gray", "width": 64, "height": 48})}) as daemon:
        daemon.wait_view("it waits", lambda view: view["state"] == "waiting")
        assert (place / "cam0.sock").read_text() == "precious"
        (place / "cam0.sock").unlink()


def test_no_permission_is_said_with_the_path(place):
    """As an ordinary user, also where the tests run as root."""
    locked = place / "locked"
    locked.mkdir(mode=0o755)
    file = place / "framed.yaml"
    file.write_text(good(place).replace("cam0.sock", "locked/cam0.sock"))
    os.chmod(place, 0o777)
    before = None
    if os.geteuid() == 0:
        locked.chmod(0o700)
        try:
            subprocess.run([BINARY, "--version"], user=65534, stdout=subprocess.DEVNULL, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            pytest.skip("the binary is out of an ordinary user's reach")
        before = lambda: os.setuid(65534)
    else:
        locked.chmod(0o500)
    with Daemon(place, text=file.read_text(), before=before) as daemon:
        assert daemon.view()["state"] == "waiting"
        assert "locked/cam0.sock" in daemon.log and "ermission denied" in daemon.log, daemon.log


def test_a_read_only_file_system_is_told_from_a_lack_of_permission(place):
    """In the service all folders but its own are read-only, and relative paths are of its root."""
    (place / "framed.yaml").write_text(good(place))
    injection = Injection(place, "bind", at=2, error=errno.EROFS)
    with Daemon(place, text=good(place), env=injection.environment) as daemon:
        assert injection.happened
        assert re.search(r"write /run/framed/(cam0|cam0\.out)\.sock; elsewhere", daemon.log), daemon.log


def test_sockets_have_the_configured_mode(place):
    entry = pipeline({"dtype": "uint8", "shape": [4]}, source={"mode": "0600"}, sink={"mode": "0666"})
    with Daemon(place, {"cam0": entry}) as daemon:
        assert os.stat(daemon.path("cam0", "source")).st_mode & 0o7777 == 0o600
        assert os.stat(daemon.path("cam0", "sink")).st_mode & 0o7777 == 0o666


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_who_is_not_allowed_is_refused_and_told(place):
    """The file mode lets everybody in; `allow` does not. Root always may."""
    os.chmod(place, 0o755)

    def said(path):
        with Client(path) as client:
            return client.rest().decode()

    entry = pipeline({"dtype": "uint8", "shape": [4]}, source={"mode": "0666", "allow": {"users": ["daemon"]}},
                     sink={"mode": "0666", "allow": {"groups": ["daemon"]}})
    with Daemon(place, {"cam0": entry}) as daemon:
        for end in ("source", "sink"):
            assert f"user {NOBODY} may not connect" in as_nobody(said, daemon.path("cam0", end))
        daemon.wait_log(f"'allow' does not name user {NOBODY}")
        assert daemon.view()["refused"] == 2
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(b"abcd")
            assert reader.read(4) == b"abcd"


def test_a_kernel_that_stays_takes_small_frames_of_few_stages(place):
    """Whatever the backend, so that a file that is good here is good where there is a GPU."""
    persistent = changed(place, "slots: 2", "completion: persistent")
    assert check(place, persistent, "--check").returncode == 0
    for text, said in ((persistent.replace("affine: {scale: 2.0, offset: 1.0}", "blur: {sigma: 1}"), "stages[0] (blur) cannot be part"),
                       (persistent.replace("height: 48", "height: 1025"), "frames of 65600 bytes are too large")):
        done = check(place, text, "--check")
        assert done.returncode == 78 and said in done.stderr and "completion: spin" in done.stderr, done.stderr
