"""framed-protocol(7): its worked example is what the daemon says and does, byte for byte, and the page is whole."""

import itertools
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import Client, Daemon, pipeline, wait_until
from harness.native import Shared

PAGES = pathlib.Path(__file__).resolve().parents[2] / "packaging/man"
PAGE = (PAGES / "framed-protocol.7").read_text() if PAGES.exists() else ""
pytestmark = [pytest.mark.skipif(not PAGE, reason="the portable folder has no manual pages"), pytest.mark.plain]
TIMES = [*range(0x28, 0x44), *range(0x58, 0x60)]             # what differs from run to run in a RESULT,
COMPLETION_TIMES = [*range(0x20, 0x3c), *range(0x50, 0x58)]  # and in a completion


def entry():
    return pipeline({"pixels": "gray", "width": 8, "height": 2}, stages=[{"affine": {"scale": -1.0, "offset": 255.0}}],
                    source={"protocol": "native"}, sink={"reply": True, "protocol": "native"})


def exchanges():
    """The example as a list of (who, offset, bytes), a new one wherever offsets do not go on. As in a hex dump a line of *
    stands for lines as the one above; at the end of a block it goes on to the end of a WELCOME."""
    steps = []
    for block in PAGE.split(".EX")[1:]:
        before = None
        for line in block.split(".EE")[0].splitlines():
            dump = re.fullmatch(r"([<>iocd]) ([0-9a-f]{4})  ((?:[0-9a-f]{2} {0,2})+)", line)
            if not dump:
                continue
            who, at, data = dump[1], int(dump[2], 16), bytes.fromhex(dump[3])
            begun = bytearray()
            if before == who and at > 0 and (at % 0x1000 or who in "<>"):
                _, first, begun = steps.pop()
                begun += begun[-16:] * ((at - first - len(begun)) // 16)
            steps.append((who, at - len(begun), begun + data))
            before = who
        if before == "<" and steps[-1][2][4] == 2:
            steps[-1][2].extend(bytes(272 - len(steps[-1][2])))
    return steps


def without_times(data, times):
    return bytes(0 if at in times else byte for at, byte in enumerate(data))


@pytest.mark.parametrize("first", [0, 6])
def test_the_exchange_over_the_stream(place, first):
    steps = [step for step in exchanges() if step[0] in "<>"][first:first + 6]
    assert [who for who, _, _ in steps] == [">", "<", ">", "<", ">", "<"]
    with Daemon(place, {"cam0": entry()}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            for who, _, data in steps:
                if who == ">":
                    client.send(data)
                    continue
                got = client.read(len(data))
                times = TIMES if data[4] == 4 else ()
                assert without_times(got, times) == without_times(data, times), data.hex(" ")
            client.finish()
            assert client.rest() == b""
        daemon.account(came=2, emitted=1, invalid=1)


def test_the_exchange_in_shared_memory(place):
    every = exchanges()
    begin = next(n for n, step in enumerate(every) if step[0] == "i")
    hello, welcome, steps = every[begin - 2][2], every[begin - 1][2], every[begin:]
    assert {who for who, _, _ in steps} == set(">iocd")
    with Daemon(place, {"cam0": entry()}) as daemon:
        with Client(daemon.path("cam0", "source")) as before:  # so that this session's number is the page's
            before.send(every[0][2])
            before.read(272)
        daemon.wait_view("the first one has left", lambda view: view["sessions"] == 0)

        class Recorded(Shared):
            def greet(self, hello_message):
                assert hello_message == hello
                super().greet(hello_message)

            def rest_of_message(self, begun):
                assert begun == welcome
                return super().rest_of_message(begun)

        with Recorded(daemon.path("cam0", "source")) as client:
            memory = {"i": client.input, "o": client.output, "c": client.control, "d": client.control}
            for who, at, data in steps:
                if who == ">":
                    client.send(data)
                elif who in "ic":
                    memory[who][at:at + len(data)] = data
                else:
                    wait_until(lambda: client.word(4096) == 1, "the completion")
                    times = COMPLETION_TIMES if len(data) == 88 else ()
                    got = memory[who][at:at + len(data)]
                    assert without_times(got, times) == without_times(data, times), (who, hex(at))
            daemon.account(came=1, emitted=1)


def test_its_layout_is_the_headers(place):
    """The offsets on the page are those that the compiler gives, field by field."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no compiler")
    structures = {"HELLO": "native_hello", "WELCOME": "native_welcome", "FRAME": "native_frame", "RESULT": "native_result",
                  "ACK": "native_ack"}
    steps = ("receive", "queue", "gpu_wait", "h2d", "kernel", "d2h", "wake", "total")
    expressions, offsets = [], []
    for name, structure in structures.items():
        section = PAGE.split(f".SS {name}\n")[1].split(".SS")[0].split("offset\t")[1].split(".TE")[0]
        for offset, field in re.findall(r"^(\d+)\t\w+\t(?:T\{\n)?(\w+)", section, re.MULTILINE):
            member = f"steps[NATIVE_{field.upper()}]" if field in steps else field
            expressions.append(f"(int)(sizeof(struct native_header) + offsetof(struct {structure}, {member}))")
            offsets.append(int(offset))
    assert len(offsets) == 5 + 13 + 5 + 3 + 8 + 2 + 2 + 1
    source = place / "offsets.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"daemon/wire/native_wire.h\"\n"
                      f"int main(void) {{ const int of[] = {{{', '.join(expressions)}}};\n"
                      "for (unsigned i = 0; i < sizeof of / sizeof *of; i++) { printf(\"%d \", of[i]); } return 0; }\n")
    subprocess.run([compiler, "-std=c11", "-I", PAGES.parents[1], "-o", place / "offsets", source], check=True)
    told = subprocess.run([place / "offsets"], capture_output=True, text=True, check=True).stdout
    assert list(map(int, told.split())) == offsets


@pytest.mark.parametrize("page", sorted(path.name for path in PAGES.glob("*.[1-8]")))
def test_no_page_draws_a_warning(page):
    if not shutil.which("man") or not shutil.which("tbl"):
        pytest.skip("no man")
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", str(PAGES / page)], capture_output=True, text=True,
                          check=False, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100"})
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_no_table_is_wider_than_the_page():
    """groff 1.23 warns of such a table, older ones only print it cut. Text between T{ and T} is wrapped."""
    for page in sorted(PAGES.glob("*.[1-8]")):
        for options, body in re.findall(r"^\.TS\n(.*?)\.\n(.*?)^\.TE$", page.read_text(), re.MULTILINE | re.DOTALL):
            rows = re.sub(r"T\{.*?T\}|\\f.", "", body, flags=re.DOTALL).splitlines()
            columns = itertools.zip_longest(*(row.split("|" if "tab(|)" in options else "\t") for row in rows), fillvalue="")
            widths = [max(map(len, column)) for column in columns]
            assert sum(widths) + 3 * len(widths) - 3 <= 100 - 7, (page.name, max(rows, key=len))  # MANWIDTH, less the indentation
