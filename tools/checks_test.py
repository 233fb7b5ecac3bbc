#!/usr/bin/env python3
"""Each check says yes to a good tree and no to a bad one: a check that cannot fail proves nothing."""

import os
import pathlib
import sys
import tempfile
import textwrap
import unittest

import check_layers
import check_rules
import check_sizes
import check_snippets

LAYERS = """\
layer base: src/base include/ropewalk/error.h | uses:
layer simd: src/simd | uses: base
layer apps: apps/ropewalk | uses: base simd
external hwy/: simd
"""
ERRORS = "enum class ErrorCode {\n  kIo,  // kComment\n  kCorrupt,\n};\n"


class Tree(unittest.TestCase):
    """A small good tree in a temporary folder, which a test then spoils."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("tools/layers.txt", LAYERS)
        self.write("include/ropewalk/error.h", "#pragma once\n#include <string>\n" + ERRORS)
        self.write("src/base/low.h", '#include "ropewalk/error.h"\n// abort() and _mm_add_ps in a comment are no calls\n')
        self.write("src/base/low.cc", '#include "base/low.h"\nconst char* text = "printf(1) // _mm_add_ps";\n')
        self.write("src/base/low_test.cc",
                   "EXPECT_EQ(r.error().code(), ErrorCode::kIo);\nEXPECT_EQ(s.error().code(), ErrorCode::kCorrupt);\n")
        self.write("src/simd/dot.cc", '#include <hwy/highway.h>\n#include "base/low.h"\nauto x = _mm512_add_ps(a, b);\n')
        self.write("apps/ropewalk/main.cc", '#include "simd/dot.h"\nint main() { std::printf("x"); }\n')
        self.write("src/simd/dot.h", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def good(self, problems):
        self.assertEqual(problems, [])

    def bad(self, problems, *words):
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])


class Layers(Tree):
    def check(self):
        return check_layers.check(self.root)

    def test_good(self):
        self.good(self.check())

    def test_upward(self):
        self.write("src/base/low.cc", '#include "simd/dot.h"\n')
        self.bad(self.check(), "src/base/low.cc:1", "simd/dot.h")

    def test_upward_behind_a_string_and_a_comment(self):
        self.write("src/base/low.cc", 'auto s = "/*";  // "\n/* */ int x;\n#include "simd/dot.h"\n')
        self.bad(self.check(), "src/base/low.cc:3")

    def test_commented_out(self):
        self.write("src/base/low.cc", '// #include "simd/dot.h"\n')
        self.good(self.check())

    def test_foreign_library(self):
        self.write("src/base/low.cc", "#include <hwy/highway.h>\n")
        self.bad(self.check(), "hwy/highway.h", "simd")

    def test_unknown_folder(self):
        self.write("src/attic/old.cc", "")
        self.bad(self.check(), "src/attic/old.cc")

    def test_public_header_of_no_layer(self):
        self.write("include/ropewalk/new.h", "")
        self.bad(self.check(), "include/ropewalk/new.h")

    def test_public_header_with_a_library(self):
        self.write("include/ropewalk/error.h", "#include <fmt/format.h>\n")
        self.bad(self.check(), "fmt/format.h", "standard library")

    def test_public_header_with_a_private_one(self):
        self.write("include/ropewalk/error.h", '#include "base/low.h"\n')
        self.bad(self.check(), "base/low.h", "public headers only")

    def test_a_path_out_of_the_tree(self):
        self.write("src/simd/dot.h", '#include "../base/low.h"\n')
        self.bad(self.check(), "../base/low.h")

    def test_layers_in_a_circle(self):
        self.write("tools/layers.txt", "layer a: src/base | uses: b\nlayer b: src/simd | uses: a\n")
        self.assertRaises(ValueError, self.check)


class Sizes(Tree):
    def test_limits(self):
        self.write("src/base/low.cc", "\n" * 600)
        self.write("src/base/low_test.cc", "\n" * 900)
        self.write("build/generated.cc", "\n" * 5000)
        self.good(check_sizes.check(self.root))
        self.write("src/base/low.cc", "\n" * 601)
        self.bad(check_sizes.check(self.root), "src/base/low.cc", "601")

    def test_long_test(self):
        self.write("src/base/low_test.cc", "\n" * 901)
        self.bad(check_sizes.check(self.root), "low_test.cc", "901")


class Rules(Tree):
    def test_good(self):
        for check in check_rules.CHECKS.values():
            self.good(check(self.root))

    def test_simd(self):
        for text in ("#ifdef __AVX2__", "auto x = _mm256_add_ps(a, b);", "namespace hn = hwy::N_AVX2;",
                     '__attribute__((target("avx512bf16"))) int f();'):
            self.write("src/base/low.cc", text + "\n")
            self.bad(check_rules.check_simd(self.root), "src/base/low.cc:1")

    def test_quiet(self):
        for text in ('printf("x");', "std::abort();", "::exit(1);", "std::cout << 1;", "std::cerr << 1;", 'fmt::print("x");',
                     "assert(x);", "std::terminate();", 'std::fprintf(stderr, "x");'):
            self.write("src/base/low.cc", text + "\n")
            self.bad(check_rules.check_quiet(self.root), "src/base/low.cc:1")

    def test_quiet_names_that_only_look_alike(self):
        self.write("src/base/low.cc", "static_assert(true);\nx.exit(1);\nsnprintf(a, 1, b);\nquick_abort(2);\nstd::runtime_error(x);\n")
        self.good(check_rules.check_quiet(self.root))

    def test_places(self):
        for text in ("/" + "root/x", "see /" + "work/main", "at /" + "home/me", "py" + "pi.org"):
            self.write("docs/page.md", f"{text}\n")
            self.bad(check_rules.check_places(self.root), "docs/page.md:1")
        self.write("docs/page.md", "~/.cache/ropewalk, src/work/x, /usr/share, /tmp/x, $HOME/work/x\n")
        self.good(check_rules.check_places(self.root))

    def test_golden(self):
        self.write("src/base/golden/data.json", "{}")
        self.bad(check_rules.check_golden(self.root), "golden/data.json")
        self.write("src/base/golden.py", "import numpy  # 1.26\n")
        self.good(check_rules.check_golden(self.root))
        self.write("src/base/golden/deeper/data.json", "{}")
        self.good(check_rules.check_golden(self.root))
        self.write("src/simd/golden.inc", "1,")  # the generator of another layer does not count
        self.bad(check_rules.check_golden(self.root), "src/simd/golden.inc")
        (self.root / "src/simd/golden.inc").unlink()
        self.write("src/base/golden.py", "import numpy\n")
        self.bad(check_rules.check_golden(self.root), "version")

    def test_errors(self):
        self.write("src/base/low_test.cc", "EXPECT_EQ(r.error().code(), ErrorCode::kIo);\nto_string(ErrorCode::kCorrupt);\n")
        self.bad(check_rules.check_errors(self.root), "kCorrupt")


class Snippets(Tree):
    def setUp(self):
        super().setUp()
        self.program = self.write("program", textwrap.dedent("""\
            #!/bin/sh
            [ "$1" = eval ] || exit 2
            echo "eval MODEL --text F --json F"
            """))
        os.chmod(self.program, 0o755)

    def check(self, text):
        self.write("README.md", "# Title\n```sh\n" + text + "\n```\n")
        return check_snippets.check(self.root, self.program)

    def test_good(self):
        self.good(self.check("build/ropewalk eval m.gguf --text f \\\n  --json - | jq .x  # shows x\nls --unknown"))

    def test_unknown_command(self):
        self.bad(self.check("ls\nbuild/ropewalk evil m.gguf"), "README.md:4", "evil")

    def test_unknown_flag(self):
        self.bad(self.check("build/ropewalk eval m.gguf \\\n  --test f"), "README.md:3", "--test")

    def test_flag_that_is_only_the_start_of_another(self):
        self.bad(self.check("build/ropewalk eval m.gguf --tex f"), "--tex")

    def test_script_that_is_not_there(self):
        self.bad(self.check("./scripts/demo.sh"), "scripts/demo.sh")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
