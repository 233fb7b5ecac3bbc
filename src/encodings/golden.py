#!/usr/bin/env python3
"""Golden data of the encodings: attention outputs and tables by implementations that are not ours.

transformers (its version is written into the file) where it has the encoding; else the paper's formula in NumPy double. Inputs
are sines of whole numbers, so both sides form them alike. Run: python3 src/encodings/golden.py > src/encodings/golden/encodings.json
"""

import json
import math
import sys

import numpy
import torch
import transformers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.speech_to_text.modeling_speech_to_text import Speech2TextSinusoidalPositionalEmbedding
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention


def waves(count, start, scale=1.0):
    """scale * sin(start + 0.7 i), rounded to float32: what tests/encodings_golden_test.cc forms as well."""
    return (scale * numpy.sin(start + 0.7 * numpy.arange(count))).astype(numpy.float32).astype(numpy.float64)


def inputs(tokens, heads, key_heads, dim):
    q = waves(tokens * heads * dim, 1).reshape(tokens, heads, dim)
    k = waves(tokens * key_heads * dim, 2).reshape(tokens, key_heads, dim)
    v = waves(tokens * key_heads * dim, 3).reshape(tokens, key_heads, dim)
    group = heads // key_heads
    return q, k.repeat(group, axis=1), v.repeat(group, axis=1)


def attention(q, k, v, scale, term=None, causal=True, value_term=None, whole=False, visible=None):
    """term(h) [T][T] is added to head h's scores (whole: it is them), value_term(h) [T][T][D] to the values of a pair."""
    tokens, heads, dim = q.shape
    out = numpy.zeros((tokens, heads, dim))
    for h in range(heads):
        scores = scale * q[:, h] @ k[:, h].T if not whole else 0
        if term is not None:
            scores = scores + term(h)
        if causal:
            scores = numpy.where(numpy.tril(numpy.ones((tokens, tokens), bool)), scores, -numpy.inf)
        if visible is not None:
            scores = numpy.where(visible, scores, -numpy.inf)
        weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        out[:, h] = weights @ v[:, h]
        if value_term is not None:
            out[:, h] += numpy.einsum("mn,mnd->md", weights, value_term(h))
    return out


CASES = []


def case(encoding, term, *, tokens=9, heads=6, key_heads=3, dim=8, first=0, causal=True, scale=None, weights=None, value_term=None,
         source="formula in NumPy double", whole=False, visible=None, queries=None, types=None, axes=None):
    q, k, v = inputs(tokens, heads, key_heads, dim)
    used = 1 / math.sqrt(dim) if scale is None else scale
    positions = numpy.arange(first, first + tokens)
    out = attention(q, k, v, used, None if term is None else lambda h: term(h, positions, q[:, h], k[:, h], used), causal,
                    None if value_term is None else lambda h: value_term(h, positions), whole,
                    None if visible is None else visible(positions))
    out = out[tokens - (queries or tokens):]
    CASES.append({"encoding": encoding, "tokens": tokens, "heads": heads, "key_heads": key_heads, "dim": dim, "first": first,
                  "causal": causal, "scale": used, "weights": weights or [], "source": source,
                  "queries": queries or tokens, "types": types or [], "axes": axes or [],
                  "out": [float(f"{x:.7g}") for x in out.ravel()]})


def distance(positions):
    return positions[:, None] - positions[None, :]


def bloom(heads):
    slopes = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32).reshape(heads, 2)[:, 1].double().numpy()
    return slopes


def alibi():
    for heads, key_heads in ((6, 3), (12, 4), (40, 8), (4, 1)):
        slopes = bloom(heads)
        # Key-only: slope * n. Equal under softmax to -slope |m - n| where keys ahead are masked.
        case("alibi", lambda h, p, q, k, s: numpy.broadcast_to(slopes[h] * p, (len(p), len(p))), heads=heads, key_heads=key_heads,
             first=100, source=f"transformers {transformers.__version__} build_alibi_tensor (BLOOM, key-only)")
    case("alibi:max=12", lambda h, p, q, k, s: -2.0 ** (-12 * (h + 1) / 8) * abs(distance(p)), heads=8, key_heads=2, causal=False)


def t5():
    for bidirectional in (0, 1):
        config = T5Config(relative_attention_num_buckets=32, relative_attention_max_distance=128, num_heads=6, d_model=48, d_kv=8,
                          is_decoder=not bidirectional)
        layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        table = waves(32 * 6, 5)
        with torch.no_grad():
            layer.relative_attention_bias.weight.copy_(torch.from_numpy(table.reshape(32, 6)))
        bias = layer.compute_bias(40, 40)[0].detach().double().numpy()
        case(f"t5:bidirectional={bidirectional}", lambda h, p, q, k, s: bias[h], tokens=40, scale=1.0, causal=not bidirectional,
             weights=[{"name": "table", "shape": [32, 6], "start": 5, "scale": 1}],
             source=f"transformers {transformers.__version__} T5Attention.compute_bias")


def t5_edges():
    """The distances at which the bucket changes, to 2^20 on both sides."""
    found = []
    for buckets, longest in ((32, 128), (64, 256), (320, 800)):
        for bidirectional in (False, True):
            offsets = torch.arange(-(2**20), 2**20 + 1)
            bucket = T5Attention._relative_position_bucket(offsets, bidirectional=bidirectional, num_buckets=buckets,
                                                           max_distance=longest)
            change = torch.nonzero(bucket[1:] != bucket[:-1]).ravel() + 1
            # As d = -offset: [first offset of the run, its bucket].
            runs = [[int(offsets[0]), int(bucket[0])]] + [[int(offsets[i]), int(bucket[i])] for i in change]
            found.append({"buckets": buckets, "max": longest, "bidirectional": bidirectional, "runs": runs})
    return found


def kerple_and_others():
    r1, r2 = numpy.abs(waves(6, 4, 0.5)) + 0.1, numpy.abs(waves(6, 5, 0.9)) + 0.05
    given = [{"name": "r1", "shape": [6], "start": 4, "scale": 0.5, "abs": 0.1}, {"name": "r2", "shape": [6], "start": 5, "scale": 0.9, "abs": 0.05}]
    as_float = lambda x: float(numpy.float32(x))
    case("kerple_log", lambda h, p, q, k, s: -as_float(r1[h]) * numpy.log(1 + as_float(r2[h]) * abs(distance(p))), weights=given, first=1000,
         causal=False)
    case("kerple_power", lambda h, p, q, k, s: -as_float(r1[h]) * abs(distance(p)).astype(float) ** as_float(r2[h]), weights=given)
    planes = 10000.0 ** (-2 * numpy.arange(16) / 32)
    case("sandwich:dims=32", lambda h, p, q, k, s: (numpy.cos(distance(p)[..., None] * planes).sum(-1) - 16) / (8 * (h + 1) / 6), tokens=30)


def fire():
    w1, b1, w2, b2 = waves(32, 1), waves(32, 2, 0.5), waves(6 * 32, 3, 0.3).reshape(6, 32), waves(6, 4)

    def term(h, p, q, k, s, c=float(numpy.float32(0.3)), threshold=20.0):
        psi = lambda x: numpy.log(numpy.abs(c * x) + 1)
        z = psi(distance(p).astype(float)) / (psi(numpy.maximum(p.astype(float), threshold)) + 1e-6)[:, None]
        return numpy.maximum(z[..., None] * w1 + b1, 0) @ w2[h] + b2[h]
    given = [{"name": "c", "shape": [1], "values": [0.3]}, {"name": "threshold", "shape": [1], "values": [20.0]},
             {"name": "w1", "shape": [32], "start": 1, "scale": 1}, {"name": "b1", "shape": [32], "start": 2, "scale": 0.5},
             {"name": "w2", "shape": [6, 32], "start": 3, "scale": 0.3}, {"name": "b2", "shape": [6], "start": 4, "scale": 1}]
    for first in (0, 500):
        case("fire", term, weights=given, first=first, tokens=30, source="code of arXiv:2310.04418, appendix, in NumPy double")


def shaw():
    for reach, value, query, per_head, bert, causal in ((4, 1, 0, 0, 0, False), (2, 0, 0, 0, 1, True), (8, 0, 1, 0, 1, False), (3, 1, 0, 1, 0, True)):
        heads, dim, rows = 6, 8, 2 * reach + 1
        shape = [heads, rows, dim] if per_head else [rows, dim]
        tables = {name: waves(numpy.prod(shape), start, 0.5).reshape(shape) for name, start in (("key", 6), ("value", 7))}

        def vectors(name, h, p):
            r = numpy.clip(distance(p) if bert else -distance(p), -reach, reach) + reach
            return (tables[name][h] if per_head else tables[name])[r]

        def term(h, p, q, k, s):
            extra = numpy.einsum("md,mnd->mn", q, vectors("key", h, p))
            if query:
                extra += numpy.einsum("nd,mnd->mn", k, vectors("key", h, p))
            return s * extra
        given = [{"name": "key", "shape": shape, "start": 6, "scale": 0.5}] + ([{"name": "value", "shape": shape, "start": 7, "scale": 0.5}] if value else [])
        case(f"shaw:reach={reach}:value={value}:query={query}:per_head={per_head}:bert={bert}", term, tokens=20, causal=causal, weights=given,
             value_term=(lambda h, p: vectors("value", h, p)) if value else None)


def xl():
    heads, dim, width = 6, 8, 48
    wr = waves(width * heads * dim, 8, 0.2).reshape(width, heads, dim)
    u, v = waves(heads * dim, 9, 0.5).reshape(heads, dim), waves(heads * dim, 10, 0.5).reshape(heads, dim)
    frequencies = 10000.0 ** (-2 * numpy.arange(width // 2) / width)

    def term(h, p, q, k, s):
        angles = distance(p)[..., None] * frequencies
        r = numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=-1) @ wr[:, h]
        return s * (u[h] @ k.T + numpy.einsum("md,mnd->mn", q + v[h], r))
    given = [{"name": "wr", "shape": [width, heads, dim], "start": 8, "scale": 0.2}, {"name": "u", "shape": [heads, dim], "start": 9, "scale": 0.5},
             {"name": "v", "shape": [heads, dim], "start": 10, "scale": 0.5}]
    for causal in (True, False):
        case("xl", term, tokens=20, causal=causal, weights=given, first=7)


def deberta():
    heads, dim = 6, 8
    for span, longest, paper in ((4, 0, 0), (4, 0, 1), (8, 16, 0)):
        kr, qr = waves(2 * span * heads * dim, 11, 0.5).reshape(-1, heads, dim), waves(2 * span * heads * dim, 12, 0.5).reshape(-1, heads, dim)

        def delta(x):
            if longest:
                x = make_log_bucket_position(torch.from_numpy(x), span, longest).numpy().astype(int)
            return numpy.clip(x + span, 0, 2 * span - 1)

        def term(h, p, q, k, s):
            d = distance(p)
            c2p = numpy.einsum("md,mnd->mn", q, kr[delta(d), h])
            return s * (c2p + numpy.einsum("nd,mnd->mn", k, qr[delta(-d if paper else d), h]))
        given = [{"name": "kr", "shape": [2 * span, heads, dim], "start": 11, "scale": 0.5}, {"name": "qr", "shape": [2 * span, heads, dim], "start": 12, "scale": 0.5}]
        case(f"deberta:span={span}:max={longest}:paper={paper}", term, tokens=30, causal=False, scale=1 / math.sqrt(3 * dim), weights=given,
             source=f"buckets of transformers {transformers.__version__} (deberta_v2), the rest in NumPy double")


def turn(x, positions, frequencies, interleaved=False):
    """The rotation as one complex product a plane; positions [T] or [T][planes]."""
    planes = len(frequencies)
    z = x[:, 0:2 * planes:2] + 1j * x[:, 1:2 * planes:2] if interleaved else x[:, :planes] + 1j * x[:, planes:2 * planes]
    positions = numpy.asarray(positions, float)
    z = z * numpy.exp(1j * (positions[:, None] if positions.ndim == 1 else positions) * frequencies)
    if interleaved:
        return numpy.stack([z.real, z.imag], axis=-1).reshape(len(x), -1)
    return numpy.concatenate([z.real, z.imag], axis=1)


def frequencies_of(dim, theta=10000.0):
    return theta ** (-2 * numpy.arange(dim // 2) / dim)


def rotary(positions_of=None, interleaved=False, dim=8, theta=10000.0):
    """Scores of keys and queries turned by (m, n) = positions_of(m, n), pair by pair."""
    f = frequencies_of(dim, theta)

    def scores(h, p, q, k, s):
        if positions_of is None:
            return s * turn(q, p, f, interleaved) @ turn(k, p, f, interleaved).T
        out = numpy.empty((len(p), len(p)))
        for i, m in enumerate(p):
            for j, n in enumerate(p):
                at_m, at_n = positions_of(int(m), int(n))
                out[i, j] = s * turn(q[i:i + 1], [at_m], f)[0] @ turn(k[j:j + 1], [at_n], f)[0]
        return out
    return scores


def llama():
    """Meta's Llama 3 attention re-derived: frequencies and products in complex64, repeated key heads, a cache before the queries,
    a causal mask. And transformers' two products."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    def meta(h, p, q, k, s):
        angles = torch.outer(torch.from_numpy(p).float(), 1.0 / (500000.0 ** (torch.arange(0, 8, 2)[:4].float() / 8)))
        cis = torch.polar(torch.ones_like(angles), angles)
        turned = [torch.view_as_real(torch.view_as_complex(torch.from_numpy(x).float().reshape(len(p), 4, 2)) * cis).reshape(len(p), 8)
                  for x in (q, k)]
        return s * (turned[0] @ turned[1].T).double().numpy()

    def hf(h, p, q, k, s):
        angles = torch.outer(torch.from_numpy(p).float(), 1.0 / (10000.0 ** (torch.arange(0, 8, 2).float() / 8)))
        both = torch.cat([angles, angles], dim=-1)[None]
        a, b = apply_rotary_pos_emb(torch.from_numpy(q).float()[None, None], torch.from_numpy(k).float()[None, None], both.cos(), both.sin())
        return s * (a[0, 0] @ b[0, 0].T).double().numpy()
    for first, queries in ((0, None), (40, 3), (7, 1)):
        case("rope:theta=500000:interleaved=1", meta, whole=True, first=first, queries=queries, tokens=12,
             source=f"Meta's Llama 3 attention re-derived, complex64 of torch {torch.__version__}")
        case("rope", hf, whole=True, first=first, queries=queries, tokens=12,
             source=f"transformers {transformers.__version__} apply_rotary_pos_emb")


def rotary_family():
    case("rope:interleaved=1", rotary(interleaved=True), whole=True, first=1000000, causal=False)
    # Long range: both factors of xPos alone leave the range of a float.
    for first in (0, 5, 10 ** 6):
        def xpos(h, p, q, k, s):
            f = frequencies_of(8)
            zeta = (2 * numpy.arange(4) / 8 + 0.4) / 1.4
            d = distance(p)
            zq, zk = q[:, 0::2] + 1j * q[:, 1::2], k[:, 0::2] + 1j * k[:, 1::2]
            return s * (zq[:, None] * zk.conj()[None] * numpy.exp(1j * d[..., None] * f) * zeta ** (d[..., None] / 512)).real.sum(-1)
        case("xpos", xpos, whole=True, first=first, tokens=30)
    # Three axes; sections [2, 1, 1] and in turns.
    axes = [[0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7], [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7], [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7]]
    for text, axis in (("mrope:time=2:height=1:width=1", [0, 0, 1, 2]), ("mrope:time=2:height=1:width=1:turns=1", [0, 1, 2, 0])):
        at = numpy.array(axes)[axis].T
        case(text, lambda h, p, q, k, s: s * turn(q, at, frequencies_of(8)) @ turn(k, at, frequencies_of(8)).T, whole=True, tokens=11, axes=axes)
    grid = [[n // 4 for n in range(12)], [n % 4 for n in range(12)]]
    f = frequencies_of(8)
    for text, used in (("rope_2d", f[[0, 2, 1, 3]]), ("rope_2d:alternate=0", f[[0, 2, 0, 2]])):
        at = numpy.array(grid)[[0, 0, 1, 1]].T
        case(text, lambda h, p, q, k, s: s * turn(q, at, used) @ turn(k, at, used).T, whole=True, tokens=12, axes=grid, causal=False)
    plain = rotary()
    case("logn:length=16", lambda h, p, q, k, s: plain(h, p, q, k, s) * numpy.maximum(1, numpy.log(p + 1) / math.log(16))[:, None],
         whole=True, first=10, tokens=20)
    case("temperature:length=8:theta=0", lambda h, p, q, k, s: s * q @ k.T * (1 + 0.1 * numpy.log(1 + (p + 1) // 8))[:, None], whole=True,
         first=3, tokens=30, source="transformers' llama4 formula in NumPy double")
    case("temperature:length=8:ministral=1", lambda h, p, q, k, s: plain(h, p, q, k, s) * (1 + 0.1 * numpy.log(1 + p // 8))[:, None],
         whole=True, first=3, tokens=30, source="transformers' ministral3 formula in NumPy double")


def pair_rules():
    case("window:window=5", rotary(), whole=True, tokens=20, visible=lambda p: distance(p) < 5)
    case("chunked:chunk=6", rotary(), whole=True, tokens=20, first=3, visible=lambda p: p[:, None] // 6 == p[None, :] // 6)
    group, window = 3, 5
    far = lambda m, n: (m // group + window - window // group, n // group)
    case("self_extend:group=3:window=5", rotary(lambda m, n: (m, n) if m - n < window else far(m, n)), whole=True, tokens=24, first=2)
    case("rerope:window=5", rotary(lambda m, n: (m, n) if m - n < window else (window, 0)), whole=True, tokens=24, first=2)
    case("rerope:window=5:leak=4", rotary(lambda m, n: (m, n) if m - n < window else (window + (m - n - window) / 4, 0)), whole=True, tokens=24,
         first=2)
    keep, window_of_sinks = 3, 6
    place = lambda m, n: (m, n) if m - n < window_of_sinks else (min(m, keep + window_of_sinks - 1), n)
    case("sinks:keep=3:window=6", rotary(place), whole=True, tokens=24,
         visible=lambda p: (distance(p) < window_of_sinks) | (p[None, :] < keep))
    chunk, near, trained = 6, 3, 10

    def dual(m, n):
        if m // chunk == n // chunk:
            return m % chunk, n % chunk
        if m // chunk == n // chunk + 1 and m % chunk < near:
            return min(m % chunk + chunk, trained - 1), n % chunk
        return trained - 1, n % chunk
    case(f"dual_chunk:chunk={chunk}:window={near}:trained={trained}", rotary(dual), whole=True, tokens=30)


def contextual():
    table = waves(5 * 8, 13, 0.4).reshape(5, 8)

    def cope(h, p, q, k, s):
        """The authors' code (arXiv:2405.18719, appendix), on scaled and masked scores."""
        scores = s * q @ k.T
        scores = numpy.where(distance(p) >= 0, scores, -numpy.inf)
        gates = 1 / (1 + numpy.exp(-scores))
        at = numpy.minimum(numpy.flip(numpy.cumsum(numpy.flip(gates, -1), -1), -1), len(table) - 1)
        low, high = numpy.floor(at).astype(int), numpy.ceil(at).astype(int)
        products = q @ table.T
        w = at - low
        return scores + numpy.take_along_axis(products, high, 1) * w + numpy.take_along_axis(products, low, 1) * (1 - w)
    case("cope:positions=5", cope, whole=True, tokens=20, weights=[{"name": "embedding", "shape": [5, 8], "start": 13, "scale": 0.4}])

    heads, dim, width = 6, 8, 48
    wr = waves(width * heads * dim, 8, 0.2).reshape(width, heads, dim)
    u, v = waves(heads * dim, 9, 0.5).reshape(heads, dim), waves(heads * dim, 10, 0.5).reshape(heads, dim)
    bias, segment = waves(heads * dim, 11, 0.5).reshape(heads, dim), waves(2 * heads * dim, 12, 0.5).reshape(2, heads, dim)
    types = [0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 0]

    def xlnet(h, p, q, k, s):
        angles = distance(p)[..., None] * 10000.0 ** (-2 * numpy.arange(width // 2) / width)
        r = numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], axis=-1) @ wr[:, h]
        other = (numpy.array(types)[:, None] != numpy.array(types)[None, :]).astype(int)
        by_segment = (q + bias[h]) @ segment[:, h].T
        return s * (u[h] @ k.T + numpy.einsum("md,mnd->mn", q + v[h], r) + numpy.take_along_axis(by_segment, other, 1))
    shape = [heads, dim]
    given = [{"name": "wr", "shape": [width, heads, dim], "start": 8, "scale": 0.2}, {"name": "u", "shape": shape, "start": 9, "scale": 0.5},
             {"name": "v", "shape": shape, "start": 10, "scale": 0.5}, {"name": "s", "shape": shape, "start": 11, "scale": 0.5},
             {"name": "segment", "shape": [2, heads, dim], "start": 12, "scale": 0.5}]
    case("xlnet", xlnet, tokens=12, causal=False, weights=given, types=types)


def complex_words():
    """Scores of complex numbers held in turns. The words themselves: tables()."""
    number = lambda x: x[:, 0::2] + 1j * x[:, 1::2]
    given = [{"name": "frequency", "shape": [24], "start": 1, "scale": 1}, {"name": "phase", "shape": [24], "start": 2, "scale": 1}]
    case("complex", lambda h, p, q, k, s: s * abs(number(q) @ number(k).conj().T), whole=True, tokens=12, weights=given)
    case("complex:product=1", lambda h, p, q, k, s: s * abs(number(q) @ number(k).T), whole=True, tokens=12, weights=given, causal=False)


def tables():
    """Absolute encodings as tables [positions][C]."""
    found = []
    positions = [0, 1, 2, 17, 100]
    for width in (8, 29):
        marian = MarianSinusoidalPositionalEmbedding(128, width)
        if hasattr(marian, "create_weight"):
            with torch.no_grad():
                marian.weight = torch.nn.Parameter(marian.create_weight(), requires_grad=False)
        found.append({"encoding": "sinusoidal:halves=1", "width": width, "positions": positions,
                      "rows": marian.weight[positions].double().tolist(), "source": f"transformers {transformers.__version__} Marian"})
        fairseq = Speech2TextSinusoidalPositionalEmbedding.get_embedding(128, width)
        found.append({"encoding": "sinusoidal:halves=1:fairseq=1", "width": width, "positions": positions,
                      "rows": fairseq[positions].double().tolist(), "source": f"transformers {transformers.__version__} Speech2Text"})
        paper = [[math.sin(m / 10000 ** (i / width)) if i % 2 == 0 else math.cos(m / 10000 ** ((i - 1) / width)) for i in range(width)]
                 for m in positions]
        found.append({"encoding": "sinusoidal", "width": width, "positions": positions, "rows": paper, "source": "arXiv:1706.03762, 3.5"})
    return [{**table, "rows": [[float(f"{x:.7g}") for x in row] for row in table["rows"]]} for table in found]


def main():
    alibi()
    t5()
    kerple_and_others()
    fire()
    shaw()
    xl()
    deberta()
    llama()
    rotary_family()
    pair_rules()
    contextual()
    complex_words()
    whole = {"versions": {"transformers": transformers.__version__, "torch": torch.__version__, "numpy": numpy.__version__},
             "attention": CASES, "tables": tables(), "t5_edges": t5_edges()}
    json.dump(whole, sys.stdout, indent=None, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
