#!/usr/bin/env python3
"""Golden data for dequantization: blocks with random bytes and extreme scales, expanded by the Python package gguf.

Usage: golden.py > golden_dequantize.txt      (needs: pip install gguf==0.19.0 numpy)

One line a type: name, the blocks in hex, the f32 results in hex (bits, big-endian digits). NaN is written as 7fc00000.
Two blocks a type are random; then one block for each extreme f16 scale (smallest subnormal, largest, negative zero, infinity, NaN), in
the small types only, to keep the file small.
"""
import importlib.metadata
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS]
# Where the f16 scales lie in a block.
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.IQ4_NL: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_XS: [0]}
EXTREMES = [0x0001, 0x7BFF, 0x8000, 0x7C00, 0x7E01]


def blocks_of(kind, rng):
    elements, size = GGML_QUANT_SIZES[kind]
    if elements == 1:  # every class of value, and enough of them for a vector loop and its tail
        values = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0x7F80, 0xFF80, 0x7FC0, 0x0080]
        values += list(rng.integers(0, 0x7C00, 24))
        return np.array(values, dtype="<u2").tobytes()
    out = b""
    for extreme in [None, None] + (EXTREMES if elements == 32 else []):
        block = bytearray(rng.integers(0, 256, size, dtype=np.uint8).tobytes())
        for at in SCALES[kind]:
            scale = np.float16(rng.uniform(-0.1, 0.1)).view(np.uint16) if extreme is None else np.uint16(extreme)
            block[at:at + 2] = int(scale).to_bytes(2, "little")
        out += bytes(block)
    return out


def main():
    rng = np.random.default_rng(20240601)
    print(f"# made by golden.py with gguf {importlib.metadata.version('gguf')}, numpy {np.__version__}")
    for kind in TYPES:
        data = blocks_of(kind, rng)
        with np.errstate(all="ignore"):
            if kind == T.BF16:
                values = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
            else:
                values = dequantize(np.frombuffer(data, np.uint8) if kind != T.F16 else np.frombuffer(data, np.float16), kind)
        values = np.asarray(values, np.float32).reshape(-1)
        bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
        print(kind.name, data.hex(), "".join(f"{int(b):08x}" for b in bits))


if __name__ == "__main__":
    sys.exit(main())
