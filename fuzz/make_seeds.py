#!/usr/bin/env python3
"""Seeds for the fuzzers of the file readers: make_seeds.py FOLDER writes FOLDER/{gguf,safetensors,hf_config,tokenizer_json}/*.

Small well-formed files that reach every branch of the readers; the fuzzers break them.
"""
import json
import pathlib
import struct
import sys


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf(keys, tensors, version=3, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        head += text(name) + struct.pack("<I", kind) + value
    data = b""
    for name, dims, kind, size in tensors:
        data += b"\0" * (-len(data) % alignment)
        head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        head += struct.pack("<IQ", kind, len(data))
        data += bytes(i * 37 % 251 for i in range(size))
    return head + b"\0" * (-len(head) % alignment) + data


def gguf_seeds():
    architecture = ("general.architecture", 8, text("llama"))
    scalars = [("u8", 0, b"\x07"), ("i8", 1, b"\xff"), ("u16", 2, b"\x01\x02"), ("i16", 3, b"\xfe\xff"), ("u32", 4, struct.pack("<I", 9)),
               ("i32", 5, struct.pack("<i", -9)), ("f32", 6, struct.pack("<f", 1.5)), ("bool", 7, b"\x01"), ("string", 8, text("x")),
               ("u64", 10, struct.pack("<Q", 1)), ("i64", 11, struct.pack("<q", -1)), ("f64", 12, struct.pack("<d", 0.5))]
    arrays = [("a" + n, 9, struct.pack("<IQ", k, 1) + v) for n, k, v in scalars]
    position = [("llama.rope.freq_base", 6, struct.pack("<f", 1e5)), ("llama.embedding_length", 4, struct.pack("<I", 64)),
                ("llama.attention.head_count", 4, struct.pack("<I", 8)), ("llama.rope.dimension_count", 4, struct.pack("<I", 8)),
                ("general.alignment", 4, struct.pack("<I", 64))]
    sizes = [(0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84), (11, 256, 110),
             (12, 256, 144), (13, 256, 176), (14, 256, 210), (20, 32, 18), (23, 256, 136), (30, 1, 2)]
    yield gguf([], [])
    yield gguf([architecture] + scalars, [])
    yield gguf([architecture] + arrays, [], version=2)
    yield gguf([architecture] + position, [("w", [32, 2], 8, 68), ("v", [3], 0, 12)], alignment=64)
    for kind, elements, size in sizes:
        yield gguf([], [(f"t{kind}", [elements, 2], kind, 2 * size)])


def safetensors_seeds():
    def whole(header, size):
        body = json.dumps(header).encode()
        return struct.pack("<Q", len(body)) + body + bytes(size)

    yield whole({}, 0)
    yield whole({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                 "b": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]}, "c": {"dtype": "F16", "shape": [0], "data_offsets": [20, 20]}}, 20)
    yield json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}).encode()


def config_seeds():
    base = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 2,
            "max_position_embeddings": 4096, "rope_theta": 10000.0}
    yield base
    yield base | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                   "original_max_position_embeddings": 8192}, "partial_rotary_factor": 0.5, "eos_token_id": [1, 2]}
    yield base | {"rope_scaling": {"type": "longrope", "short_factor": [1.0, 2], "long_factor": [1, 2.5]}, "head_dim": 8, "hidden_act": "silu"}
    yield base | {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512, "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "truncate": False}, "sliding_attention": {"rope_type": "default"}}}
    yield {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 7, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
           "torch_dtype": "bfloat16"}
    yield {**base, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1, "tie_word_embeddings": True}


def tokenizer_json_seeds():
    def bpe(**more):
        return {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<s>": 3, "\u2581": 4, "<0xC3>": 5, "\u0120": 6}, "merges": [["a", "b"]], **more}

    split = {"type": "Split", "pattern": {"Regex": " ?\\p{L}+|\\s+"}, "behavior": "MergedWithPrevious", "invert": True}
    added = [{"id": 3, "content": "<s>", "special": True, "normalized": False, "lstrip": True, "rstrip": True, "single_word": True}]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]}
    yield {"model": bpe(byte_fallback=True, fuse_unk=True, unk_token="<s>"), "added_tokens": added, "post_processor": template,
           "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                              {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}}, {}
    yield {"model": bpe(ignore_merges=True), "normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, split, {"type": "ByteLevel", "add_prefix_space": True}]}}, {
            "bos_token": {"content": "<s>"}, "add_bos_token": True, "chat_template": [{"name": "default", "template": "x"}]}
    yield {"model": bpe(merges=["a b"]), "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}}, {}


def main():
    root = pathlib.Path(sys.argv[1])
    seeds = {"gguf": gguf_seeds(), "safetensors": safetensors_seeds(), "hf_config": (json.dumps(c).encode() for c in config_seeds()),
             "tokenizer_json": (b"\0".join(json.dumps(c).encode() for c in pair) for pair in tokenizer_json_seeds())}
    for name, files in seeds.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for i, data in enumerate(files):
            (folder / f"seed{i:02}").write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
