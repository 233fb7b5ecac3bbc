#!/usr/bin/env python3
"""The commands in README.md and docs/ exist: each line of a ```sh block that runs ropewalk or a script names a command that the
program has, with flags that its help knows; each script that is named is there, with a help that knows the flags."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import source_tree

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(text):
    """(line number, words) of each command of the ```sh blocks; continued lines are joined, comments and prompts dropped."""
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        pending, start = "", line
        for raw in block.group(1).splitlines():
            if not pending:
                start = line
            line += 1
            pending += raw.strip()
            if pending.endswith("\\"):
                pending = pending[:-1] + " "
                continue
            try:
                words = shlex.split(pending.removeprefix("$ "), comments=True)
            except ValueError:
                words = [pending]
            pending = ""
            if words:
                yield start, words


def simple_commands(words):
    """Splits at | && || ; and drops assignments in front."""
    current = []
    for word in [*words, ";"]:
        if word in ("|", "&&", "||", ";"):
            while current and re.match(r"^\w+=", current[0]):
                current.pop(0)
            if current:
                yield current
            current = []
        else:
            current.append(word)


def help_of(command):
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    return done.returncode, done.stdout + done.stderr


def flags(words):
    return [word.split("=", 1)[0] for word in words if re.match(r"^--?[A-Za-z]", word) and not re.match(r"^-\d", word)]


def check_command(root, program, words, cache):
    """What is wrong with one command, or None."""
    if words[0] in ("build/ropewalk", "./build/ropewalk", "ropewalk"):
        named = [word for word in words[1:2] if not word.startswith("-")]
        command = [str(program), *named]
    elif re.match(r"^(\./)?scripts/", words[0]):
        path = pathlib.Path(root) / words[0]
        if not os.access(path, os.X_OK):
            return f"{words[0]} is not there, or cannot be run"
        command = [str(path)]
    else:
        return None
    key = tuple(command)
    if key not in cache:
        cache[key] = help_of(command)
    status, text = cache[key]
    if status != 0:
        return f"'{' '.join(words[:2])} --help' ended with {status}"
    for flag in flags(words[1:]):
        if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text):
            return f"the help of '{' '.join(words[:2])}' does not know {flag}"
    return None


def check(root, program):
    problems, cache = [], {}
    for path in source_tree.files(root, suffixes={".md"}):
        for line, words in snippets(source_tree.read(root, path)):
            for command in simple_commands(words):
                problem = check_command(root, program, command, cache)
                if problem:
                    problems.append(f"{path}:{line}: {problem}")
    return problems


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} SOURCE_FOLDER PROGRAM")
    sys.exit(source_tree.report(check(sys.argv[1], sys.argv[2])))
