#!/usr/bin/python3
"""Takes over from framed like a program that is installed for an upgrade, and shows framed states that make no sense.

Each is a copy of the image that was handed over to this program, changed at a few places; in every second case of the state
in it. A framed
of its own takes it, with all the descriptors, and must end as it is asked to: with the state or without it. What any other one did
goes to the file OUTCOME, as JSON; `changes` there is what the environment's FRAMED_MUTATE asks for ("first:count").
"""

import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

NUMBERS = [0, 1, 2, 7, 16, 64, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 2**64 - 1]
SLOW = float(os.environ.get("FRAMED_SLOW", "1"))


def descriptors():
    """Those that this process has, which are those that were handed over."""
    return [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and os.path.exists(f"/proc/self/fd/{fd}")]


def mutated(tape, chance, end):
    """One to three places are changed; what stands from `end` on, the configuration's text, seldom."""
    tape = bytearray(tape)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        last = len(tape) if chance.random() < 0.02 else end
        at = chance.randrange(last)
        kind = chance.randrange(6)
        if kind == 0:
            tape[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            tape[at] = chance.randrange(256)
        elif kind == 2:
            tape[at:at + 4] = struct.pack("<I", chance.choice(NUMBERS) & 0xFFFFFFFF)[:len(tape) - at]
        elif kind == 3:
            tape[at:at + 8] = struct.pack("<Q", chance.choice(NUMBERS))[:len(tape) - at]
        elif kind == 4:
            del tape[at:at + chance.choice([1, 4, 8, 64])]
        else:
            other = chance.randrange(end)
            length = chance.choice([1, 4, 8, 16])
            tape[at:at + length] = tape[other:other + length]
    return bytes(tape)


class Image:
    """The memory in which the daemon worked, and the state in it; the number of its descriptor stays."""

    PAGE = 4096
    BASE = 32  # where it says at which address its process had it
    STATE = PAGE + 24  # and where the state is; its record says before it how long that is
    HEAD = 64

    def __init__(self, given):
        self.fd = int(given)
        self.size = os.fstat(self.fd).st_size
        pages = [(at, os.pread(self.fd, self.PAGE, at)) for at in self.written()]
        self.pages = [(at, page) for at, page in pages if page.strip(b"\0")]
        there = descriptors()
        self.numbers = [at + word for at, page in self.pages[1:] for word in range(0, self.PAGE, 4)
                        if int.from_bytes(page[word:word + 4], "little") in there]
        address, base = (int.from_bytes(os.pread(self.fd, 8, at), "little") for at in (self.STATE, self.BASE))
        self.at = address - base
        self.tape = os.pread(self.fd, int.from_bytes(os.pread(self.fd, 8, self.at - self.HEAD + 8), "little"), self.at)

    def written(self):
        at = 0
        while True:
            try:
                at = os.lseek(self.fd, at, os.SEEK_DATA)
            except OSError:
                return
            hole = os.lseek(self.fd, at, os.SEEK_HOLE)
            yield from range(at, hole, self.PAGE)
            at = hole

    def write(self, tape):
        os.pwrite(self.fd, struct.pack("<Q", len(tape)), self.at - self.HEAD + 8)
        os.pwrite(self.fd, tape, self.at)

    def show(self, chance):
        """From now on a copy is there, in which one to eight places are changed where there is something."""
        copy = os.memfd_create("framed:image")
        os.truncate(copy, self.size)
        for at, page in self.pages:
            os.pwrite(copy, page, at)
        for _ in range(chance.choice([0, 1, 1, 2, 8]) if chance else 0):
            at, page = chance.choice(self.pages[1:])
            written = [place for place in range(0, self.PAGE, 8) if page[place:place + 8].strip(b"\0")]
            at += chance.choice(written) + chance.choice([0, 4, chance.randrange(8)])
            number = chance.choice([chance.choice(NUMBERS), chance.randrange(1 << 64), 1 << chance.randrange(64)])
            os.pwrite(copy, struct.pack("<Q", number)[:chance.choice([1, 4, 8])], at)
        if chance and chance.random() < 0.3:  # what looks like a descriptor becomes another, or one that the next process opens
            os.pwrite(copy, struct.pack("<I", chance.randrange(3, max(descriptors()) + 20)), chance.choice(self.numbers))
        os.dup2(copy, self.fd)
        os.close(copy)


def stacks(pid):
    """Where its threads are, as well as can be said."""
    said = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/syscall", encoding="ascii") as file:
            said.append(f"thread {task}: system call {file.read()}")
    if shutil.which("gdb"):
        command = ["timeout", str(60 * SLOW), "gdb", "-p", str(pid), "-nx", "-batch", "-iex", "set debuginfod enabled off",
                   "-ex", "thread apply all bt 16"]
        said.append(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout)
    return "".join(said)


def try_one(program, arguments, number):
    log = os.memfd_create("log")
    kept = [other for other in descriptors() if other != log]
    process = subprocess.Popen([program, *arguments], pass_fds=kept, stderr=log, start_new_session=True)
    end, asked, outcome = time.monotonic() + 20 * SLOW, False, None
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
        said = os.pread(log, 1 << 20, 0)
        if not asked and (b"everything goes on" in said or b"is ready" in said):
            time.sleep(0.02 * SLOW)
            process.send_signal(signal.SIGTERM)
            asked = True
    where = ""
    if process.poll() is None:
        outcome = "hang"
        where = stacks(process.pid)
        process.send_signal(signal.SIGABRT)
    status = process.wait()
    said = os.pread(log, 1 << 20, 0).decode(errors="replace")
    os.close(log)
    if outcome is None and status not in (0, 78):
        outcome = f"status {status}"
    return outcome and {"number": number, "outcome": outcome, "log": said[-6000:] + where}, "everything goes on" in said


def main():
    if "--check" in sys.argv:
        print("takes over states of version", sys.argv[sys.argv.index("--state") + 1])
        return 0
    image, outcome = Image(os.environ["FRAMED_STATE"]), {"tried": 0, "taken": 0, "wrong": []}
    end = image.tape[:-1].rfind(b"\0") + 1
    first, count = map(int, os.environ["FRAMED_MUTATE"].split(":"))
    for number in range(first, first + count):
        chance = random.Random(number) if number > 0 else None
        image.show(chance if number % 2 == 1 else None)
        if number > 0 and number % 2 == 0:
            image.write(mutated(image.tape, chance, end))
        wrong, taken = try_one(os.environ["FRAMED_MUTATED"], sys.argv[1:], number)
        outcome["tried"] += 1
        outcome["taken"] += taken
        outcome["wrong"] += [wrong] if wrong else []
        if len(outcome["wrong"]) >= 5:
            break
    with open(os.environ["FRAMED_OUTCOME"], "w") as file:
        json.dump(outcome, file)
    return 0


sys.exit(main())
