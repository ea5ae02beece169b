"""framed.service of the systemd that these tests run in: what systemctl, the journal and the status socket say."""

import http.client
import json
import pathlib
import re
import shutil
import subprocess

from harness.daemon import UnixConnection
from harness.waiting import wait_until

UNITS = pathlib.Path("/run/framed-units")
CONFIG = pathlib.Path("/etc/framed/framed.yaml")
STATUS = "/run/framed/status.sock"
KINDS = pathlib.Path(__file__).parents[2] / "daemon/base/log_kinds.def"


def message_ids():
    """MESSAGE_ID of each kind of log entry, from the daemon's own table."""
    return dict(re.findall(r'^X\((\w+),[^"]*"([0-9a-f]{32})"', KINDS.read_text(), re.MULTILINE))


def systemctl(*arguments, check=True):
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"systemctl {' '.join(arguments)}: {done.returncode}\n{done.stderr}\n{journal_text()}")
    return done


def journal_text():
    return subprocess.run(["journalctl", "--no-pager", "-u", "framed", "-n", "60"], capture_output=True, text=True,
                          check=False).stdout


class Service:
    def __init__(self):
        self.sockets = []

    # -- its files -------------------------------------------------------------------------------------------------

    def configure(self, pipelines, **keys):
        """`pipelines` as in framed.yaml; JSON is YAML."""
        CONFIG.write_text(json.dumps({"gpu": {"backend": "cpu"}, **keys, "pipelines": pipelines}))

    def drop_in(self, text):
        folder = UNITS / "framed.service.d"
        folder.mkdir(exist_ok=True)
        (folder / "test.conf").write_text(text)
        systemctl("daemon-reload")

    def listen(self, name):
        """Lets systemd hold a socket for the daemon."""
        unit = f"framed@{name}.socket"
        systemctl("start", unit)
        self.sockets.append(unit)

    def reset(self):
        systemctl("stop", *self.sockets, "framed.service", check=False)
        shutil.rmtree(UNITS / "framed.service.d", ignore_errors=True)
        systemctl("daemon-reload")
        systemctl("reset-failed", check=False)

    # -- what systemd says of it -------------------------------------------------------------------------------------

    def show(self, name):
        return systemctl("show", "-P", name, "framed.service").stdout.strip()

    @property
    def pid(self):
        return int(self.show("MainPID"))

    def wait_for(self, name, value, seconds=20):
        wait_until(lambda: self.show(name) == value,
                   lambda: f"{name} is {value!r} (it is {self.show(name)!r})\n{journal_text()}", seconds)

    def wait_change(self, name, seconds=20):
        before = self.show(name)
        wait_until(lambda: self.show(name) != before, lambda: f"{name} changes from {before}\n{journal_text()}", seconds)

    def start(self):
        systemctl("start", "framed.service")

    def entries(self, kind, since_pid=None):
        """Journal entries of one kind, as dictionaries."""
        pattern = [f"MESSAGE_ID={message_ids()[kind]}"] + ([f"_PID={since_pid}"] if since_pid else [])
        subprocess.run(["journalctl", "--sync"], check=True)
        lines = subprocess.run(["journalctl", "--no-pager", "-o", "json", *pattern], capture_output=True, text=True,
                               check=True).stdout
        return [json.loads(line) for line in lines.splitlines()]

    def wait_entry(self, kind, pid=None, seconds=20):
        found = wait_until(lambda: self.entries(kind, pid), lambda: f"an entry {kind}\n{journal_text()}", seconds)
        return found[-1]

    # -- what it says of itself ----------------------------------------------------------------------------------------

    def status(self):
        """Asked again if the daemon executes itself over the question."""
        for _ in range(5):
            connection = UnixConnection(STATUS)
            try:
                connection.request("GET", "/v1/status")
                return json.loads(connection.getresponse().read())
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                pass
            finally:
                connection.close()
        raise AssertionError(f"no answer to five questions\n{journal_text()}")
