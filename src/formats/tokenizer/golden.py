#!/usr/bin/env python3
"""Writes golden.json: what independent tokenizers make of small vocabularies and awkward texts.

Made with tokenizers 0.23.3, sentencepiece 0.2.3, Jinja2 3.1.6 (Python 3.11). Run it in this folder: python3 golden.py
"""
import io
import json
import random
import struct
import unicodedata

import jinja2
import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TRAIN = [
    "The rope walk is the long hall where the rope is laid; the longer the rope, the longer the walk.",
    "Whether 'tis nobler in the mind to suffer the slings and arrows of outrageous fortune, 1234 times or 56.",
    "def rotate(x, cos, sin):\n    return x * cos + rotate_half(x) * sin  # halves\n\n\nfor i in range(10):\n\tprint(i)",
    "Für größere Längen: Übung macht den Meister. Ça va? Où est l'été?",
    "Это верёвка, и она длинная. 这是一条很长的绳子。ロープは長い。",
    "I'm sure you're right, they'll say it's DON'T and WE'LL see.",
]
TEXTS = [
    "",
    "a",
    " ",
    "  ",
    "\n",
    "the longer the rope",
    " the longer  the   rope    ",
    "I'm you're they'll IT'S DON'T we'Ve 'tis 'S \u017fick it'\u017f",
    "1 12 123 1234 12345 3.14 x2 2x \u0661\u0662\u0663\u0664 \u00bd \u2167 \u2460 \u00b2",
    "tabs\tand\n\nlines\r\n\r\n  indented\n\t\tcode  \n",
    "a\u00a0b\u3000c\u2003\u2003d\u2028e\u0085f\u180eg\u200bh",
    "Gr\u00f6\u00dfe Gro\u0308\u00dfe \u00c5ngstr\u00f6m \u212bngstr\u00f6m \ufb01n e\u0301\u0323 \u1e69 \uac00 \u1100\u1161\u11a8",
    "\u044d\u0442\u043e \u4e2d\u6587\uff0c\u7ef3\u5b50\u3002\u30ed\u30fc\u30d7 \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0010ffff \ue000 \x01\x7f\x00 end",
    "<s>[INST] hi </s><|end|><h1>x</h1><0x0A> <unk>",
    "\u2581under\u2581\u2581score \u2581",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "............,,,,!!!!????----====>>>> <= >= != $1 ^~|`",
    "CamelCaseWord HTTPServer snake_case kebab-case \u0394elta",
    "\n\n\n\n\n\n   x\n \n  \n",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(space=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=regex)


PATTERNS = {
    "gpt-2": [split(GPT2)],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), split(GPT2)],
    "llama-bpe": [split(LLAMA3)],
    "qwen2": [split(QWEN2)],
    "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]")],
    "gpt-4o": [split(O200K)],
}


def byte_level_cases():
    """One vocabulary, every splitting pattern."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = byte_level(regex=True)
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(TRAIN, trainer)
    model = json.loads(t.to_str())["model"]
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    out = {"tokens": vocab, "merges": [" ".join(m) for m in model["merges"]], "patterns": {}}
    for name, steps in PATTERNS.items():
        oracle = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]],
                                      ignore_merges=name == "llama-bpe"))
        oracle.pre_tokenizer = pre_tokenizers.Sequence(steps + [byte_level()])
        out["patterns"][name] = [oracle.encode(text).ids for text in TEXTS]
    return out


def proto(field, wire, payload):
    def varint(v):
        b = b""
        while v > 127:
            b, v = b + bytes([v & 127 | 128]), v >> 7
        return b + bytes([v])
    head = varint(field << 3 | wire)
    if wire == 2:
        return head + varint(len(payload)) + payload
    return head + (struct.pack("<f", payload) if wire == 5 else varint(payload))


def model_proto(pieces, prefix, fallback, unk, bos=1, eos=2):
    """A sentencepiece ModelProto (sentencepiece_model.proto): pieces, trainer_spec, normalizer_spec."""
    out = b""
    for text, score, kind in pieces:
        out += proto(1, 2, proto(1, 2, text.encode()) + proto(2, 5, score) + proto(3, 0, kind))
    trainer = proto(3, 0, 2) + proto(35, 0, int(fallback)) + proto(40, 0, unk) + proto(41, 0, bos) + proto(42, 0, eos)
    normalizer = proto(1, 2, b"identity") + proto(3, 0, int(prefix)) + proto(4, 0, 0) + proto(5, 0, 1)
    return out + proto(2, 2, trainer) + proto(3, 2, normalizer)


def sentencepiece_cases():
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TRAIN), model_writer=stream, model_type="bpe", vocab_size=460, byte_fallback=True,
        character_coverage=0.985, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<h1>", "</h1>", "\n", "\n\n", "\n\n\n", "\u2581\u2581", "\u2581\u2581\u2581"],
        control_symbols=["<|end|>"], minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    user = {"<h1>", "</h1>", "\n", "\n\n", "\n\n\n", "\u2581\u2581", "\u2581\u2581\u2581"}
    pieces = []
    for i in range(sp.get_piece_size()):
        text = sp.id_to_piece(i)
        kind = 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 4 if text in user else 1
        pieces.append((text, sp.get_score(i), kind))
    unused = [(t, s, 5 if k == 1 and len(t) > 2 and i % 3 == 0 else k) for i, (t, s, k) in enumerate(pieces)]
    plain = [(t, s, k) for t, s, k in pieces if k != 6]
    tied = [(t, round(s / 40.0) if k == 1 else s, k) for t, s, k in pieces]
    out = []
    for name, chosen, prefix, fallback in (("prefix", pieces, True, True), ("no_prefix", pieces, False, True),
                                           ("unused", unused, True, True), ("unknown", plain, True, False),
                                           ("equal_scores", tied, False, True)):
        model = sentencepiece.SentencePieceProcessor(model_proto=model_proto(chosen, prefix, fallback, sp.unk_id()))
        out.append({"name": name, "prefix": prefix, "tokens": [p[0] for p in chosen], "scores": [p[1] for p in chosen],
                    "types": [p[2] for p in chosen], "ids": [model.encode(text) for text in TEXTS]})
    return out


def spm_style(normalizer, pre_tokenizer, **model):
    """Byte-pair encoding over characters with byte fallback, as Llama 2 and Gemma ship it."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    alphabet = sorted(set("".join(TRAIN)) - set("\u0451\u7ef3\u00df"))
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=430, special_tokens=special, initial_alphabet=alphabet, limit_alphabet=60,
                                  show_progress=False)
    t.train_from_iterator(TRAIN, trainer)
    trained = json.loads(t.to_str())["model"]
    merges = [tuple(m) for m in trained["merges"]]
    t = Tokenizer(models.BPE(vocab=trained["vocab"], merges=merges, unk_token="<unk>", **model))
    if normalizer:
        t.normalizer = normalizer
    if pre_tokenizer:
        t.pre_tokenizer = pre_tokenizer
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in ("<unk>", "<s>", "</s>")])
    return t


def json_byte_level(steps, normalizer=None, added=()):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = byte_level(regex=True)
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator(TRAIN, trainer)
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    t.decoder = decoders.ByteLevel()
    for token in added:
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    return t


def json_cases():
    replace = normalizers.Replace(" ", "\u2581")
    prepend = normalizers.Sequence([normalizers.Prepend("\u2581"), replace])
    meta = pre_tokenizers.Metaspace
    end = AddedToken("<|end|>", special=True, normalized=False)
    cases = {
        "llama2": spm_style(prepend, None, byte_fallback=True, fuse_unk=True),
        "gemma": spm_style(replace, pre_tokenizers.Split(" ", "merged_with_previous"), byte_fallback=True, fuse_unk=True),
        "no_fallback": spm_style(prepend, None, fuse_unk=True),
        "no_fuse": spm_style(replace, None, fuse_unk=False),
        "metaspace_first": spm_style(None, meta(prepend_scheme="first"), byte_fallback=True),
        "metaspace_never": spm_style(None, meta(prepend_scheme="never", split=False), byte_fallback=True),
        "metaspace_always": spm_style(None, meta(prepend_scheme="always"), byte_fallback=True),
        "qwen2": json_byte_level([split(QWEN2), byte_level()], normalizers.NFC(), [end]),
        "gpt2_prefix": json_byte_level([byte_level(space=True, regex=True)]),
        "digits": json_byte_level([pre_tokenizers.Digits(individual_digits=False), byte_level(regex=True)]),
        "smollm": json_byte_level([pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)], None, [end]),
        "removed": json_byte_level([split(r"\s+", "removed"), byte_level()]),
        "previous": json_byte_level([split(r"[aeo]", "merged_with_previous"), byte_level()]),
        "next": json_byte_level([split(r"[aeo ]", "merged_with_next"), byte_level()]),
        "contiguous": json_byte_level([split(r"[a-z]", "contiguous"), byte_level()]),
        "inverted": json_byte_level([split(r"\p{L}+|\s", "removed", True), byte_level()]),
        "empty_matches": json_byte_level([split(r"(?=[ei])"), byte_level()]),
        "added": json_byte_level([byte_level(regex=True)], normalizers.Replace("walk", "WALK"), [
            end, AddedToken("rope", normalized=False), AddedToken("the", single_word=True, normalized=False),
            AddedToken("<h1>", lstrip=True, normalized=False), AddedToken("</h1>", rstrip=True, normalized=False),
            AddedToken("longer the rope", normalized=False), AddedToken("CamelCase", normalized=True),
            AddedToken("walk", normalized=True)]),
    }
    texts = TEXTS + ["<h1> a </h1>  b  <h1>the</h1>the other rope walks WALK then the_the the.", "<s>a</s> b<s> c"]
    out, models_seen = {}, []
    for name, t in cases.items():
        plain = json.loads(t.to_str())
        plain.pop("truncation"), plain.pop("padding"), plain.pop("version")
        # Vocabulary and merges are equal in most cases and stored once.
        model = {key: plain["model"].pop(key) for key in ("vocab", "merges")}
        if model not in models_seen:
            models_seen.append(model)
        out[name] = {"json": plain, "model": models_seen.index(model),
                     "ids": [t.encode(text, add_special_tokens=False).ids for text in texts]}
    return {"texts": texts, "models": models_seen, "cases": out}


def nfc_cases():
    random.seed(3)
    marks = [c for c in range(0x300, 0x370)] + [0x5B0, 0x5B9, 0x64B, 0x651, 0x93C, 0xE38, 0x302A, 0x3099, 0x1161, 0x11A8]
    bases = list(range(0x41, 0x7B)) + [0xC0, 0x1E69, 0x212B, 0x1100, 0xAC00, 0xAC01, 0x915, 0x958, 0x3046, 0xFB1D, 0x2ADC,
                                       0x1D15E, 0xF900, 0x344, 0x958, 0x1F82, 0x4E00, 0x10FFFF]
    rows = []
    for _ in range(150):
        s = "".join(chr(random.choice(bases if random.random() < 0.4 else marks)) for _ in range(random.randint(1, 9)))
        rows.append([s, unicodedata.normalize("NFC", s)])
    return rows


CHATML = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TEMPLATES = {
    "chatml": CHATML,
    "smollm": ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
               "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
               + CHATML[len("{% for message in messages %}"):]),
    "qwen2": ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n"
              "You are a helpful assistant.<|im_end|>\\n' }}{% endif %}" + CHATML[len("{% for message in messages %}"):]),
    "llama2": ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
               "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
               "{% for message in loop_messages %}{% if loop.index0 == 0 and system_message != false %}{% set content = "
               "'<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
               "message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + "
               "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}"
               "{% endfor %}"),
    "mistral": ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + "
                "' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}"),
    "llama3": ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
               "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
               "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
               "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"),
    "gemma": ("{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set first_user_prefix = messages[0]['content'] + '\n\n' "
              "-%}{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first_user_prefix = '' -%}{%- set loop_messages = "
              "messages -%}{%- endif -%}{%- for message in loop_messages -%}{%- if message['role'] == 'assistant' -%}{%- set role "
              "= 'model' -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}{{ '<start_of_turn>' + role + '\n' + "
              "(first_user_prefix if loop.first else '') }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}"
              "{%- if add_generation_prompt -%}{{'<start_of_turn>model\n'}}{%- endif -%}"),
    "phi3": ("{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
             "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == "
             "'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"),
    "zephyr": ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}"
               "\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
               "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
               "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
}
CHATS = [
    [["user", "Hello"]],
    [["system", "Be brief."], ["user", "Hello"]],
    [["user", "Hello"], ["assistant", "Hi there."], ["user", "How long\nis a rope?"]],
    [["system", "Be brief."], ["user", "A"], ["assistant", "B"], ["user", "C"]],
]


def chat_cases():
    env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    out = []
    for name, text in TEMPLATES.items():
        template = env.from_string(text)
        rows = []
        for chat in CHATS:
            if name == "mistral" and chat[0][0] == "system":
                continue  # this template has no place for it
            messages = [{"role": role, "content": content} for role, content in chat]
            rows.append({"turns": chat, "text": template.render(messages=messages, bos_token="<BOS>", eos_token="<EOS>",
                                                                 add_generation_prompt=True)})
        out.append({"name": name, "template": text, "chats": rows})
    return out


def main():
    data = {
        "made_with": f"tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}, jinja2 {jinja2.__version__}",
        "texts": TEXTS,
        "byte_level": byte_level_cases(),
        "sentencepiece": sentencepiece_cases(),
        "json": json_cases(),
        "nfc": nfc_cases(),
        "chat": chat_cases(),
    }
    with open("golden.json", "w", encoding="ascii") as f:
        f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in data.items()) + "\n}\n")


if __name__ == "__main__":
    main()
