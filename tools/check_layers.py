#!/usr/bin/env python3
"""A layer includes only layers below it, and what is foreign only where tools/layers.txt allows it."""

import pathlib
import re
import sys

import source_tree

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


class Rules:
    def __init__(self, text):
        self.layer_of, self.uses, self.external = {}, {}, {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            kind, _, rest = line.partition(" ")
            name, colon, rest = rest.partition(":")
            if not colon or kind not in ("layer", "external"):
                raise ValueError(f"layers.txt:{number}: expected 'layer NAME: ...' or 'external PREFIX: ...', but got: {line}")
            if kind == "external":
                self.external[name.strip()] = rest.split()
                continue
            places, bar, uses = rest.partition("| uses:")
            if not bar:
                raise ValueError(f"layers.txt:{number}: expected '| uses:', but got: {line}")
            self.uses[name] = uses.split()
            unknown = [used for used in self.uses[name] if used not in self.uses or used == name]
            if unknown:  # only layers of lines above: so the order of the file proves that there is no cycle
                raise ValueError(f"layers.txt:{number}: expected layers stated above, but got: {unknown[0]}")
            for place in places.split():
                self.layer_of[place] = name

    def layer(self, path):
        for place in [path, *path.parents]:
            if str(place) in self.layer_of:
                return self.layer_of[str(place)]
        return None


def resolve(root, path, included):
    """The file of this project that an include names, or None."""
    for base in (path.parent, pathlib.Path("src"), pathlib.Path("include"), pathlib.Path("apps/ropewalk")):
        if (root / base / included).is_file():
            return pathlib.Path((base / included).as_posix())
    return None


def check(root):
    root = pathlib.Path(root)
    rules = Rules((root / "tools/layers.txt").read_text())
    problems = []
    for path in source_tree.files(root, "include", "src", "apps", suffixes=source_tree.CPP_SUFFIXES | {".inc"}):
        layer = rules.layer(path)
        if layer is None:
            problems.append(f"{path}: expected a layer for it in tools/layers.txt, but there is none")
            continue
        public = path.parts[0] == "include"
        text = source_tree.code_only(source_tree.read(root, path), keep_strings=True)
        for line, match in source_tree.search_lines(text, INCLUDE):
            included = match.group(2)
            where = f"{path}:{line}: {layer} includes {included}"
            target = resolve(root, path, included)
            if target is not None and ".." not in pathlib.Path(included).parts:
                other = rules.layer(target)
                if other != layer and other not in rules.uses[layer]:
                    problems.append(f"{where} of {other}; it may use: {', '.join(rules.uses[layer]) or 'nothing'}")
                if public and target.parts[0] != "include":
                    problems.append(f"{where}; a public header may include public headers only")
            elif match.group(1) == '"':
                generated = included.endswith("_generated.h")
                if not generated:
                    problems.append(f"{where}, which is not a file of this project (paths start at src/ or include/)")
            else:
                if public and ("/" in included or "." in included):
                    problems.append(f"{where}; a public header may include the standard library only")
                for prefix, layers in rules.external.items():
                    if included.startswith(prefix) and (prefix != "thread" or included == "thread"):
                        if layer not in layers and not source_tree.is_test(path):
                            problems.append(f"{where}; it is for: {', '.join(layers) or 'nobody'}")
    return problems


if __name__ == "__main__":
    sys.exit(source_tree.report(check(source_tree.root_from_arguments())))
