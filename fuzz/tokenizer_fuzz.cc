// Any text, under a small vocabulary that is drawn from the input too: encoding ends, ids are in range, and nothing of the text
// is lost where the vocabulary has all bytes.
#include <string>
#include <string_view>

#include "formats/tokenizer/unicode.h"
#include "formats/tokenizer/vocabulary.h"

namespace {

using namespace ropewalk;

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581 stands for a space

// Takes the input apart from the front; what is left is the text.
struct Input {
  std::string_view rest;
  uint8_t byte() {
    if (rest.empty()) return 0;
    const uint8_t value = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    return value;
  }
  std::string_view bytes(size_t n) {
    const std::string_view out = rest.substr(0, n);
    rest.remove_prefix(out.size());
    return out;
  }
};

void add(Vocabulary& vocabulary, std::string_view piece, PieceType type, float score) {
  vocabulary.pieces.add(piece);
  vocabulary.types.push_back(type);
  vocabulary.scores.push_back(score);
}

Vocabulary sentencepiece(Input& input) {
  Vocabulary v;
  v.info.kind = "llama";
  const uint8_t flags = input.byte();
  v.add_space_prefix = (flags & 1) != 0;
  add(v, "<unk>", PieceType::kUnknown, 0);
  v.info.unknown = 0;
  for (int b = 0; b < 256 && (flags & 2) == 0; ++b) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    add(v, std::string("<0x") + kDigits[static_cast<size_t>(b) / 16] + kDigits[static_cast<size_t>(b) % 16] + ">",
        PieceType::kByte, 0);
  }
  if ((flags & 4) != 0) add(v, kSpaceSymbol, PieceType::kNormal, 0);
  for (int n = input.byte() % 64; n > 0; --n) {
    const uint8_t kind = input.byte();
    const PieceType types[] = {PieceType::kNormal, PieceType::kNormal, PieceType::kUserDefined, PieceType::kUnused,
                               PieceType::kControl};
    add(v, input.bytes(kind % 7), types[(kind >> 3) % 5], static_cast<float>(input.byte() % 16));
  }
  return v;
}

Vocabulary byte_level(Input& input) {
  static constexpr std::string_view kPatterns[] = {"gpt-2",   "smollm", "llama-bpe", "qwen2",
                                                   "default", "gpt-4o", "tekken",    "deepseek-v3"};
  Vocabulary v;
  v.info.kind = "gpt2";
  v.info.pre = kPatterns[input.byte() % 8];
  for (size_t b = 0; b < 256; ++b) {
    std::string character;
    append_utf8(character, byte_to_code()[b]);
    add(v, character, PieceType::kNormal, 0);
  }
  for (int n = input.byte() % 64; n > 0; --n) {
    const int32_t left = input.byte() % v.pieces.size();
    const int32_t right = (input.byte() * 3 + n) % v.pieces.size();
    add(v, std::string(v.pieces[left]) + std::string(v.pieces[right]), PieceType::kNormal, 0);
    v.merges.push_back({left, right, v.pieces.size() - 1});
  }
  add(v, input.bytes(3), PieceType::kUserDefined, 0);
  add(v, input.bytes(2), PieceType::kControl, 0);
  return v;
}

void check(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{{reinterpret_cast<const char*>(data), size}};
  const bool bytes = (input.byte() & 1) != 0;
  bool lossless = bytes;
  std::unique_ptr<Tokenizer> tokenizer;
  if (bytes) {
    auto made = make_byte_level_bpe(byte_level(input));
    check(made.has_value());
    tokenizer = *std::move(made);
  } else {
    Vocabulary vocabulary = sentencepiece(input);
    // U+2581 in a text becomes a space; without byte pieces there is nothing to fall back on; and with them alone a space comes
    // back as the bytes of U+2581, as SentencePiece has it too. Every vocabulary in use has the piece.
    const bool has_bytes = vocabulary.types.size() > 256;
    const bool has_space = vocabulary.types.size() > 257 && vocabulary.pieces[257] == kSpaceSymbol;
    lossless = !vocabulary.add_space_prefix && has_bytes && input.rest.find(kSpaceSymbol) == std::string_view::npos &&
               (has_space || input.rest.find(' ') == std::string_view::npos);
    tokenizer = make_sentencepiece(std::move(vocabulary));
  }
  const std::string_view text = input.rest;
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer->encode(text, special);
    for (const int32_t id : ids) check(id >= 0 && id < tokenizer->size());
    const std::string decoded = tokenizer->decode(ids);
    if (lossless) check(decoded == text);
    Utf8Stream stream;
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(tokenizer->decode(std::span(&id, 1)));
    check(streamed + stream.finish() == decoded);
  }
  return 0;
}
