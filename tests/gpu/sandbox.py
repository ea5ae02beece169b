#!/usr/bin/env python3
"""Runs a command as a unit file says, without systemd: its limits, user, capabilities, mounts and system-call filter.

    sandbox.py --unit UNIT [--writable FOLDER]... [--visible FOLDER]... [--set DIRECTIVE=VALUE]... -- COMMAND...
    sandbox.py --save FILE

The first form replaces itself by COMMAND. FOLDERs that are writable stand for the unit's runtime, state and cache
directories; those that are visible are shown where the unit hides what is around them. What the machine does not let
it do (mounts need privileges) is said on standard error, one line each; without the filter nothing is started. The
second form saves the sets of system calls with their numbers, which it else asks systemd-analyze and the compiler for.
"""

import argparse
import ctypes
import errno
import glob
import json
import os
import pathlib
import platform
import pwd
import resource
import socket
import stat
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
SAVED = pathlib.Path(__file__).with_name("system-calls.json")
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# -- the unit ---------------------------------------------------------------------------------------------------------


def read_unit(path, overrides):
    """The directives of [Service], each with its values; an empty one forgets those before it, as systemd does."""
    directives, section = {}, ""
    for line in [*pathlib.Path(path).read_text().splitlines(), "[Service]", *overrides]:
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith(("#", ";")):
            name, value = line.split("=", 1)
            directives[name] = [*directives.get(name, []), value.strip()] if value.strip() else []
    return directives


def words(directives, name):
    return " ".join(directives.get(name, [])).split()


def is_on(directives, name):
    return directives.get(name, ["no"])[-1:] == ["yes"]


# -- system calls and their numbers -----------------------------------------------------------------------------------


def ask_system_calls():
    sets, current = {}, None
    listing = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        if line.startswith("@"):
            current = sets.setdefault(line.strip(), [])
        elif current is not None and line.startswith(" ") and not line.strip().startswith("#"):
            current.append(line.strip())
    macros = subprocess.run(["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"], capture_output=True,
                            text=True, check=True).stdout
    defined = (line.split() for line in macros.splitlines() if line.startswith("#define __NR_"))
    numbers = {part[1][len("__NR_"):]: int(part[2]) for part in defined if len(part) == 3 and part[2].isdigit()}
    return {"machine": platform.machine(), "sets": sets, "numbers": numbers}


def expand(names, sets):
    for name in names:
        if name.startswith("@"):
            yield from expand(sets[name], sets)
        else:
            yield name


def allowed_calls(directives, known):
    allowed = set(expand(["@default"], known["sets"]))
    for value in directives["SystemCallFilter"]:
        calls = set(expand(value.lstrip("~").split(), known["sets"]))
        allowed = allowed - calls if value.startswith("~") else allowed | calls
    return sorted(known["numbers"][name] for name in allowed if name in known["numbers"])


# -- the filter: classic BPF over struct seccomp_data ------------------------------------------------------------------

LOAD, EQUAL, ABOVE, SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
NUMBER, ARCHITECTURE = 0, 4
CREATE, SET_ID_BITS, NAMESPACES = os.O_CREAT, stat.S_ISUID | stat.S_ISGID, 0x7E020080


def refuse(error):
    return 0x00050000 | error


def argument(index):
    return 16 + 8 * index  # its lower half; both machines are little-endian


class Filter:
    """Each rule that refuses comes before the list that allows, so the strictest decides, as with systemd's filters."""

    def __init__(self, numbers):
        self.numbers, self.code = numbers, []

    def add(self, operation, value, yes=0, no=0):
        self.code.append(struct.pack("=HBBI", operation, yes, no, value))

    def on(self, call, steps):
        """Runs `steps` of instructions for one call, then loads the number again."""
        if call in self.numbers:
            self.add(EQUAL, self.numbers[call], 0, len(steps) + 1)
            for step in steps:
                self.add(*step)
            self.add(LOAD, NUMBER)

    def refuse_call(self, call, error):
        self.on(call, [(RETURN, refuse(error))])

    def refuse_bits(self, call, index, bits, error=errno.EPERM):
        self.on(call, [(LOAD, argument(index)), (SET, bits, 0, 1), (RETURN, refuse(error))])

    def refuse_all_but(self, call, index, values, error):
        tests = [(EQUAL, value, len(values) - i, 0) for i, value in enumerate(values)]
        self.on(call, [(LOAD, argument(index)), *tests, (RETURN, refuse(error))])


def restrict_namespaces(rules):
    for call in ("clone", "unshare"):
        rules.refuse_bits(call, 0, NAMESPACES)
    rules.refuse_call("setns", errno.EPERM)
    rules.refuse_call("clone3", errno.ENOSYS)  # its flags lie in memory, where no filter can look


def restrict_set_id(rules):
    for call, index in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("mknod", 1), ("mknodat", 2),
                        ("creat", 1)):
        rules.refuse_bits(call, index, SET_ID_BITS)
    for call, flags in (("open", 1), ("openat", 2)):
        rules.on(call, [(LOAD, argument(flags)), (SET, CREATE, 0, 3), (LOAD, argument(flags + 1)), (SET, SET_ID_BITS, 0, 1),
                        (RETURN, refuse(errno.EPERM))])
    rules.refuse_call("openat2", errno.ENOSYS)


def deny_write_execute(rules):
    write, execute = 2, 4
    rules.on("mmap", [(LOAD, argument(2)), (SET, write, 0, 2), (SET, execute, 0, 1), (RETURN, refuse(errno.EPERM))])
    for call in ("mprotect", "pkey_mprotect"):
        rules.refuse_bits(call, 2, execute)
    rules.refuse_bits("shmat", 2, 0o100000)


def build_filter(directives, known):
    rules = Filter(known["numbers"])
    rules.add(LOAD, ARCHITECTURE)
    rules.add(EQUAL, ARCHITECTURES[platform.machine()], 1, 0)
    rules.add(RETURN, KILL)
    rules.add(LOAD, NUMBER)
    rules.add(ABOVE, 0x40000000, 0, 1)  # x32, which shares the architecture's value
    rules.add(RETURN, KILL)
    if is_on(directives, "RestrictNamespaces"):
        restrict_namespaces(rules)
    if families := words(directives, "RestrictAddressFamilies"):
        rules.refuse_all_but("socket", 0, [getattr(socket, name) for name in families], errno.EAFNOSUPPORT)
    if is_on(directives, "RestrictRealtime"):
        others = [os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE]
        rules.refuse_all_but("sched_setscheduler", 1, others, errno.EPERM)
    if is_on(directives, "RestrictSUIDSGID"):
        restrict_set_id(rules)
    if is_on(directives, "LockPersonality"):
        rules.refuse_all_but("personality", 0, [0], errno.EPERM)
    if is_on(directives, "MemoryDenyWriteExecute"):
        deny_write_execute(rules)
    for number in allowed_calls(directives, known):
        rules.add(EQUAL, number, 0, 1)
        rules.add(RETURN, ALLOW)
    rules.add(RETURN, refuse(errno.EPERM))
    return rules.code


# -- what the kernel is asked for -------------------------------------------------------------------------------------


def call(name, *arguments):
    if getattr(LIBC, name)(*arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)


def prctl(option, value=0, *more):
    call("prctl", option, ctypes.c_ulong(value), *(more or (ctypes.c_ulong(0),)), ctypes.c_ulong(0), ctypes.c_ulong(0))


READ_ONLY, BIND, RECURSIVE, PRIVATE = 1, 4096, 16384, 1 << 18


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [value and os.fsencode(value) for value in (source, target, kind)]
    call("mount", *encoded, ctypes.c_ulong(flags), data and data.encode())


def set_read_only(path, read_only=True, recursive=True):
    """mount_setattr(2), for which Python and older libraries have no name."""
    attributes = struct.pack("=QQQQ", int(read_only), int(not read_only), 0, 0)
    call("syscall", ctypes.c_long(442), -100, os.fsencode(path), ctypes.c_uint(0x8000 if recursive else 0), attributes,
         ctypes.c_size_t(len(attributes)))


def hide(folder, kept):
    """An empty folder in its place, in which those that must stay visible are where they were."""
    held = [(path, os.open(path, os.O_PATH)) for path in kept if pathlib.Path(folder) in pathlib.Path(path).parents]
    mount("tmpfs", folder, "tmpfs", 0, "mode=0755")
    for path, descriptor in held:
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, flags=BIND | RECURSIVE)
        os.close(descriptor)


def close_devices(directives):
    """A /dev with nothing but what DevicePolicy=closed leaves and DeviceAllow adds."""
    globs = [f"/dev/{value.split()[0].removeprefix('char-')}" for value in directives.get("DeviceAllow", [])]
    nodes = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm")]
    held = [(path, os.open(path, os.O_PATH), os.path.isdir(path))
            for path in [*nodes, *(found for pattern in globs for found in glob.glob(pattern))] if os.path.exists(path)]
    mount("tmpfs", "/dev", "tmpfs", 0, "mode=0755")
    for path, descriptor, is_folder in held:
        if is_folder:
            os.mkdir(path)
        else:
            pathlib.Path(path).touch()
        mount(f"/proc/self/fd/{descriptor}", path, flags=BIND | RECURSIVE)
        os.close(descriptor)


def protect_system(writable):
    for folder in writable:
        mount(folder, folder, flags=BIND)
    set_read_only("/")
    for folder in ["/proc", "/dev", *writable]:
        set_read_only(folder, False)
    for folder in ("/proc/sys", "/sys"):
        if folder.startswith("/proc"):
            mount(folder, folder, flags=BIND | RECURSIVE)
        set_read_only(folder)


def set_limits(directives):
    for name, values in directives.items():
        if name.startswith("Limit"):
            limit = resource.RLIM_INFINITY if values[-1] == "infinity" else int(values[-1])
            attempt(f"{name}={values[-1]}", resource.setrlimit, getattr(resource, f"RLIMIT_{name[5:]}"), (limit, limit))


def find_user(directives):
    for name in (*directives.get("User", [])[-1:], "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise OSError(errno.ENOENT, "neither the unit's user nor nobody is known here")


def drop_privileges(user):
    for capability in range(64):
        try:
            prctl(24, capability)  # PR_CAPBSET_DROP
        except OSError as error:
            if error.errno != errno.EINVAL:  # beyond the last one
                raise
            break
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)


def install_filter(code):
    program = ctypes.create_string_buffer(b"".join(code))
    head = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(program)))
    prctl(22, 2, ctypes.cast(head, ctypes.c_void_p))  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER


# -- the order: mounts need privileges, the filter forbids the rest ----------------------------------------------------


def attempt(what, function, *arguments):
    try:
        function(*arguments)
    except (OSError, ValueError) as error:  # Python's limits raise the latter
        print(f"sandbox: not applied here: {what}: {getattr(error, 'strerror', error)}", file=sys.stderr)
        return False
    return True


def separate():
    call("unshare", 0x00020000 | 0x04000000)  # CLONE_NEWNS, CLONE_NEWUTS
    mount(None, "/", flags=RECURSIVE | PRIVATE)


def restrict_mounts(directives, writable, visible):
    if not attempt("PrivateMounts, and with it all that hides or protects files", separate):
        return
    if directives.get("DevicePolicy") == ["closed"]:
        attempt("DevicePolicy=closed", close_devices, directives)
    hidden = (["/tmp", "/var/tmp"] if is_on(directives, "PrivateTmp") else []) + \
             (["/home", "/root"] if is_on(directives, "ProtectHome") else [])
    for folder in hidden:
        attempt(f"an empty {folder}", hide, folder, [*writable, *visible])
    if directives.get("ProtectProc") == ["invisible"]:
        attempt("ProtectProc=invisible", mount, "proc", "/proc", "proc", 0, "hidepid=invisible")
    if directives.get("ProtectSystem") == ["strict"]:
        attempt("ProtectSystem=strict", protect_system, writable)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", metavar="FILE")
    parser.add_argument("--writable", action="append", default=[])
    parser.add_argument("--visible", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--unit")
    parser.add_argument("command", nargs="*")
    given = parser.parse_args()
    if given.save:
        pathlib.Path(given.save).write_text(json.dumps(ask_system_calls()))
        return
    known = json.loads(SAVED.read_text()) if SAVED.exists() else ask_system_calls()
    directives = read_unit(given.unit, given.set)
    code = build_filter(directives, known)
    set_limits(directives)
    if os.geteuid() == 0:
        user = find_user(directives)
        for folder in given.writable:
            os.chown(folder, user.pw_uid, user.pw_gid)
        restrict_mounts(directives, given.writable, given.visible)
        attempt("User and CapabilityBoundingSet", drop_privileges, user)
    else:
        print("sandbox: not applied here: User, CapabilityBoundingSet and all mounts: they need root", file=sys.stderr)
    os.umask(int(directives.get("UMask", ["0022"])[-1], 8))
    prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
    install_filter(code)
    os.execvp(given.command[0], given.command)


main()
