"""The installed service under a real systemd. Everything here goes through systemctl, sockets and the journal."""

import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

from harness.clients import Producer, Reader
from harness.waiting import Background, wait_until
from service import CONFIG, message_ids, systemctl

FRAMES = np.arange(50 * 64, dtype=np.uint32).astype(np.uint8).reshape(50, 64)


def pipeline(name, **keys):
    return {
        "source": {"socket": f"/run/framed/{name}.sock", "format": {"dtype": "uint8", "shape": [64]}},
        "stages": [{"affine": {"scale": -1, "offset": 255}}],
        "sink": {"socket": f"/run/framed/{name}.out.sock", "overload": "block"},
        **keys,
    }


def send_through(name, frames=FRAMES):
    with Reader(f"/run/framed/{name}.out.sock") as reader, Producer(f"/run/framed/{name}.sock") as producer:
        sending = Background(producer.send, frames.tobytes())
        np.testing.assert_array_equal(reader.frames(len(frames), (64,)), 255 - frames)
        sending.join()


def test_start_returns_when_frames_can_come(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    send_through("cam0")
    assert service.show("ActiveState") == "active"
    assert service.show("StatusText") != ""
    owner = pathlib.Path(f"/proc/{service.pid}").stat().st_uid
    assert owner != 0, "the daemon runs as root"


def test_journal_entries_have_ids_levels_and_fields(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    entry = service.wait_entry("STARTED", service.pid)
    assert entry["PRIORITY"] == "6"
    assert entry["FRAMED_KIND"] == "STARTED"
    assert entry["SYSLOG_IDENTIFIER"] == "framed"
    with Producer("/run/framed/cam0.sock") as producer:
        producer.send(bytes(10))
        producer.finish()
        entry = service.wait_entry("TRUNCATED", service.pid)
    assert entry["FRAMED_PIPELINE"] == "cam0"
    assert entry["PRIORITY"] == "4"
    assert len(set(message_ids().values())) == len(message_ids())


def test_the_journal_explains_entries(service):
    subprocess.run(["journalctl", "--update-catalog"], check=True)
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    service.wait_entry("STARTED", service.pid)
    told = subprocess.run(["journalctl", "--no-pager", "-x", f"MESSAGE_ID={message_ids()['STARTED']}"], capture_output=True,
                          text=True, check=True).stdout
    assert "Subject: The daemon is ready" in told
    assert "Documentation: man:framed(8)" in told


def test_sockets_of_systemd_are_served_by_name(service):
    service.configure({"cam0": pipeline("cam0")})
    for name in ("cam0", "cam0.out"):
        service.listen(name)
    assert service.show("ActiveState") == "inactive"
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        sending = Background(producer.send, FRAMES.tobytes())  # connecting alone has started the service
        np.testing.assert_array_equal(reader.frames(len(FRAMES), (64,)), 255 - FRAMES)
        sending.join()
    assert service.show("ActiveState") == "active"
    systemctl("restart", "framed.service")
    send_through("cam0")
    systemctl("stop", "framed.service")
    assert pathlib.Path("/run/framed/cam0.sock").is_socket(), "a socket that is systemd's went with the service"


def test_status_socket_of_systemd_starts_the_service(service):
    service.configure({"cam0": pipeline("cam0")})
    service.listen("status")
    assert service.status()["pipelines"]["cam0"]["state"] == "running"
    assert service.show("ActiveState") == "active"


def test_reload_puts_a_valid_file_into_force(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    pid = service.pid
    with Producer("/run/framed/cam0.sock") as producer, Reader("/run/framed/cam0.out.sock") as reader:
        service.configure({"cam0": pipeline("cam0"), "cam1": pipeline("cam1")})
        systemctl("reload", "framed.service")
        service.wait_entry("RELOADED", pid)
        wait_until(lambda: "cam1" in service.status()["pipelines"], "cam1 is there")
        producer.send(FRAMES.tobytes())  # the connection of the unchanged pipeline still works
        np.testing.assert_array_equal(reader.frames(len(FRAMES), (64,)), 255 - FRAMES)
    send_through("cam1")
    service.wait_for("ActiveState", "active")
    assert service.pid == pid


def test_reload_with_an_invalid_file_changes_nothing(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    pid = service.pid
    service.configure({"cam0": pipeline("cam0", sauce=1)})
    told = subprocess.run(["systemctl", "reload", "framed.service"], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode != 0, told
    entry = service.wait_entry("RELOAD_REFUSED", pid)
    assert entry["PRIORITY"] == "3"
    assert "sauce" in entry["MESSAGE"]
    service.wait_for("ActiveState", "active")
    assert service.pid == pid
    send_through("cam0")


def test_reload_fails_where_a_key_cannot_change(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    pid = service.pid
    service.configure({"cam0": pipeline("cam0")}, lanes=7)
    told = subprocess.run(["systemctl", "reload", "framed.service"], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode != 0, told
    assert "these keys cannot change while the daemon runs: lanes" in service.wait_entry("RELOAD_REFUSED", pid)["MESSAGE"]
    assert service.pid == pid
    send_through("cam0")


def test_check_names_paths_that_the_service_cannot_use(service):
    service.configure({"cam0": pipeline("cam0") | {"sink": {"file": "/srv/out.raw"}}}, status={"socket": "/tmp/status.sock"})
    done = subprocess.run(["framed", "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert "note: framed.service cannot use '/srv/out.raw'" in done.stdout and "ReadWritePaths=" in done.stdout, done
    assert "note: framed.service cannot use '/tmp/status.sock'" in done.stdout and "PrivateTmp=" in done.stdout, done
    assert "cannot use '/run/framed" not in done.stdout, done
    service.drop_in("[Service]\nReadWritePaths=/srv\n")
    done = subprocess.run(["framed", "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert "/srv/out.raw'" not in done.stdout, done


def test_a_stopped_process_is_replaced_by_the_watchdog(service):
    service.drop_in("[Service]\nWatchdogSec=5s\nLimitCORE=0\n")
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    first = service.pid
    for _ in range(4):  # idle is healthy: the watchdog is fed, over more than one interval
        service.wait_change("WatchdogTimestampMonotonic")
    assert service.pid == first
    os.kill(first, signal.SIGSTOP)
    service.wait_for("NRestarts", "1")
    service.wait_for("ActiveState", "active")
    assert service.pid != first
    send_through("cam0")


def test_stop_under_load_finishes_whole_frames(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    pid = service.pid

    def send_until_closed(producer):
        try:
            while True:
                producer.send(FRAMES.tobytes())
        except (BrokenPipeError, ConnectionResetError):
            return

    with Producer("/run/framed/cam0.sock") as producer, Reader("/run/framed/cam0.out.sock") as reader:
        sending = Background(send_until_closed, producer)
        reader.frames(1000, (64,))
        stopping = Background(systemctl, "stop", "framed.service")
        rest = reader.rest()
        stopping.join()
        sending.join()
    assert len(rest) % 64 == 0, "the last result is torn"
    assert service.show("Result") == "success"
    assert service.show("ExecMainStatus") == "0"
    service.wait_entry("STOPPED", pid)
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        service.status()


def test_a_killed_daemon_comes_back(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    first = service.pid
    os.kill(first, signal.SIGKILL)
    service.wait_for("NRestarts", "1")
    service.wait_for("ActiveState", "active")
    assert service.pid != first
    send_through("cam0")


def test_a_wrong_configuration_is_not_tried_again(service):
    CONFIG.write_text("pipelines: 7\n")
    assert systemctl("start", "framed.service", check=False).returncode != 0
    assert service.show("ActiveState") == "failed"
    assert service.show("ExecMainStatus") == "78"
    assert service.show("NRestarts") == "0"


def test_no_gpu_where_one_is_demanded_is_not_tried_again(service):
    service.configure({"cam0": pipeline("cam0")}, gpu={"backend": "cuda"})
    service.drop_in("[Service]\nEnvironment=CUDA_VISIBLE_DEVICES=\n")
    assert systemctl("start", "framed.service", check=False).returncode != 0
    assert service.show("ExecMainStatus") == "69"
    assert service.show("NRestarts") == "0"
