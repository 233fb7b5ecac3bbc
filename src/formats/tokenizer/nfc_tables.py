#!/usr/bin/env python3
"""Writes nfc_tables.inc: canonical decompositions and combining classes, out of Python's unicodedata.

Made with Python 3.11 (Unicode 14.0.0). Run it in this folder: python3 nfc_tables.py
"""
import sys
import unicodedata


def main():
    compose, only, classes = [], [], []
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        kind = unicodedata.combining(c)
        if kind:
            if classes and classes[-1][1] == code - 1 and classes[-1][2] == kind:
                classes[-1][1] = code
            else:
                classes.append([code, code, kind])
        parts = unicodedata.decomposition(c).split()
        if not parts or parts[0].startswith("<"):
            continue  # none, or a compatibility decomposition
        codes = [int(p, 16) for p in parts]
        composes = len(codes) == 2 and unicodedata.normalize("NFC", unicodedata.normalize("NFD", c)) == c
        (compose if composes else only).append([code] + (codes + [0])[:2])

    def block(name, kind, rows, comment):
        out.append(f"// {comment}")
        out.append(f"constexpr {kind} {name}[] = {{")
        line = "   "
        for row in rows:
            item = " {" + ",".join(hex(v) if i < 3 and kind != "CombiningRange" or i < 2 else str(v) for i, v in enumerate(row)) + "},"
            if len(line) + len(item) > 126:
                out.append(line)
                line = "   "
            line += item
        out.append(line)
        out.append("};")

    out = [f"// Written by nfc_tables.py, Unicode {unicodedata.unidata_version}. Do not edit.", "// clang-format off"]
    block("kComposites", "Decomposition", compose, "Decomposed and composed again; sorted by code point.")
    block("kDecomposeOnly", "Decomposition", only, "Decomposed, never composed (singletons, exclusions); second = 0: one character.")
    block("kCombining", "CombiningRange", classes, "First and last code point, canonical combining class; all others have class 0.")
    out.append("// clang-format on")
    with open("nfc_tables.inc", "w", encoding="ascii") as f:
        f.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
