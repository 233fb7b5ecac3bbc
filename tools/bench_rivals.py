#!/usr/bin/env python3
"""Ropewalk beside llama.cpp and PyTorch on this machine: each round runs all of them once, in turns, so that a clock or a
neighbour that changes hits all; the figures are medians over rounds, and the ratio is the median of each round's ratio.

llama.cpp comes from the source archive of PyPI's llama-cpp-python, built for this processor (GGML_NATIVE=ON). PyTorch runs the
same GGUF file de-quantized to float32 by transformers, with its own attention (sdpa), and must give the same loss as Ropewalk
before it is timed. Nothing computes the output layer for more than the last token.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile

import fetch_models

LLAMA = fetch_models.Archive("llama-cpp-python", "0.3.36", "llama_cpp_python-0.3.36.tar.gz",
                             "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")
TORCH_PACKAGES = ["torch", "transformers>=5,<6", "gguf", "sentencepiece", "accelerate"]
MODELS = {"smollm2": "smollm2-135m-instruct-q4_1.gguf", "gemma": "gemma-3-270m-q4_k_m.gguf"}
TITLES = {"smollm2": "SmolLM2-135M-Instruct (Q4_1)", "gemma": "Gemma 3 270M (Q4_K_M)"}
TEXT = "plays/hamlet_gut_f.txt"
DECODE_BEHIND = 512  # tokens in the cache while single ones are timed
LONG = 8192          # longer prompts take minutes with the rivals: one round, no warming up


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """The standard output of a command; on failure its last words, and the end of the program."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-15:])
        raise SystemExit(f"{tail}\nfailed ({done.returncode}): {' '.join(str(part) for part in command)}")
    return done.stdout


def right(row):
    """A figure counts only with its answer checked."""
    if not row["checked"]:
        raise SystemExit(f"ropewalk bench computed a wrong answer: {row}")


def build_llama(work, threads, model):
    """llama-bench that runs here, and how it was built."""
    source = work / "llama.cpp"
    if not source.is_dir():
        say("Fetching llama.cpp")
        archive = fetch_models.obtain(LLAMA, work)
        inside = "llama_cpp_python-0.3.36/vendor/llama.cpp/"
        partial = work / "llama.cpp.part"
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if member.name.startswith(inside) and (member.isfile() or member.isdir()):
                    member.name = member.name[len(inside):]
                    if member.name and not member.name.startswith("/") and ".." not in member.name.split("/"):
                        tar.extract(member, partial)
        partial.rename(source)
    # Its AMX kernels stop with an illegal instruction on some machines that have AMX: then without them.
    for name, flags in (("native", ""), ("native-no-amx", "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16")):
        build = work / f"llama.cpp-{name}"
        program = build / "bin" / "llama-bench"
        if not program.exists():
            say(f"Building llama.cpp ({name}): some minutes")
            run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                 "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
                 f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"])
            run(["cmake", "--build", build, "--target", "llama-bench", "--parallel", str(threads)])
        probe = subprocess.run([str(program), "-m", str(model), "-t", str(threads), "-p", "64", "-n", "0", "-r", "1"],
                               capture_output=True, check=False)
        if probe.returncode == 0:
            return program, "GGML_NATIVE=ON" + (f" {flags}: with AMX it stops here (exit {before})" if flags else "")
        before = probe.returncode
    raise SystemExit(f"llama-bench does not run here (exit {probe.returncode})")


def make_torch(work):
    """A Python with torch in a virtual environment of its own."""
    python = work / "torch" / "bin" / "python3"
    ready = work / "torch" / "ready"  # holds what was installed
    if not ready.exists() or ready.read_text().split() != TORCH_PACKAGES:
        say("Fetching torch and transformers: about 1 GB")
        run([sys.executable, "-m", "venv", work / "torch"])
        run([python, "-m", "pip", "install", "--quiet", *TORCH_PACKAGES])
        ready.write_text(" ".join(TORCH_PACKAGES))
    return python


TORCH_PROGRAM = """
import json, os, sys, time
import torch
from transformers import AutoModelForCausalLM
threads, folder, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
import transformers
print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}), flush=True)
with torch.inference_mode():
    for line in sys.stdin:
        request = json.loads(line)
        ids = torch.tensor([request["ids"]])
        if request["what"] == "nll":
            logits = model(ids).logits[0].double()
            print(json.dumps(torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:]).item()), flush=True)
        else:
            begin = time.perf_counter()
            model(ids, logits_to_keep=1, use_cache=False)
            print(json.dumps(time.perf_counter() - begin), flush=True)
"""


class Torch:
    """One process that holds the model; asked over a pipe, so that loading is not timed."""

    def __init__(self, python, threads, model):
        self.process = subprocess.Popen([str(python), "-c", TORCH_PROGRAM, str(threads), str(model.parent), model.name],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"})
        self.versions = json.loads(self.answer())

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the torch process ended with {self.process.wait()}")
        return line

    def ask(self, what, ids):
        self.process.stdin.write(json.dumps({"what": what, "ids": ids}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.answer())


class Bench:
    def __init__(self, options):
        self.options = options
        self.ropewalk = options.root / "build" / "ropewalk"
        self.work = options.cache / "rivals"
        self.work.mkdir(parents=True, exist_ok=True)
        self.rows = []
        self.notes = []

    def own(self, model, length, precision, decode=False):
        command = [self.ropewalk, "bench", "model", model, "--lengths", length, "--precision", precision, "--runs", "2",
                   "--seconds", "0.1s", "--threads", self.options.threads, "--json", "-", "--quiet"]
        rows = json.loads(run(command + ([] if decode else ["--no-decode"])))["rows"]
        row = rows[-1] if decode else rows[0]
        right(row)
        return row["tokens_per_second"]

    def llama(self, model, *arguments):
        out = run([self.llama_bench, "-m", model, "-t", self.options.threads, "-r", "1", "-o", "json", *arguments])
        return json.loads(out)[0]["avg_ts"]

    def add(self, title, work, rival, target, rounds):
        """rounds: [{name: tokens per second}]"""
        ours = statistics.median(r["fast"] for r in rounds)
        theirs = statistics.median(r[rival] for r in rounds)
        ratios = sorted(r["fast"] / r[rival] for r in rounds)
        exact = statistics.median(r["exact"] for r in rounds)
        self.rows.append((title, work, ours, exact, rival, theirs, statistics.median(ratios), ratios[0], ratios[-1], target))
        say(f"  {title}, {work}: {ours:.1f} (exact {exact:.1f}) against {theirs:.1f} ({rival}): {self.rows[-1][6]:.2f}x")

    def measure(self):
        o = self.options
        torch = None
        files = {name: o.cache / MODELS[name] for name in o.models}
        self.llama_bench, self.llama_build = build_llama(self.work, o.threads, files[o.models[0]])
        if not o.no_torch and "smollm2" in files:
            torch = Torch(make_torch(self.work), o.threads, files["smollm2"])
            self.check_torch(torch, files["smollm2"])
        for name, model in files.items():
            for length in o.lengths if name == "smollm2" else [n for n in o.lengths if n <= LONG]:
                with_torch = torch is not None and name == "smollm2" and length == max(o.lengths)
                rounds = []
                for _ in range(1 if length > LONG else o.rounds):
                    one = {"fast": self.own(model, length, "fast"), "llama.cpp": self.llama(model, "-p", length, "-n", 0, *(["--no-warmup"] if length > LONG else [])),
                           "exact": self.own(model, length, "exact")}
                    if with_torch:
                        one["torch f32"] = length / torch.ask("time", [i % 1000 + 100 for i in range(length)])
                    rounds.append(one)
                self.add(TITLES[name], f"prompt of {length}", "llama.cpp", 3.5 if name == "smollm2" else 1.5, rounds)
                if with_torch:
                    self.add(TITLES[name], f"prompt of {length}", "torch f32", 1.8, rounds)
            rounds = [{"fast": self.own(model, DECODE_BEHIND, "fast", decode=True),
                       "llama.cpp": self.llama(model, "-p", 0, "-n", 32, "-d", DECODE_BEHIND),
                       "exact": self.own(model, DECODE_BEHIND, "exact", decode=True)} for _ in range(o.rounds)]
            self.add(TITLES[name], f"one token after another, {DECODE_BEHIND} in the cache", "llama.cpp", None, rounds)

    def check_torch(self, torch, model):
        text = self.options.cache / TEXT
        out = json.loads(run([self.ropewalk, "tokens", model, "--text", text, "--json", "-", "--quiet"]))
        theirs = torch.ask("nll", out["ids"][:512])
        mine = json.loads(run([self.ropewalk, "eval", model, "--text", text, "--lengths", "512", "--windows", "1", "--precision",
                               "exact", "--rope", "none", "--json", "-", "--quiet"]))
        ours = mine["settings"][0]["nll"]
        if abs(ours - theirs) > 1e-3:
            raise SystemExit(f"torch computes another loss: {theirs} against {ours}")
        self.notes.append(f"Loss of the first 512 tokens of Hamlet: PyTorch {theirs:.5f}, Ropewalk {ours:.5f}.")
        self.versions = torch.versions

    def limits(self):
        """The library's own figures against the machine's limits."""
        kinds = [["stream"], ["peak"], ["rope"],
                 ["attention", "--tokens", "4096", "--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--precision", "f32"],
                 ["attention", "--tokens", "4096", "--heads", "32", "--kv-heads", "8", "--head-dim", "128", "--precision", "bf16"]]
        rows = []
        for kind in kinds:
            for row in json.loads(run([self.ropewalk, "bench", *kind, "--json", "-", "--quiet"]))["rows"]:
                right(row)
                rows.append((kind[0], row))
        return rows


def page(bench, limits, info):
    machine = info["machine"]
    lines = [
        "# Performance", "",
        "Written by `tools/bench_rivals.sh --write docs/performance.md`; run it to get your machine's figures. Every answer is checked",
        "before it is timed.", "",
        f"Machine: {machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, {machine['simd']}"
        f"{', bf16 dot product' if machine['bf16_dot'] else ''}, {machine['memory_bytes'] / 1e9:.0f} GB. "
        f"Date: {datetime.date.today().isoformat()}. Ropewalk {info['ropewalk']}.", "",
        "## Against rivals", "",
        f"Tokens a second, medians of rounds in turns; ratio: median (lowest, highest) of the rounds' ratios of `--precision fast`. llama.cpp",
        f"is that of PyPI's llama-cpp-python {LLAMA.version}, {bench.llama_build}.",
    ]
    if hasattr(bench, "versions"):
        lines.append(f"torch {bench.versions['torch']} and transformers {bench.versions['transformers']} run the de-quantized float32 weights.")
    lines += bench.notes
    lines += ["", "| model | work | fast | exact | rival | rival's | ratio | target |", "|---|---|---|---|---|---|---|---|"]
    for title, work, ours, exact, rival, theirs, ratio, low, high, target in bench.rows:
        lines.append(f"| {title} | {work} | {ours:.0f} | {exact:.0f} | {rival} | {theirs:.0f} | **{ratio:.2f}** ({low:.2f}, {high:.2f}) | "
                     f"{'' if target is None else target} |")
    lines += ["", "## Against the machine's own limits", "", "| `ropewalk bench` | case | median | rate | limit | of the limit |", "|---|---|---|---|---|---|"]
    for kind, row in limits:
        case = " ".join(f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in row["case"].items() if key != "threads")
        lines.append(f"| {kind}{'' if row['name'] == kind else ' ' + row['name']} | {case} | {row['median_ms']:.2f} ms | {row['value']:.1f} {row['unit']} | "
                     f"{row['limit']:.1f} | {row['fraction_of_limit']:.2f} |")
    return "\n".join(lines) + "\n"


def lengths(text):
    return [int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS), help="of smollm2,gemma")
    parser.add_argument("--lengths", type=lengths, default=[512, 4096, 16384], help="of prompts")
    parser.add_argument("--rounds", type=int, default=3, help=f"one beyond {LONG} tokens")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--no-torch", action="store_true", help="only llama.cpp")
    parser.add_argument("--write", type=pathlib.Path, help="write the page here instead of to standard output")
    options = parser.parse_args()
    if unknown := [name for name in options.models if name not in MODELS]:
        parser.error(f"--models: expected of {','.join(MODELS)}, but got {unknown[0]}")
    bench = Bench(options)
    info = json.loads(run([bench.ropewalk, "info", "--json", "-", "--quiet"]))
    bench.measure()
    text = page(bench, bench.limits(), info)
    if options.write is None:
        print(text, end="")
        return
    partial = options.write.with_suffix(".part")
    partial.write_text(text)
    partial.replace(options.write)
    say(f"Wrote {options.write}")


if __name__ == "__main__":
    try:
        main()
    except fetch_models.FetchError as error:
        raise SystemExit(f"bench_rivals.py: {error}") from None
