"""Shared by the scripts that count instructions and system calls: command line, daemon, and document.

The document has the form of framebench's own, so `framebench report` reads it.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

SIZE = 65536
START_S = 60  # limit for the daemon's start and stop


def configuration(folder, source, sink, **pipeline):
    """A configuration as JSON, which is valid YAML: one pipeline, `frames`, and one lane, so that one thread reads and
    writes."""
    return json.dumps({
        "lanes": 1,
        "status": {"socket": f"{folder}/status.sock"},
        "gpu": {"backend": "cpu"},
        "pipelines": {"frames": {
            "source": {"socket": f"{folder}/in.sock", "format": {"dtype": "float32", "shape": [SIZE // 4]}, **source},
            "stages": [{"affine": {"scale": 2, "offset": 1}}],
            "sink": sink, **pipeline,
        }},
    })


def view(folder, programs):
    """The pipeline's status; None while the daemon does not answer."""
    done = subprocess.run([programs / "framectl", "-s", folder / "status.sock", "--json", "status"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)["pipelines"]["frames"] if done.returncode == 0 else None


def wait_ready(folder, programs, process):
    end = time.monotonic() + START_S
    while view(folder, programs) is None:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"framed does not start:\n{(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.1)


def target(what, value, most):
    return {"what": what, "limit": "", "unit": "", "value": value, "at_most": most, "reached": "yes" if value <= most else "no"}


def document(command, rows, targets):
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    return {"command": command, "machine": machine, "backend": "cpu", "sections": {command: rows, "targets": targets}}


def run(description, tool, measure, targets, say):
    """Runs a script: `measure` yields rows from (programs, seconds); `targets` and `say` use these rows."""
    command = pathlib.Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build"), help="the folder with framed in it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few frames, to see that it works")
    arguments = parser.parse_args()
    if not shutil.which(tool):
        sys.exit(f"{command}.py: there is no {tool} here: install the package {tool}")
    rows = []
    try:
        for row in measure(arguments.programs.absolute(), 0.5 if arguments.quick else 5):
            rows.append(row)
            if not arguments.json:
                print(say(row))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"{command}.py: {error}")
    if arguments.json:
        json.dump(document(command, rows, targets(rows)), sys.stdout, indent=1)
        print()
