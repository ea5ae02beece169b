#!/usr/bin/env python3
"""What hostile clients cost a good one: its 99th percentile beside them over the one without them.

    hostile.py [--programs build] [--json] [--quick] [--visits N] [--windows N]

The good client is framebench load, in shared memory, one frame in flight. Three processes visit a daemon over and over, as
the end-to-end tests have them: wrong hellos, and lives with shared memory in which they write anything anywhere, lie,
flood, punch holes, pass descriptors or stop. Windows take turns: alone; elsewhere, where the visitors torment another
daemon of the same kind, so that the machine is as busy; beside, where they are on the good client's daemon: on another
pipeline and lane, on another pipeline of its lane, and on the next seats of its own pipeline. Windows go on until all
visits were made. Each figure is the median of ratios of windows that followed each other. Where the visitors have no processors of their own, `alone` says little, and `elsewhere`
says what is the daemon's part. As a document, `framebench report` reads it.
"""

import argparse
import contextlib
import io
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CROWD = 3
MOST = 1.10
TRIES = 5


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build", help="the folder with framed in it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few visits in short windows, to see that it works")
    parser.add_argument("--visits", type=int, help="how many hostile visits a place gets at least (2000)")
    parser.add_argument("--windows", type=int, help="how often each window is measured at least (12)")
    given = parser.parse_args()
    given.visits = given.visits or (20 if given.quick else 2000)
    given.windows = given.windows or (2 if given.quick else 12)
    given.seconds = 0.2 if given.quick else 1.0
    return given


# What the tests share finds its programs by the environment, when it is imported.
GIVEN = arguments()
os.environ["FRAMED_BINARY"] = str(GIVEN.programs.absolute() / "framed")
os.environ["FRAMECTL"] = str(GIVEN.programs.absolute() / "framectl")
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tools/framebench")]

import counting  # noqa: E402
from harness import BACKEND, Daemon, Forked, pipeline, wait_until  # noqa: E402
from harness.hostile import SIZE, attack  # noqa: E402
from harness.processes import FORK  # noqa: E402

FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def replying():
    return pipeline(FORMAT, source={"protocol": "native", "clients": 8}, sink={"reply": True}, slots=3)


def daemon_at(folder, lanes):
    folder.mkdir(parents=True)
    return Daemon(folder, {"cam0": replying(), "quiet": replying()}, lanes=lanes, log={"level": "error"})


# -- visitors ------------------------------------------------------------------------------------------------------------------


def visit(path, first, stop):
    """Visits until told to stop; how many."""
    for seed in itertools.count(first, CROWD):
        if stop.is_set():
            return (seed - first) // CROWD
        attack(path, [seed])


@contextlib.contextmanager
def crowd(path, seed, visits):
    """Adds to `visits`, a list of one number, what the visitors made of the time."""
    stop = FORK.Event()
    processes = [Forked(visit, path, seed + place, stop) for place in range(CROWD)] if path else []
    try:
        yield
    finally:
        stop.set()
        visits[0] += sum(process.join() for process in processes)


# -- windows -------------------------------------------------------------------------------------------------------------------


def window(daemon, name):
    done = subprocess.run([GIVEN.programs.absolute() / "framebench", "load", "--json", "-s", daemon.socket, "--transport", "shm",
                           "--in-flight", "1", "--warm-up", "200ms", "--duration", f"{GIVEN.seconds * 1000:.0f}ms", name],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    (row,) = json.loads(done.stdout)["sections"]["load"]
    if row["lost"] or row["disordered"] or row["transport"] != "shm" or row["numbered"] != "by stamp":
        raise RuntimeError(f"the good client did not get what is its own: {row}")
    return row


def load(daemon, name):
    """The good client's figures over one window. One in which nothing came back, since the machine stood still, is no window."""
    for _ in range(TRIES):
        row = window(daemon, name)
        if "p50_us" in row:
            return {key: row[key] for key in ("p50_us", "p99_us", "p999_us", "max_us", "frames_per_s")}
    raise RuntimeError(f"nothing came back to the good client in {TRIES} windows: {row}")


def measure(daemon, other, name):
    """Windows of the three kinds by turns, and how many visits there were to the good client's daemon."""
    windows, visits, elsewhere, seed = {"alone": [], "elsewhere": [], "beside": []}, [0], [0], 0
    while visits[0] < GIVEN.visits or len(windows["alone"]) < GIVEN.windows:
        for kind, path, count in (("alone", None, [0]), ("elsewhere", other.path("cam0", "source"), elsewhere),
                                  ("beside", daemon.path("cam0", "source"), visits)):
            with crowd(path, seed, count):
                windows[kind].append(load(daemon, name))
            for each, entry in ((daemon, "cam0"), (daemon, "quiet"), (other, "cam0")):
                wait_until(lambda: each.view(entry)["sessions"] == 0, "all have left", 60)
            seed += 1_000_000
    return windows, visits[0], elsewhere[0]


def ratio(windows, over, under, key):
    return round(statistics.median(a[key] / b[key] for a, b in zip(windows[over], windows[under])), 3)


def row(where, windows, visits, elsewhere):
    row = {"where": where, "windows": len(windows["alone"]), "window_s": GIVEN.seconds, "visits": visits,
           "visits_elsewhere": elsewhere}
    for kind, figures in windows.items():
        for key in figures[0]:
            row[f"{kind}_{key}"] = round(statistics.median(each[key] for each in figures), 2)
    for key in ("p50_us", "p99_us"):
        name = key.split("_", 1)[0]
        row[f"{name}_over_alone"] = ratio(windows, "beside", "alone", key)
        row[f"{name}_over_elsewhere"] = ratio(windows, "beside", "elsewhere", key)
        row[f"{name}_elsewhere_over_alone"] = ratio(windows, "elsewhere", "alone", key)
    return row


# -- the program ---------------------------------------------------------------------------------------------------------------


def rows():
    with tempfile.TemporaryDirectory(prefix="framed-hostile-", dir="/tmp") as name:
        for where, lanes, entry in (("another lane", 2, "quiet"), ("its lane", 1, "quiet"), ("its pipeline", 1, "cam0")):
            folder = pathlib.Path(name) / where.replace(" ", "-")
            with daemon_at(folder / "one", lanes) as daemon, daemon_at(folder / "other", lanes) as other:
                yield row(where, *measure(daemon, other, entry))


def say(row):
    figures = "; ".join(f"{kind} p50 {row[f'{kind}_p50_us']:.1f} us, p99 {row[f'{kind}_p99_us']:.1f} us"
                        for kind in ("alone", "elsewhere", "beside"))
    return (f"{row['visits']} hostile visits on {row['where']}, {row['windows']} windows of each kind, load {os.getloadavg()[0]:.1f}: "
            f"{figures}\n  p99 beside over alone {row['p99_over_alone']:.3f}, over elsewhere {row['p99_over_elsewhere']:.3f}; "
            f"elsewhere over alone {row['p99_elsewhere_over_alone']:.3f}")


def main():
    made, said = [], io.StringIO()
    try:
        with contextlib.redirect_stdout(said):  # the daemons' logs
            for each in rows():
                made.append(each)
                print(say(each), file=sys.stderr if GIVEN.json else sys.__stdout__, flush=True)
    except (RuntimeError, AssertionError, TimeoutError, OSError) as error:
        sys.exit(f"{said.getvalue()}hostile.py: {error}")
    targets = [counting.target(f"p99 of a good client, hostile ones on {each['where']}, over the same without them",
                               each["p99_over_alone"], MOST) for each in made]
    if GIVEN.json:
        json.dump({**counting.document("hostile", made, targets), "backend": BACKEND}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
