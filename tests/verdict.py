"""Prints the result of a test run as one line: passed tests, failed tests with their steps, skipped tests with reasons.

verdict.py NAME FOLDER SECONDS STATUS: FOLDER has the log of each step, step.*, and the names of failed steps. Its file left-out
has parts that the run skips itself, as REASON: NUMBER or in words. again.* name tests that failed beside others and ran once more,
with a line for each report. STATUS is that of the script. The exit status is 1 if anything failed.
"""

import collections
import pathlib
import re
import sys

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
PYTEST = re.compile(r"^\d+ [a-z].* in [\d.]+s\b.*$", re.M)
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] \S+?(?::\d+)?: (.*)$", re.M)
LEFT_OUT = re.compile(r"^(.* tests): left out: (.*)$", re.M)


def count(text):
    """Numbers passed and failed, and how many were left out for which reason."""
    passed = failed = 0
    reasons = collections.Counter()
    for checks, failures, errors in CHECK.findall(text):
        failed += int(failures) + int(errors)
        passed += int(checks) - int(failures) - int(errors)
    for line in PYTEST.findall(text):
        for number, what in re.findall(r"(\d+) (passed|failed|error)", line):
            passed, failed = (passed + int(number), failed) if what == "passed" else (passed, failed + int(number))
    for number, reason in SKIPPED.findall(text):
        reasons[reason.removeprefix("Skipped: ")] += int(number)
    for what, reason in LEFT_OUT.findall(text):
        reasons[f"{what}, {reason}"] += 1
    return passed, failed, reasons


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def main(name, folder, seconds, status):
    folder = pathlib.Path(folder)
    passed, failed, reasons = count("\n".join(log.read_text(errors="replace") for log in sorted(folder.glob("step.*"))))
    tried_again = [line for path in sorted(folder.glob("again.*")) for line in lines(path)]
    failed -= len(tried_again)
    steps = lines(folder / "failed")
    if status != "0" and not steps:
        steps = [f"the run itself, with status {status}"]
    others = []
    for line in lines(folder / "left-out"):
        reason, _, number = line.rpartition(": ")
        if number.isdigit():
            reasons[reason] += int(number)
        else:
            others.append(line)
    why = ", ".join([f"{reason}: {number:,}" for reason, number in reasons.most_common() if number] + others)
    again = f", a second try for {', '.join(sorted(set(tried_again)))}" if tried_again else ""
    print(f"{name}: {passed:,} passed, {failed:,} failed{' (' + ', '.join(steps) + ')' if steps else ''}{again}, "
          f"{sum(reasons.values()):,} left out{' (' + why + ')' if why else ''}, {int(seconds) // 60} min {int(seconds) % 60} s")
    return 1 if steps or failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
