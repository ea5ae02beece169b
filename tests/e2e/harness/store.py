"""A service manager with a descriptor store, as far as the daemon can see one: what it is given outlives the daemon."""

import ctypes
import fcntl
import os
import platform
import signal
import socket
import sys
import threading
import time

from harness.daemon import BINARY, Daemon
from harness.waiting import limit, thread_states

FIRST = 3  # number of the first descriptor that is passed
LOWEST = 200  # above all numbers that are

# What a manager does between fork and exec.
PROGRAM = f"""#!{sys.executable} -SsE
import os, sys
for number, descriptor in enumerate(os.environ.pop("MOVED", "").split(","), {FIRST}):
    if descriptor:
        os.dup2(int(descriptor), number)
        os.close(int(descriptor))
os.environ["LISTEN_PID"] = str(os.getpid())
if "MANAGED_PRELOAD" in os.environ:
    os.environ["LD_PRELOAD"] = os.environ.pop("MANAGED_PRELOAD")
os.execv("{BINARY}", ["{BINARY}", *sys.argv[1:]])
"""


class Store:
    """`program` runs the daemon with everything that lies there; kill() ends one without a word and starts the next. A manager
    that has much to do takes `pace` seconds for each message."""

    def __init__(self, place, room=200, pace=0):
        self.pace = pace
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(place / "notify"))
        self.environment = {"NOTIFY_SOCKET": str(place / "notify"), "FDSTORE": str(room)}
        self.room, self.lost = room, 0
        self.ready = False  # whether the latest process has said so
        self.kept = []  # (name, descriptor)
        self.answered = threading.Event()
        self.program = place / "managed"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.tell(b"end")
        self.thread.join(limit(10))
        self.socket.close()
        self.clear()

    def tell(self, word):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(word, self.environment["NOTIFY_SOCKET"])

    def clear(self):
        for _, descriptor in self.kept:
            os.close(descriptor)
        self.kept.clear()

    # -- what it hears -------------------------------------------------------------------------------------------------

    def run(self):
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 16)
            if data == b"end":
                return
            time.sleep(self.pace)
            if data == b"heard?":
                self.answered.set()
                continue
            self.hear(dict(line.split("=", 1) for line in data.decode().splitlines()), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def hear(self, said, descriptors):
        name = said.get("FDNAME")
        self.ready |= said.get("READY") == "1"
        if "FDSTOREREMOVE" in said:
            for kept in [kept for kept in self.kept if kept[0] == name]:
                self.kept.remove(kept)
                os.close(kept[1])
        elif "FDSTORE" in said and len(self.kept) >= self.room:
            self.lost += 1
        elif "FDSTORE" in said and not any(same(kept, descriptors[0]) for _, kept in self.kept):
            self.kept.append((name, copy(descriptors[0])))

    def noted(self):
        """The images there in which a state stands from which another process can go on."""
        return [image for image in self.named("framed-image-") if is_of_use(image)]

    def heard(self):
        """Everything that was said until now."""
        self.answered.clear()
        self.tell(b"heard?")
        assert self.answered.wait(limit(10))

    @property
    def names(self):
        return {name for name, _ in self.kept}

    def named(self, prefix):
        return [descriptor for name, descriptor in self.kept if name.startswith(prefix)]

    # -- what it does --------------------------------------------------------------------------------------------------

    def pass_on(self, daemon):
        """What lies there goes to the next process, which has to take it away by itself."""
        kept = list(self.kept)
        self.ready = False
        daemon.options["pass_fds"] = [descriptor for _, descriptor in kept]
        daemon.options["env"].update(LISTEN_FDS=str(len(kept)), LISTEN_FDNAMES=":".join(name for name, _ in kept),
                                     MOVED=",".join(str(descriptor) for _, descriptor in kept))

    def start(self, daemon):
        self.pass_on(daemon)
        daemon.start()

    def arm(self, daemon, injection=None):
        """What is to befall the next process, and no other one; None: nothing."""
        env = daemon.options["env"]
        for name in [name for name in env if name.startswith("FAIL_") or name == "MANAGED_PRELOAD"]:
            del env[name]
        if injection:
            given = dict(injection.environment)
            given["MANAGED_PRELOAD"] = given.pop("LD_PRELOAD")
            env.update(given)

    def end(self, daemon):
        daemon.signal(signal.SIGKILL)
        daemon.process.wait(limit(10))
        self.heard()

    def kill(self, daemon):
        self.end(daemon)
        self.start(daemon)
        daemon.wait_ready()


# -- what stands in an image --------------------------------------------------------------------------------------------

PAGE = 4096
STATE, USE = PAGE + 24, PAGE + 40  # where the address of the state is, and of what use that is: 0 of none
BASE, DISOWNED = 32, 48
HEAD = 64  # what stands before a record


def place_of(image, where):
    """Where that record lies; 0: there is none."""
    address, base = (int.from_bytes(os.pread(image, 8, at), "little") for at in (where, BASE))
    return address and address - base - HEAD


def is_of_use(image):
    return os.pread(image, 1, USE) != bytes(1)


def written_pages(image):
    """Where there is something; all of its size is much more."""
    at, end = 0, os.fstat(image).st_size
    while at < end:
        try:
            at = os.lseek(image, at, os.SEEK_DATA)
        except OSError:
            return
        hole = os.lseek(image, at, os.SEEK_HOLE)
        yield from range(at, hole, PAGE)
        at = hole


def disown(image):
    """As its process does which fails by itself."""
    os.pwrite(image, b"\1", DISOWNED)


def be_of_another_version(image):
    os.pwrite(image, b"0.1", 0)


def copy(descriptor):
    """Another one, with a number that a store may have."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, LOWEST)


def same(one, other):
    """Whether both are of one open file, as a manager asks the kernel (kcmp, KCMP_FILE); without an answer, of one file at all."""
    first, second = os.fstat(one), os.fstat(other)
    if (first.st_dev, first.st_ino) != (second.st_dev, second.st_ino):
        return False
    call = {"x86_64": 312, "aarch64": 272}.get(platform.machine())
    order = ctypes.CDLL(None).syscall(call, os.getpid(), os.getpid(), 0, one, other) if call else -1
    return order <= 0


# -- a daemon with one ----------------------------------------------------------------------------------------------------


def start(place, store, pipelines, **keys):
    daemon = Daemon(place, pipelines, env=store.environment, binary=store.program, **keys)
    daemon.leaves_sockets = True
    return daemon


def leave(store, daemon, orderly):
    """The process ends, with or without a word."""
    if orderly:
        store.heard()
        daemon.signal(signal.SIGTERM)
        assert daemon.process.wait(limit(20)) == 0, daemon.log
        store.heard()
    else:
        store.end(daemon)


def connections(daemon):
    return daemon.status()["handovers"]["connections_lost"]


def settle(daemon):
    """The daemon has done what there is to do, and so has who talks to it from here: for a while no thread was ready to run,
    which on a machine with no processor to spare is more than having used no time. What polls is not waited for."""
    asleep = 0
    for _ in range(int(limit(150))):  # and no time: in one in which nobody had a processor nothing was done either
        asleep = asleep + 1 if thread_states(daemon.process.pid, os.getpid()) == {"S"} else 0
        if asleep == 6:
            return
        time.sleep(0.02)
