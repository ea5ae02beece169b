#!/usr/bin/env python3
"""Holds the tree to its plan: what each room may include, and that no modules of the daemon use each other in a circle.

    structure.py [OBJECTS [DAEMON]]      (the folder of a build's objects, build/release/obj; the program build/framed)

A room is a folder of daemon/. It uses itself and the rooms before it in ROOMS; `private.h`, or a header that ends so, is for
its own room alone. Tools use only measure/ and wire/ of the daemon. config/ and gpu/ do not use the daemon.

The daemon computes no frame, so it includes only OF_GPU of gpu/ (plain records). Its program has no symbol of CUDA, of a model
runtime or of a plugin loader. gpu/record/ is linked into both programs, so it includes only itself and FOR_RECORDS. Only the
worker includes gpu/serve/.

Uses between folders are read from #include lines, and uses between modules from the symbols of their objects. The script also
checks that the files in HACKING.md exist.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOMS = ("wire", "measure", "base", "camera", "device", "state", "frame", "source", "sink", "session", "client", "pipeline", "status",
         "server")
FOR_TOOLS = ("wire", "measure")
OF_GPU = ("gpu/gpu.h", "gpu/format.h", "gpu/kept.h", "gpu/priority.h", "gpu/model/model.h", "gpu/model/parts.h",
          "gpu/model/operators.h", "gpu/record/*")
FOR_RECORDS = ("gpu/format.h", "gpu/gpu.h", "gpu/model/model.h", "gpu/model/parts.h")
FOREIGN = re.compile(r"(?:cuda[A-Z]|cu[A-Z]|Ort|dlm?open)")  # how symbols begin that only a worker may have
GUIDE_LINES = 150
MOST_CIRCLES = 3  # outside daemon/; each has its reason, with the word "circle", at the head of one of its files


def includes():
    """(file, line, included path) of every include of the project's own headers."""
    for folder in ("daemon", "gpu", "config", "tools"):
        for file in sorted(pathlib.Path(folder).rglob("*.[ch]*")):
            if file.suffix not in (".c", ".h", ".cu", ".cuh"):
                continue
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                match = re.match(r'#include "((?:daemon|gpu|config|tools)/[^"]+)"', line)
                if match:
                    yield file, number, pathlib.Path(match.group(1))


def room(path):
    """The index of the file's room in ROOMS; main.c is above all rooms."""
    return ROOMS.index(path.parts[1]) if len(path.parts) > 2 else len(ROOMS)


def wrong_include(file, included):
    """Why `file` may not include that, or None."""
    if file.parent != included.parent and file.parts[:2] == ("gpu", "record") and str(included) not in FOR_RECORDS:
        return f"gpu/record/ uses only itself and {', '.join(FOR_RECORDS)}"
    if file.parent != included.parent and included.parts[:2] == ("gpu", "serve"):
        return "gpu/serve/ is the worker's alone"
    if file.parts[0] == "daemon" and included.parts[0] == "gpu" and not any(fnmatch.fnmatch(included, of) for of in OF_GPU):
        return f"of gpu/ the daemon uses only {', '.join(OF_GPU)}"
    if included.parts[0] != "daemon":
        return None if file.parts[0] != "config" or included.parts[0] == "config" else "config/ uses only itself"
    if file.parts[0] == "tools":
        return None if included.parts[1] in FOR_TOOLS else f"tools use only {' and '.join(FOR_TOOLS)} of the daemon"
    if file.parts[0] != "daemon":
        return f"{file.parts[0]}/ uses nothing of the daemon"
    if room(included) > room(file):
        return f"{included.parts[1]}/ is above {file.parts[1]}/"
    if included.stem.endswith("private") and included.parent != file.parent:
        return f"it is private to {included.parts[1]}/"
    return None


def hidden_shortages():
    """Calls of failure_set() with an error of the system, which failure_set_system() alone may judge."""
    for file in sorted(pathlib.Path("daemon").rglob("*.c")):
        text = file.read_text(encoding="utf-8")
        for match in re.finditer(r"\bfailure_set\((?:[^;]|\n)*?;", text):
            if re.search(r"\bstrerror\(|\bfolder_problem\(", match.group()):
                yield f"{file}:{text.count(chr(10), 0, match.start()) + 1}: use failure_set_system() for what the system refuses"


def symbols(objects):
    """{object: (defined, wanted)} of all C modules."""
    found = {}
    for path in sorted(objects.rglob("*.c.o")):
        listed = subprocess.run(["nm", "-P", "-g", path], capture_output=True, text=True, check=True).stdout
        words = [line.split() for line in listed.splitlines()]
        name = str(path.relative_to(objects)).removesuffix(".o")
        if name.startswith(("daemon/", "gpu/", "config/", "tools/")) and pathlib.Path(name).exists():
            found[name] = ({w[0] for w in words if w[1] in "TDBRVW"}, {w[0] for w in words if w[1] == "U"})
    return found


def foreign_symbols(program):
    """Symbols that the daemon's program defines or needs although only a worker may."""
    names = set()
    for table in ("--debug-syms", "--dynamic"):  # a stripped program has only the second
        listed = subprocess.run(["nm", table, program], capture_output=True, text=True, check=True).stdout
        names |= {line.split()[-1] for line in listed.splitlines()}
    if not names:
        yield f"{program}: nm finds no symbol in it"
    for name in sorted(filter(FOREIGN.match, names)):
        yield f"{program}: has {name}, which only framed-worker may have"


def uses(found):
    """{module: modules whose symbols it takes}; a symbol that several programs define is nobody's."""
    owners = {}
    for module, (defined, _) in found.items():
        for symbol in defined:
            owners.setdefault(symbol, []).append(module)
    owner = {symbol: modules[0] for symbol, modules in owners.items() if len(modules) == 1}
    return {module: {owner[symbol] for symbol in wanted if symbol in owner} - {module} for module, (_, wanted) in found.items()}


def circles(graph):
    """The sets of modules that all reach each other (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(module):
        index[module] = low[module] = len(index)
        stack.append(module)
        for used in graph[module]:
            if used not in index:
                visit(used)
                low[module] = min(low[module], low[used])
            elif used in stack:
                low[module] = min(low[module], index[used])
        if low[module] == index[module]:
            members = []
            while not members or members[-1] != module:
                members.append(stack.pop())
            if len(members) > 1:
                found.append(sorted(members))

    for module in graph:
        if module not in index:
            visit(module)
    return sorted(found)


def is_justified(members):
    """Whether the first comment of one of them says why the circle is there."""
    return any("circle" in pathlib.Path(member).read_text(encoding="utf-8").partition("*/")[0] for member in members)


def untrue(guide="HACKING.md"):
    """Missing files that the guide names. NAME stands for any name, and a name without a folder may be in any folder."""
    lines = pathlib.Path(guide).read_text(encoding="utf-8").splitlines()
    files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout.split()
    for number, line in enumerate(lines, 1):
        for named in re.findall(r"[\w*][\w*./-]*\.(?:c|h|cu|cuh|def|py|yaml|yml|json|md|[1-9])\b", line):
            pattern = named.replace("NAME", "*")
            if not fnmatch.filter(files, pattern) and not fnmatch.filter(files, f"*/{pattern}"):
                yield f"{guide}:{number}: there is no {named}"
    if len(lines) > GUIDE_LINES:
        yield f"{guide} has {len(lines)} lines, and {GUIDE_LINES} at most are read"


def main():
    wrong = [f"{file}:{number}: includes {included}, but {why}" for file, number, included in includes()
             if (why := wrong_include(file, included))]
    wrong += [*untrue(), *hidden_shortages()]
    if len(sys.argv) > 1:
        found = circles(uses(symbols(pathlib.Path(sys.argv[1]))))
        inside = [members for members in found if any(member.startswith("daemon/") for member in members)]
        wrong += [f"a circle of modules: {' '.join(members)}" for members in inside]
        outside = [members for members in found if members not in inside]
        for members in outside:
            print(f"structure: a circle of modules outside daemon/: {' '.join(members)}")
        wrong += [f"a circle without a reason at the head of a file: {' '.join(members)}" for members in outside
                  if not is_justified(members)]
        wrong += [f"{len(outside)} circles outside daemon/, and {MOST_CIRCLES} at most may be there"] if len(outside) > MOST_CIRCLES else []
    if len(sys.argv) > 2:
        wrong += foreign_symbols(pathlib.Path(sys.argv[2]))
    print("\n".join(wrong) or "structure: every room uses only those below it, and no modules of the daemon go round in a circle")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
