#!/usr/bin/env python3
"""Golden data of the forward passes: tiny Llama, Qwen2 and Gemma 3 models run by transformers.

Writes golden/NAME/{config.json,model.safetensors}, golden/NAME.gguf and golden/golden.json beside this file. Needs torch, transformers,
safetensors, gguf and numpy; the versions go into golden.json. Weights are small multiples of powers of two, so that F32, F16 and
BF16 hold them exactly and the two formats are the same model.

    python3 golden.py            # writes
    python3 golden.py --check    # exits 1 when what would be written differs from what is there
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

TOKENS = 19
VOCABULARY = 40
LOGITS_AT = [0, 11, TOKENS - 1]

COMMON = dict(vocab_size=VOCABULARY, hidden_size=20, intermediate_size=28, max_position_embeddings=64, rms_norm_eps=1e-5,
              attention_dropout=0.0, pad_token_id=None, bos_token_id=None, eos_token_id=None)

MODELS = {
    # Grouped queries 6/2, head size unlike width / heads.
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
              dict(COMMON | dict(hidden_size=24), num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=6, rope_theta=50.0,
                   tie_word_embeddings=True)),
    # Odd heads 5/1, biases on q, k, v, an output matrix of its own.
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM,
              dict(COMMON, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1, head_dim=6, rope_theta=100.0,
                   tie_word_embeddings=False, use_sliding_window=False)),
    # Two bases, a window shorter than the text, norms on q and k.
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM,
               dict(COMMON | dict(hidden_size=24), num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, head_dim=8, sliding_window=5,
                    layer_types=["sliding_attention", "sliding_attention", "full_attention"], query_pre_attn_scalar=12,
                    rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
                                     "full_attention": {"rope_type": "default", "rope_theta": 400.0}},
                    hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)),
}

# Scalings of the llama model, where the text is longer than the original length.
VARIANTS = {
    "linear": {"rope_type": "linear", "rope_theta": 50.0, "factor": 4.0},
    "yarn": {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16,
             "beta_fast": 4.0, "beta_slow": 0.5},
    "llama3": {"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16,
               "low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


def set_weights(model, seed):
    generator = np.random.Generator(np.random.Philox(seed))
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            # Norm weights near 1 (Gemma: near 0), matrices with a spread of about 2 / sqrt(inputs).
            values = generator.integers(-127, 128, size=tuple(parameter.shape))
            if "norm" in name:
                centre = 0.0 if "gemma" in type(model).__name__.lower() else 1.0
                values = centre + np.round(values / 16) / 32
            else:
                values = values / 256.0
            parameter.copy_(torch.from_numpy(np.asarray(values, dtype=np.float32)))


def run(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].float()
    nll = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]), reduction="none")
    return {"nll": [float(f"{x:.9g}") for x in nll], "logits": [[float(f"{x:.9g}") for x in logits[i]] for i in LOGITS_AT]}


def interleave(matrix, heads):
    """Rows of a head from (i, i + D/2) order to neighbours: what GGUF's llama architecture holds."""
    rows = matrix.shape[0] // heads
    return matrix.reshape(heads, 2, rows // 2, -1).swapaxes(1, 2).reshape(matrix.shape)


LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight", "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.q_proj.bias": "attn_q.bias", "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.bias": "attn_v.bias", "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight", "mlp.gate_proj.weight": "ffn_gate.weight", "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight", "pre_feedforward_layernorm.weight": "ffn_norm.weight",
    "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
}


def gguf_name(architecture, name):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    if rest == "post_attention_layernorm.weight":
        return f"blk.{layer}." + ("post_attention_norm.weight" if architecture == "gemma3" else "ffn_norm.weight")
    return f"blk.{layer}.{LAYER_NAMES[rest]}"


def write_gguf(path, architecture, config, tensors):
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if architecture == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        writer.add_array("gemma3.attention.sliding_window_pattern", [t == "sliding_attention" for t in config.layer_types])
        writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
        writer.add_float32("gemma3.rope.freq_base_swa", config.rope_parameters["sliding_attention"]["rope_theta"])
        writer.add_float32("gemma3.attention.scale", config.query_pre_attn_scalar**-0.5)
    else:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for i, (name, tensor) in enumerate(sorted(tensors.items())):
        data = tensor.numpy()
        if architecture == "llama" and ".q_proj." in name:
            data = interleave(data, config.num_attention_heads)
        if architecture == "llama" and ".k_proj." in name:
            data = interleave(data, config.num_key_value_heads)
        if architecture == "gemma3" and "norm" in name:
            data = data + 1
        # Matrices alternate between the two exact narrow types; vectors stay f32.
        if data.ndim == 2 and i % 2:
            writer.add_tensor(gguf_name(architecture, name), data.astype(np.float16))
        elif data.ndim == 2:
            bits = (np.ascontiguousarray(data, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
            writer.add_tensor(gguf_name(architecture, name), bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(gguf_name(architecture, name), np.ascontiguousarray(data, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def generate(out):
    torch.manual_seed(0)
    ids = [int(x) for x in np.random.Generator(np.random.Philox(7)).integers(0, VOCABULARY, TOKENS)]
    golden = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, float32, eager attention",
              "ids": ids, "logits_at": LOGITS_AT, "models": {}, "llama_variants": {}}
    for seed, (name, (config_class, model_class, arguments)) in enumerate(MODELS.items()):
        config = config_class(**arguments, attn_implementation="eager")
        model = model_class(config).eval()
        set_weights(model, seed)
        golden["models"][name] = run(model, ids)
        folder = out / name
        folder.mkdir(parents=True)
        text = config.to_dict()
        (folder / "config.json").write_text(json.dumps(text, indent=1, sort_keys=True) + "\n")
        tensors = dict(model.named_parameters())
        tensors = {k: v.detach() for k, v in tensors.items()}
        save_file({k: v.to(torch.bfloat16).contiguous() if v.ndim == 2 else v.contiguous() for k, v in tensors.items()},
                  str(folder / "model.safetensors"))
        write_gguf(out / f"{name}.gguf", name, config, tensors)
        if name == "llama":
            for variant, scaling in VARIANTS.items():
                changed = config_class(**{k: v for k, v in arguments.items() if k != "rope_theta"}, rope_parameters=dict(scaling),
                                       attn_implementation="eager")
                other = model_class(changed).eval()
                set_weights(other, seed)
                golden["llama_variants"][variant] = dict(run(other, ids), rope_parameters=scaling)
    (out / "golden.json").write_text(json.dumps(golden, indent=0) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    here = pathlib.Path(__file__).resolve().parent / "golden"
    if not parser.parse_args().check:
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        generate(here)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        generate(pathlib.Path(folder))
        different = [p.relative_to(folder) for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()
                     and (not (here / p.relative_to(folder)).exists() or (here / p.relative_to(folder)).read_bytes() != p.read_bytes())]
    for path in different:
        print(f"{path} differs")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
