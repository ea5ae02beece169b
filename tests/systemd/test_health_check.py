"""The example of a health check: a timer runs it, and the unit of OnFailure= reports the reasons of a degraded pipeline."""

import pathlib
import subprocess

from harness.clients import Producer
from harness.waiting import wait_until
from service import UNITS, systemctl
from test_service import FRAMES, pipeline

EXAMPLES = pathlib.Path("/usr/share/doc/framed/examples")


def told():
    subprocess.run(["journalctl", "--sync"], check=True)
    return subprocess.run(["journalctl", "--no-pager", "-t", "framed-unhealthy", "-p", "alert", "-o", "cat"], capture_output=True,
                          text=True, check=True).stdout


def test_the_example_tells_why_a_pipeline_does_not_do_its_job(service):
    for name in ("framed-health.service", "framed-health.timer", "framed-unhealthy.service"):
        unit = (EXAMPLES / name).read_text()
        (UNITS / name).write_text(unit.replace("1min", "1s"))
    entry = pipeline("cam0")
    entry["source"]["expect"] = "1s"
    entry["sink"] = {"file": "/run/framed/cam0.raw"}
    service.configure({"cam0": entry})
    service.start()
    with Producer("/run/framed/cam0.sock") as producer:
        producer.send(FRAMES.tobytes())
        systemctl("start", "framed-health.service")  # which is what the timer does; all is well
        assert told() == ""
        systemctl("daemon-reload")
        systemctl("start", "framed-health.timer")
        try:
            wait_until(lambda: "cam0: silent" in told(), lambda: f"the example tells: {told()}", 30)
        finally:
            systemctl("stop", "framed-health.timer")
    assert told().startswith("degraded\n")
