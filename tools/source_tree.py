"""What the checks share: the files of a source tree, C++ without comments and strings, and the way to report."""

import pathlib
import re
import sys

SKIPPED_FOLDERS = re.compile(r"^(build.*|out|\.git|\.cache|__pycache__|demo-report.*)$")
CPP_SUFFIXES = {".cc", ".h"}

# Comments, raw strings, strings and characters, in one pass, so that none is found inside another.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""", re.DOTALL)


def files(root, *folders, suffixes=None):
    """Paths relative to root, sorted, below the given folders (all of root without any)."""
    root = pathlib.Path(root)
    found = []
    stack = [root / folder for folder in folders] if folders else [root]
    while stack:
        path = stack.pop()
        if path.is_dir():
            if path == root or not SKIPPED_FOLDERS.match(path.name):
                stack.extend(path.iterdir())
        elif path.is_file() and path.name != ".git" and (suffixes is None or path.suffix in suffixes):
            found.append(path.relative_to(root))
    return sorted(found)


def read(root, path):
    return (pathlib.Path(root) / path).read_text(encoding="utf-8", errors="replace")


def code_only(text, keep_strings=False):
    """The text with comments (and strings) blanked; lines keep their numbers."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/") or not keep_strings:
            return "".join("\n" if character == "\n" else " " for character in token)
        return token
    return TOKEN.sub(blank, text)


def is_test(path):
    return path.name.endswith(("_test.cc", "_bench.cc")) or path.parts[0] in ("tests", "fuzz", "bench")


def search_lines(text, pattern):
    """(line number, match) of each match of a compiled pattern."""
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match


def report(problems):
    """Prints the problems; the exit status."""
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problems")
    return 1 if problems else 0


def root_from_arguments():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SOURCE_FOLDER")
    return pathlib.Path(sys.argv[1])
