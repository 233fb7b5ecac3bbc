#!/usr/bin/env python3
"""Prints what tokenizer_plays_test.cc expects: ids of all folio plays as independent tokenizers see them.

The plays, in the order of their names, are read as Latin-1 and written as UTF-8, one behind the other. For each model: the number
of ids, and the CRC-32 of the ids as little-endian int32.
Made with tokenizers 0.23.3 (SmolLM2's vocabulary and merges, Digits and ByteLevel), sentencepiece 0.2.3 (Gemma's pieces) and
gguf 0.19.0: python3 golden_plays.py CACHE, where CACHE is the folder of scripts/fetch_models.sh.
"""
import pathlib
import struct
import sys
import zlib

import gguf
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src/formats/tokenizer"))
from golden import model_proto  # noqa: E402


def field(reader, key):
    return reader.fields["tokenizer.ggml." + key].contents()


def smollm(path):
    reader = gguf.GGUFReader(path)
    vocab = {piece: i for i, piece in enumerate(field(reader, "tokens"))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in field(reader, "merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def gemma(path):
    reader = gguf.GGUFReader(path)
    rows = zip(field(reader, "tokens"), field(reader, "scores"), field(reader, "token_type"))
    # The file holds user-defined pieces with plain spaces; sentencepiece wants them escaped.
    pieces = [(p.replace(" ", "\u2581") if kind == 4 else p, score, kind) for p, score, kind in rows]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_proto(pieces, prefix=False, fallback=True, unk=3, bos=2, eos=1))
    return processor.encode


def main():
    cache = pathlib.Path(sys.argv[1])
    text = "".join(path.read_bytes().decode("latin-1") for path in sorted((cache / "plays").glob("*.txt")))
    for make, name in ((smollm, "smollm2-135m-instruct-q4_1.gguf"), (gemma, "gemma-3-270m-q4_k_m.gguf")):
        ids = make(cache / name)(text)
        print(name, len(ids), f"{zlib.crc32(struct.pack(f'<{len(ids)}i', *ids)):08x}", flush=True)


if __name__ == "__main__":
    main()
