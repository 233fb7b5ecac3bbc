#!/usr/bin/env python3
"""Rules of the source that a pattern can hold: SIMD in its place, a silent library, no paths of one machine, golden data with its
generator, every error code triggered by a test."""

import re
import sys

import source_tree

# hwy/ is also in layers.txt; this finds what needs no include.
SIMD = re.compile(r"__AVX\w*|__SSE\w*|__ARM_NEON\w*|\b_mm\d*_\w+|\bv(?:ld|st)1q?_\w+|\bimmintrin\b|\barm_neon\b|\bhwy\b|\bHWY_\w+"
                  r"|__attribute__\s*\(\(\s*target\b")
LOUD = re.compile(r"(?<![\w.>:])(?:std::|::)?(?:abort|exit|_exit|_Exit|quick_exit|terminate|printf|fprintf|vprintf|vfprintf|puts"
                  r"|fputs|putchar|putc|fputc|perror|assert)\s*\(|std::(?:cout|cerr|clog)\b|\bfmt::print\b")
# Folders of one machine, and hosts of registries (scripts use the user's own configuration). Written so as not to match themselves.
PLACES = re.compile(r"(?<![\w.~}$)*-])/(?:root|work|home|opt|mnt|Users)/[\w.]|py[p]i\.org|python[h]osted|[d]eb\.debian\.org")
TEXT_SUFFIXES = {".cc", ".h", ".c", ".inc", ".py", ".sh", ".cmake", ".txt", ".md", ".json", ".js", ".css", ".html", ".yml", ".toml", ""}


def check_simd(root):
    problems = []
    for path in source_tree.files(root, "include", "src", "apps", suffixes=source_tree.CPP_SUFFIXES):
        if path.parts[:2] == ("src", "simd"):
            continue
        for line, match in source_tree.search_lines(source_tree.code_only(source_tree.read(root, path)), SIMD):
            problems.append(f"{path}:{line}: expected SIMD in src/simd only, but got {match.group(0)}")
    return problems


def check_quiet(root):
    problems = []
    for path in source_tree.files(root, "include", "src", suffixes=source_tree.CPP_SUFFIXES):
        if source_tree.is_test(path):
            continue
        for line, match in source_tree.search_lines(source_tree.code_only(source_tree.read(root, path)), LOUD):
            problems.append(f"{path}:{line}: expected a library that neither prints nor ends the process, but got {match.group(0)}")
    return problems


def check_places(root):
    problems = []
    for path in source_tree.files(root, suffixes=TEXT_SUFFIXES):
        for line, match in source_tree.search_lines(source_tree.read(root, path), PLACES):
            problems.append(f"{path}:{line}: expected nothing that holds on one machine only, but got {match.group(0)}")
    return problems


def check_golden(root):
    problems = []
    generators = {path.parent for path in source_tree.files(root, suffixes={".py"}) if path.name.startswith("golden")}
    for path in source_tree.files(root, "src", "apps", "tests"):
        if "golden" not in path.as_posix() or path.suffix in (".py", ".cc", ".md"):
            continue
        if generators.isdisjoint(list(path.parents)[:-2]):  # beside it or above, within its layer
            problems.append(f"{path}: expected the golden*.py that makes it beside it or above, but there is none")
    for path in source_tree.files(root, suffixes={".py"}):
        if path.name.startswith("golden") and not re.search(r"\d+\.\d+", source_tree.read(root, path)):
            problems.append(f"{path}: expected the version of what makes the data, but there is none")
    return problems


def check_errors(root):
    header = source_tree.code_only(source_tree.read(root, "include/ropewalk/error.h"))
    body = re.search(r"enum class ErrorCode\s*{([^}]*)}", header)
    if body is None:
        return ["include/ropewalk/error.h: expected enum class ErrorCode"]
    tests = "\n".join(source_tree.code_only(source_tree.read(root, path))
                      for path in source_tree.files(root, "src", "apps", "tests", suffixes={".cc", ".h"})
                      if path.name.endswith("_test.cc"))
    # An expectation on a code, not a mention: to_string(ErrorCode::kIo) triggers nothing.
    return [f"{code}: expected a test that triggers it and checks code(), but there is none"
            for code in re.findall(r"\bk\w+", body.group(1))
            if not re.search(rf"code\(\)[^;]*\bErrorCode::{code}\b|\w*(?:expect|EXPECT|refus|fails|error|corrupt)\w*\([^;]*\bErrorCode::{code}\b",
                             tests)]


CHECKS = {"simd": check_simd, "quiet": check_quiet, "places": check_places, "golden": check_golden, "errors": check_errors}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in CHECKS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(CHECKS)} SOURCE_FOLDER")
    sys.exit(source_tree.report(CHECKS[sys.argv[1]](sys.argv[2])))
