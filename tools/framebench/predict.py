#!/usr/bin/python3
"""Holds `framectl plan` beside a measurement: predict.py FRAMECTL RESULT, a file of `framebench --json overlap`.

From the times measured with 2 slots (what the engines took, and the turnaround that they leave of a slot's round, as
`framectl plan --from` has them of a daemon) it predicts the time of a frame with 1, 3, 4 and 8 slots, and prints each
prediction beside what was measured. Ends with status 1 if more than one in ten is off by over 10 %.
"""

import collections
import json
import subprocess
import sys

BASE, TOLERANCE, EXPLAINED = 2, 0.10, 1.02
ENGINES = ("h2d", "kernel", "d2h")


def plan(framectl, row, turnaround):
    """Time of a frame in us by number of slots, for frames without end."""
    times = [argument for engine in ENGINES for argument in (f"--{engine}", f"{row[f'{engine}_us']:.3f}us")]
    command = [framectl, "--json", "plan", *times, "--turnaround", f"{turnaround:.3f}us", "--frames", "2000"]
    document = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {entry["slots"]: entry["wall_us"] / 2000 for entry in document["by_slots"]}


def predict(framectl, rows):
    """(row, predicted us) of every row but the one that the prediction is made from."""
    base = rows[BASE]
    services = [base[f"{engine}_us"] for engine in ENGINES]
    limited = base["us"] > max(max(services), sum(services) / BASE) * EXPLAINED
    predicted = plan(framectl, base, max(0, BASE * base["us"] - sum(services)) if limited else 0)
    return [(rows[slots], predicted[slots]) for slots in sorted(rows) if slots != BASE]


def main(framectl, result):
    with open(result, encoding="utf-8") as file:
        document = json.load(file)
    if document["backend"] != "cuda":
        sys.exit("the cpu backend runs several kernels at once: take a result of a GPU")
    groups = collections.defaultdict(dict)
    for row in document["sections"]["rows"]:
        if "slots" in row and "h2d_us" in row:
            groups[row["bytes"], row["kernel"], row["way"], row["graph"]][row["slots"]] = row
    print(f"{'BYTES':>9} {'KERNEL':20} {'WAY':9} {'GRAPH':5} {'SLOTS':>5} {'MEASURED':>10} {'PREDICTED':>10} {'OFF':>7}")
    off = total = 0
    for (size, kernel, way, graph), rows in groups.items():
        for row, us in predict(framectl, rows) if BASE in rows else []:
            error = us / row["us"] - 1
            total, off = total + 1, off + (abs(error) > TOLERANCE)
            print(f"{size:9} {kernel:20} {way:9} {graph:5} {row['slots']:5} {row['us']:10.2f} {us:10.2f} {error:7.1%}")
    print(f"{total - off} of {total} predictions are within {TOLERANCE:.0%}")
    return 1 if off > total / 10 or total == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
