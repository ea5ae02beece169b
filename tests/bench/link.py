#!/usr/bin/env python3
"""framed-link under trouble, and beside a client of libnats that does nothing else.

    link.py [--programs build] [--parts 'rate trouble …'] [--json] [--quick]

Parts: rate (results and frames of a queue, over bare-nats in rounds that take turns), sync (results with sync_interval: always
over the server's default, if it knows that; only where it is named), latency (a daemon's p99 while the broker is in
trouble, over the same without a link), trouble (two boxes share a queue; boxes and server are killed, networks cut), redelivery
(how long frames of a box that dies wait), leader (of three servers, killed under load). Needs nats-server, and for networks of
the boxes' own the right to make them. As a document, `framebench report` reads it.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
USUAL = ("rate", "latency", "trouble", "redelivery", "leader")
PARTS = (*USUAL, "sync")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build", help="the folder with framed in it")
    parser.add_argument("--parts", default=" ".join(USUAL), help="which, and in which order")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seed", type=int, default=1, help="of the order of faults")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see that it works")
    given = parser.parse_args()
    unknown = set(given.parts.split()) - set(PARTS)
    if unknown:
        parser.error(f"no such parts: {' '.join(sorted(unknown))}")
    return given


# What the tests share finds its programs by the environment, when it is imported.
GIVEN = arguments()
os.environ["FRAMED_BINARY"] = str(GIVEN.programs.absolute() / "framed")
os.environ["FRAMECTL"] = str(GIVEN.programs.absolute() / "framectl")
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tools/framebench"), str(pathlib.Path(__file__).parent)]

import counting  # noqa: E402
import link_rates  # noqa: E402
import link_trouble  # noqa: E402


def part(name, place, say):
    """Rows: what, value, at most or at least, and more."""
    quick = GIVEN.quick
    programs = GIVEN.programs.absolute()
    if name == "rate":
        yield from link_rates.rate(place, programs, rounds=2 if quick else 7, results=5000 if quick else 40000,
                                   frames=20 if quick else 100)
    elif name == "sync":
        yield from link_rates.sync(place, rounds=2 if quick else 7, count=1000 if quick else 4000)
    elif name == "latency":
        yield from link_rates.latency(place, programs, windows=2 if quick else 15)
    elif name == "trouble":
        faults = 4 if quick else 20
        yield from link_trouble.trouble(place, 8000 if quick else 100000, faults, faults, faults, seed=GIVEN.seed, say=say)
    elif name == "redelivery":
        yield from link_trouble.redelivery(place, rounds=3 if quick else 15)
    else:
        yield from link_trouble.leader(place, 2000 if quick else 20000, kills=1 if quick else 5, say=say)


def target(row):
    """As `framebench report` has it."""
    at_most = "at_most" in row
    least = row["at_most" if at_most else "at_least"]
    reached = row["value"] <= least if at_most else row["value"] >= least
    return {"what": row["what"], "limit": row.get("limit", ""), "unit": row.get("unit", ""), "value": row["value"],
            "at_most" if at_most else "at_least": least, "reached": "yes" if reached else "no"}


def say_row(row):
    bound = f"at most {row['at_most']}" if "at_most" in row else f"at least {row['at_least']}" if "at_least" in row else "no bound"
    return f"{row['what']}: {row['value']:g} ({bound}); {row['more']}"


def main():
    out = sys.stderr if GIVEN.json else sys.stdout
    rows, said = [], io.StringIO()
    if not shutil.which("nats-server"):
        sys.exit("link.py: there is no nats-server (Debian: apt install nats-server)")

    def say(text):
        print(f"  {text}", file=sys.stderr, flush=True)
    for name in GIVEN.parts.split():
        with tempfile.TemporaryDirectory(prefix="framed-link-", dir="/tmp") as folder:
            try:
                with contextlib.redirect_stdout(said):  # the daemons' logs
                    for row in part(name, pathlib.Path(folder), say):
                        rows.append({"part": name, **row})
                        print(say_row(row), file=out, flush=True)
            except (RuntimeError, AssertionError, TimeoutError, OSError) as error:
                sys.exit(f"{said.getvalue()[-4000:]}\nlink.py: {name}: {error}")
    if GIVEN.json:
        json.dump(counting.document("link", rows, [target(row) for row in rows if "at_most" in row or "at_least" in row]), sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
