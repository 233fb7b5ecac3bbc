#!/usr/bin/env python3
"""No source file over 600 lines (tests: 900): what is longer does more than one thing."""

import sys

import source_tree

LIMIT, TEST_LIMIT = 600, 900
SUFFIXES = {".cc", ".h", ".c", ".inc", ".py", ".sh", ".cmake", ".js", ".css", ".html"}


def check(root):
    problems = []
    for path in source_tree.files(root, suffixes=SUFFIXES):
        if "golden" in path.stem and path.suffix in (".inc", ".h") or path.parts[0] == "third_party":
            continue  # data, made by the golden.py beside it
        lines = source_tree.read(root, path).count("\n")
        limit = TEST_LIMIT if source_tree.is_test(path) else LIMIT
        if lines > limit:
            problems.append(f"{path}: expected at most {limit} lines, but got {lines}")
    return problems


if __name__ == "__main__":
    sys.exit(source_tree.report(check(source_tree.root_from_arguments())))
