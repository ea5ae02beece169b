#!/usr/bin/env python3
"""Checks that comments and commit subjects are plain technical English.

    prose.py                 fails on a finding in a folder of CLEAN, or in a commit subject of this branch
    prose.py --counts        also prints how many findings each folder has
    prose.py --list PATH...  prints the findings of these files or folders

It reads the comments of C, CUDA, shell, Python, YAML and Makefile files, sentence by sentence. A folder joins CLEAN when it has
no finding, so the number of findings cannot grow again. The subjects are those of the commits since the merge base with main.
"""

import collections
import io
import pathlib
import re
import subprocess
import sys
import tokenize

# Folders and files without findings. Files in folders below are included.
CLEAN = (
    "Makefile",
    "config",
    "daemon/base",
    "daemon/client",
    "daemon/frame",
    "daemon/measure",
    "daemon/pipeline",
    "daemon/session",
    "daemon/sink",
    "daemon/source",
    "daemon/state",
    "daemon/wire",
    "packaging",
    "tests/check.sh",
    "tests/client",
    "tests/container.sh",
    "tests/coverage.sh",
    "tests/fault",
    "tests/injection",
    "tests/install.sh",
    "tests/packaging",
    "tests/prose.py",
    "tests/quick.sh",
    "tests/steps.sh",
    "tests/structure.py",
    "tests/systemd",
    "tests/systems",
    "tests/unit/camera",
    "tests/verdict.py",
    "tools/camera",
    "tools/client",
    "tools/demo",
    "tools/framebench",
    "tools/framectl",
    "tools/link",
    "tools/portable.sh",
    "tools/setup.sh",
)

MOST_WORDS = 30
SUBJECT = re.compile(r"(?:fixup! )?[a-z0-9][\w.,/+ -]*: \S.*")
SUBJECT_LENGTH = 72

# A sentence that begins so names its subject late or never.
OPENER = re.compile(r"(?:Of what|What|Whatever|Whoever|Who|Whose|Whichever|Where\b[^.,;:]*\b(?:is|are|was|were)|"
                    r"Of (?:it|them|these|those|which)|The same)\b")
# A sentence that ends so sends its reader back to search the noun.
TRAILER = re.compile(r"\b(?:(?:of|by|for|from|with|without|to|at|on|in|about|after|before|behind|beside|until|through) "
                     r"(?:it|them|him|her|which|whom|those)|(?:of|for|from|to|with) one|no more then|there then|"
                     r"is (?:for|of|from|about|in|on|by))$")
WORDS = re.compile(r"\b(?:anew|at_sink|borrow\w*|gives?(?! up)|gave(?! up)|givers?|hears?|heard|lends?|lending|lent|lies(?! in)|loans?|"
                   r"mend(?:s|ed|ing)?|so manieth|stands?(?! for|-)|stood|takers?|tells(?! apart)|told|unheard|whoever|withh[oe]lds?|"
                   r"(?:go|goes|going|went) on|no\w* of it|the ones? that|there (?:is|are|was|were) none|"
                   r"what (?:is|was|are) left|who (?:asks|comes|reads|waits))\b", re.I)

C_FILES = (".c", ".h", ".cu", ".cuh", ".def")
HASH_FILES = (".sh", ".yaml", ".yml", ".mk", ".bash", ".zsh", ".in", ".service", ".socket", ".conf", ".timer")
SKIPPED = ("shared/", "tests/fuzz/corpus/", "tests/data/")

C_PARTS = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.S)
# A quote can hold a hash, and `$#`, `${#x}` and `\#` are no comments either.
HASH_PARTS = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^'\n]*'|(?:^|(?<=\s))#[^\n]*", re.M)


def c_comments(text):
    """(line, column, text) of each comment, with the stars of its lines removed."""
    for part in C_PARTS.finditer(text):
        comment = part.group()
        if comment.startswith("/*"):
            inner = re.sub(r"^[ \t]*\*(?: |$)", "", comment[2:-2].lstrip("*"), flags=re.M)
        elif comment.startswith("//"):
            inner = comment.lstrip("/")
        else:
            continue
        yield *place(text, part.start()), inner


def hash_comments(text):
    for part in HASH_PARTS.finditer(text):
        if part.group().startswith("#") and not part.group().startswith("#!"):
            yield *place(text, part.start()), part.group().lstrip("#")


def python_comments(text):
    """Comments, and texts that are statements of their own: documentation."""
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield *token.start, token.string.lstrip("#")
        elif token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            yield *token.start, token.string.strip("rf").strip("\"'")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type


def place(text, offset):
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset) - 1


def joined(comments, lines):
    """A comment that has its line to itself continues one of the same column on the line before."""
    last = None
    for line, column, text in comments:
        follows = last and last[1] == column and last[0] + last[2].count("\n") + 1 == line
        if follows and not lines[line - 1][:column].strip() and not lines[line - 1].lstrip().startswith("/*"):
            last[2] += "\n" + text
            continue
        if last:
            yield last[0], last[2]
        last = [line, column, text]
    if last:
        yield last[0], last[2]


def paragraphs(text):
    """Lists of (line offset, words) of a comment. A run of blanks or dashes shows a table or a rule, which holds no sentence."""
    paragraph = []
    for number, line in enumerate(text.split("\n")):
        words = line.strip()
        item = re.match(r"(?:[-*]|\d+\.) ", words)
        table = re.search(r"\S {3,}\S|--{2,}|={3,}|\S\t", words) or (number > 0 and len(line) - len(line.lstrip()) > 4)
        if not words or item or table:
            yield paragraph
            paragraph = []
        if words and not table:
            paragraph.append((number, words[item.end():] if item else words))
    yield paragraph


def sentences(text):
    """(line offset, sentence) of a comment."""
    for paragraph in paragraphs(text):
        starts, whole = [], ""
        for number, words in paragraph:
            starts.append((len(whole), number))
            whole += words + " "
        ends = [match.end() for match in re.finditer(r"[.!?][)\"']?\s+", whole)]
        for first, end in zip([0, *ends], [*ends, len(whole)]):
            if whole[first:end].strip():
                yield max(number for start, number in starts if start <= first), whole[first:end].strip()


def findings(text):
    """(line offset, reason, sentence) for each rule that a sentence of a comment breaks."""
    for offset, sentence in sentences(text):
        bare = re.sub(r"`[^`]*`", "`x`", sentence)
        words = [word for word in bare.split() if re.search(r"[A-Za-z0-9`]", word)]
        if len(words) > MOST_WORDS:
            yield offset, f"{len(words)} words, and {MOST_WORDS} are the most", sentence
        opener = OPENER.match(bare)
        if opener and not bare.endswith("?"):
            yield offset, f"begins with '{opener.group()}'", sentence
        trailer = TRAILER.search(bare.rstrip(".!? )"))
        if trailer:
            yield offset, f"ends with '{trailer.group()}'", sentence
        for word in WORDS.finditer(bare):
            yield offset, f"'{word.group()}'", sentence


def comments_of(path):
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    name = pathlib.PurePath(path)
    lines = text.split("\n")
    if name.suffix in C_FILES:
        return joined(c_comments(text), lines)
    if name.suffix == ".py":
        return joined(python_comments(text), lines)
    if name.suffix in HASH_FILES or name.name in ("Makefile", "rules", "Containerfile") or text.startswith("#!/bin/"):
        return joined(hash_comments(text), lines)
    return ()


def findings_of(path):
    for line, text in comments_of(path):
        for offset, why, sentence in findings(text):
            yield f"{path}:{line + offset}: {why}: {sentence if len(sentence) < 120 else sentence[:117] + '...'}"


def git(*words):
    """The lines that git prints; none where it fails, since an unpacked archive has no history."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def wrong_subjects():
    base = next((found[0] for name in ("main", "origin/main") if (found := git("merge-base", name, "HEAD"))), None)
    for line in git("log", "--no-merges", "--format=%h %s", f"{base}..HEAD") if base else ():
        commit, subject = line.split(" ", 1)
        if why := wrong_subject(subject):
            yield f"commit {commit}: {why}: {subject}"


def wrong_subject(subject):
    if len(subject) > SUBJECT_LENGTH:
        return f"its subject has {len(subject)} characters, and {SUBJECT_LENGTH} are the most"
    return None if SUBJECT.fullmatch(subject) else "its subject has not the form 'room: what changes'"


def is_in(path, places):
    return any(path == where or path.startswith(where.rstrip("/") + "/") for where in places)


def folder_of(path):
    parts = pathlib.PurePath(path).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0] if len(parts) > 1 else "."


def check_self():
    """Runs the rules over samples, so that a changed pattern cannot silently stop finding anything."""
    def found(text):
        return [why for _, why, _ in findings(text)]

    assert not found("Closes the socket. The client connects again.")
    assert found(" ".join(["word"] * 31) + ".") == ["31 words, and 30 are the most"]
    assert not found(" ".join(["word"] * 20) + ". " + " ".join(["Word"] * 20) + ".")
    assert found("What is closed is the socket.") == ["begins with 'What'"]
    assert found("Where the file is: a folder.") == ["begins with 'Where the file is'"]
    assert not found("What does a slot hold?")
    assert found("The lane reads from it.") == ["ends with 'from it'"]
    assert found("Opens the socket anew.") == ["'anew'"]
    assert not found("`anew` is a name.")
    assert not found("a    table   of What\n---- What ----")
    assert [c[2] for c in c_comments('x("/* no */"); /* one\n * two */ // three')] == [" one\ntwo ", " three"]
    sample = "# one\n# two\nx: 1  # three\ny: 2  # four"
    assert [text for _, text in joined(hash_comments(sample), sample.split("\n"))] == [" one\n two", " three", " four"]
    assert [c[2] for c in hash_comments("#!/bin/sh\n# one\necho '# no' $# \"${#x}\" # two")] == [" one", " two"]
    assert [c[2] for c in python_comments('"""One."""\nx = "# no"  # two\n')] == ["One.", " two"]
    assert wrong_subject("lane: close the socket") is None
    assert wrong_subject("A lane closes the socket") and wrong_subject("lane: " + "x" * 70)


def main(words):
    check_self()
    files = [path for path in git("ls-files", "-co", "--exclude-standard")
             if not path.startswith(SKIPPED) and pathlib.Path(path).is_file()]
    if words[:1] == ["--list"]:
        print("\n".join(found for path in files if is_in(path, words[1:]) for found in findings_of(path)))
        return 0
    if words == ["--counts"]:
        counts = collections.Counter(folder_of(path) for path in files for _ in findings_of(path))
        print("\n".join(f"{number:6} {folder}" for folder, number in sorted(counts.items())))
    wrong = [found for path in files if is_in(path, CLEAN) for found in findings_of(path)] + [*wrong_subjects()]
    print("\n".join(wrong) or "prose: comments of the clean folders and commit subjects are in plain English")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
