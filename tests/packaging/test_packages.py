"""The life of the packages under a real systemd: installed, fed, restarted, killed, upgraded, removed and purged."""

import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess

import pytest

from harness.clients import Reader
from harness.nats import Server
from harness.waiting import Background, wait_until
from service import CONFIG, Service, journal_text, message_ids, systemctl

FRAME = 640 * 480
COUNT = 30
RUN = pathlib.Path("/run/framed")
ADDED = CONFIG.parent / "conf.d/native.yaml"
LINK_EXAMPLE = pathlib.Path("/usr/share/doc/framed-nats/examples/link.yaml")
RECORDING = pathlib.Path("/var/lib/framed/recording")
LINK_CONFIG = CONFIG.parent / "link.yaml"
NAMES = ("framed", "framed-camera", "framed-nats", "libframed0", "libframed-dev", "python3-framed")
PROGRAM = """
import os, framed
print(os.path.dirname(framed.__file__))
with framed.connect("/run/framed/native.sock") as client:
    print([bytes(result.memory) == bytes([255, 254, 253, 252]) for result in client.process([bytes(range(4))] * 20)])
"""
PACKAGES = pathlib.Path(os.environ["FRAMED_PACKAGES"])


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}\n{journal_text()}"
    return done.stdout


def package(name):
    found = list(PACKAGES.glob(f"{name}_*.deb"))
    assert len(found) == 1, f"{name} in {PACKAGES}: {found}"
    return found[0]


def repacked(name, version, place):
    """Repacks the package with another version."""
    run("dpkg-deb", "-R", str(package(name)), str(place / "tree"))
    control = place / "tree/DEBIAN/control"
    lines = [f"Version: {version}" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    run("dpkg-deb", "-b", str(place / "tree"), str(place / "second.deb"))
    return place / "second.deb"


def frames(service):
    return service.status()["pipelines"]["cam0"]["frames"]


def feed(service):
    """ffmpeg sends a test picture to the pipeline of the packaged configuration, and a reader receives the result."""
    before, shown = frames(service), None
    with Reader(RUN / "cam0.out.sock") as reader:
        wait_until(lambda: service.status()["pipelines"]["cam0"]["readers"], "the reader is seen")
        reading = Background(reader.rest)
        run("ffmpeg", "-v", "error", "-nostdin", "-re", "-f", "lavfi", "-i", "testsrc2=size=640x480:rate=60", "-frames:v", str(COUNT),
            "-pix_fmt", "gray", "-f", "rawvideo", f"unix:{RUN}/cam0.sock")
        wait_until(lambda: frames(service)["in_flight"] == 0 and frames(service)["in"] == before["in"] + COUNT,
                   lambda: f"all frames came and went: {frames(service)}")
        after = frames(service)
        reader.socket.shutdown(socket.SHUT_RDWR)
        shown = reading.join()
    assert after["in"] == after["emitted"] + sum(after["dropped"].values())
    assert after["dropped"]["invalid"] == 0
    assert len(shown) == (after["emitted"] - before["emitted"]) * FRAME > 0
    assert set(shown) <= {0, 255}, "motion gives a mask"


def check_installed(service):
    service.wait_for("ActiveState", "active")
    assert service.show("UnitFileState") == "enabled"
    assert pwd.getpwuid(pathlib.Path(f"/proc/{service.pid}").stat().st_uid).pw_name == "framed"
    assert "Seccomp:\t2" in pathlib.Path(f"/proc/{service.pid}/status").read_text()
    assert "cam0" in run("framectl", "status")
    entry = f"MESSAGE_ID={message_ids()['STARTED']}"
    assert "Subject: The daemon is ready" in run("journalctl", "--no-pager", "-x", entry), "the catalogue is not in the journal's"
    assert run("dpkg", "--verify", *NAMES) == ""


def check_library(place):
    """A program is built with what libframed-dev installed, and finds the library."""
    example = "/usr/share/doc/libframed-dev/examples/example.c"
    flags = run("pkg-config", "--cflags", "--libs", "framed").split()
    run("cc", "-o", str(place / "example"), example, *flags)
    assert "libframed.so.0 => /" in run("ldd", str(place / "example"))


def check_clients(service, place):
    """Both libraries, out of their packages, with the daemon."""
    format = {"dtype": "uint8", "shape": [4]}
    added = {"source": {"socket": f"{RUN}/native.sock", "protocol": "native", "format": format},
             "stages": [{"affine": {"scale": -1, "offset": 255}}], "sink": {"reply": True}}
    ADDED.write_text(json.dumps({"pipelines": {"native": added}}))
    systemctl("reload", "framed.service")
    wait_until((RUN / "native.sock").is_socket, "the pipeline of the reload is there")
    program = place / "program.py"
    program.write_text(PROGRAM)
    there, results = run("/usr/bin/python3", str(program), cwd="/").splitlines()
    assert there == "/usr/lib/python3/dist-packages/framed"
    assert json.loads(results.lower()) == [True] * 20
    assert len(run(str(place / "example"), str(RUN / "native.sock")).splitlines()) == 101
    assert run("/usr/bin/python3", "-c", "import importlib.metadata as m, framed; print(m.version('framed') == framed.__version__)",
               cwd="/") == "True\n"
    ADDED.unlink()
    systemctl("reload", "framed.service")
    wait_until(lambda: not (RUN / "native.sock").exists(), "the pipeline of the reload is gone")


def check_link(service, place):
    """framed-link is the user's to start, and then carries frames from a queue to the daemon and their results to a stream."""
    assert systemctl("is-enabled", "framed-link", check=False).stdout == "disabled\n"
    added = {"source": {"socket": f"{RUN}/archive.sock", "protocol": "native", "format": {"dtype": "uint8", "shape": [4]}},
             "overload": "block", "sink": {"socket": f"{RUN}/archive.out.sock", "protocol": "native", "overload": "block"}}
    ADDED.write_text(json.dumps({"pipelines": {"archive": added}}))
    systemctl("reload", "framed.service")
    with Server(place) as server, server.client() as nats:
        LINK_CONFIG.write_text(LINK_EXAMPLE.read_text().replace("nats://127.0.0.1:4222", server.url))
        run("framed-link", "--check")
        systemctl("enable", "--now", "framed-link")
        wait_until(lambda: has_stream(nats), lambda: f"framed-link makes the queue\n{link_journal()}")
        for number in range(10):
            nats.put("frames.archive", bytes([number] * 4))
        wait_until(lambda: nats.stored("RESULTS") == 10, lambda: f"results are stored\n{link_journal()}")
        assert [message.data for message in nats.messages("RESULTS", 10)] == [bytes([number] * 4) for number in range(10)]
        systemctl("disable", "--now", "framed-link")
    ADDED.unlink()
    systemctl("reload", "framed.service")


def has_stream(nats):
    return "FRAMES" in (nats.ask("STREAM.NAMES")["streams"] or [])


def link_journal():
    return run("journalctl", "--no-pager", "-u", "framed-link", "-n", "20")


def check_completions():
    shown = run("bash", "-c", ". /usr/share/bash-completion/completions/framectl; COMP_WORDS=(framectl dra); COMP_CWORD=1; "
                "_framectl; echo ${COMPREPLY[*]}")
    assert shown.split() == ["drain"]


def killed(service):
    first, restarts = service.pid, int(service.show("NRestarts"))
    os.kill(first, signal.SIGKILL)
    service.wait_for("NRestarts", str(restarts + 1))
    service.wait_for("ActiveState", "active")
    assert service.pid != first


def upgraded(service, place):
    with CONFIG.open("a") as file:
        file.write("# mine\n")
    first = service.pid
    run("dpkg", "-i", str(repacked("framed", "9:9.9", place)))
    assert run("dpkg-query", "-W", "-f", "${Version} ${Status}", "framed") == "9:9.9 install ok installed"
    service.wait_for("ActiveState", "active")
    assert service.pid != first, "the old program runs on"
    assert CONFIG.read_text().endswith("# mine\n"), "a changed configuration was overwritten"


def held_by_systemd(service):
    """As framed(8) says it: systemd refuses sockets of a service that runs."""
    systemctl("stop", "framed.service")
    systemctl("enable", "--now", "framed@cam0.socket", "framed@cam0.out.socket")
    systemctl("start", "framed.service")
    assert "framed.service" in run("systemctl", "show", "-P", "Triggers", "framed@cam0.socket")
    feed(service)


def removed(service):
    run("dpkg", "-r", "framed-camera", "framed-nats", "framed")
    assert service.show("LoadState") in ("not-found", "masked")
    assert service.show("ActiveState") == "inactive"
    assert not RUN.exists(), list(RUN.iterdir())
    assert not pathlib.Path("/usr/bin/framed").exists()
    assert CONFIG.read_text().endswith("# mine\n"), "the configuration went before it was purged"


def purged():
    LINK_CONFIG.unlink()
    run("dpkg", "-P", "framed-camera", "framed-nats", "framed")
    for gone in ("/etc/framed", "/var/cache/framed", "/run/framed", "/usr/share/framed"):
        assert not pathlib.Path(gone).exists(), gone
    left = [path for path in pathlib.Path("/etc/systemd/system").rglob("framed*")]
    assert left == [], f"enabled units are left: {left}"
    assert RECORDING.read_text() == "kept", "a recording was purged"
    run("dpkg", "-P", "python3-framed", "libframed-dev", "libframed0")
    assert run("dpkg", "--audit") == ""


@pytest.fixture
def place(tmp_path):
    return tmp_path


def test_life_of_the_packages(place):
    service = Service()
    installed = [str(package(name)) for name in NAMES]
    run("dpkg", "-i", *installed)
    check_installed(service)
    check_library(place)
    check_completions()
    check_clients(service, place)
    feed(service)
    check_link(service, place)
    systemctl("restart", "framed.service")
    feed(service)
    killed(service)
    feed(service)
    upgraded(service, place)
    feed(service)
    held_by_systemd(service)
    RECORDING.write_text("kept")
    removed(service)
    purged()


def test_the_packages_say_what_they_are():
    for name in NAMES:
        fields = run("dpkg-deb", "-f", str(package(name)))
        assert json.dumps(name)[1:-1] in fields
        assert "${" not in fields, "a variable was not filled in"
        assert ("libnats" in fields) == (name == "framed-nats"), fields
        assert ("libavformat" in fields) == (name == "framed-camera"), fields
