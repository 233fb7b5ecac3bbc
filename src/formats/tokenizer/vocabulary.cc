#include "formats/tokenizer/vocabulary.h"

#include <cmath>
#include <limits>

#include "base/fail.h"
#include "formats/tokenizer/splitting_patterns.h"
#include "formats/tokenizer/unicode.h"

namespace ropewalk {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";

// The array under `key`, as a vector of T; null when absent.
template <class T>
Result<const std::vector<T>*> array_of(const GgufFile& file, std::string_view key, const char* expected) {
  const GgufValue* value = file.find_key(key);
  if (value == nullptr) return static_cast<const std::vector<T>*>(nullptr);
  const auto* array = std::get_if<GgufValue::Array>(&value->value);
  if (array != nullptr) {
    if (const auto* found = std::get_if<std::vector<T>>(array)) return found;
  }
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected an array of {}, but got {} (byte {})", file.path(), key,
              expected, array == nullptr ? "a single value" : "an array of another type", value->offset);
}

Result<void> check_count(const GgufFile& file, std::string_view key, size_t count, size_t tokens) {
  if (count == tokens) return {};
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected {} entries, one for each of the {} in {}, but got {}",
              file.path(), key, tokens, tokens, kTokens, count);
}

Result<void> read_scores(const GgufFile& file, size_t tokens, Vocabulary& out) {
  ROPEWALK_TRY(const auto* scores, array_of<double>(file, kScores, "floats"));
  if (scores == nullptr) return {};
  ROPEWALK_CHECK_OK(check_count(file, kScores, scores->size(), tokens));
  out.scores.reserve(tokens);
  for (size_t i = 0; i < tokens; ++i) {
    if (std::isnan((*scores)[i])) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected numbers, but got NaN at index {}", file.path(), kScores, i);
    }
    out.scores.push_back(static_cast<float>((*scores)[i]));
  }
  return {};
}

template <class T>
Result<void> check_types(const GgufFile& file, const std::vector<T>& types, Vocabulary& out) {
  for (size_t i = 0; i < types.size(); ++i) {
    const T t = types[i];
    if (t > 6 || t + 1 < 1) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected types 0 to 6, but got {} at index {}", file.path(), kTypes,
                  t, i);
    }
    out.types[i] = t == 0 ? PieceType::kNormal : static_cast<PieceType>(t);
  }
  return {};
}

Result<void> read_types(const GgufFile& file, size_t tokens, Vocabulary& out) {
  out.types.assign(tokens, PieceType::kNormal);
  const GgufValue* value = file.find_key(kTypes);
  if (value == nullptr) return {};
  if (const auto* array = std::get_if<GgufValue::Array>(&value->value)) {
    if (const auto* u = std::get_if<std::vector<uint64_t>>(array)) {
      ROPEWALK_CHECK_OK(check_count(file, kTypes, u->size(), tokens));
      return check_types(file, *u, out);
    }
  }
  ROPEWALK_TRY(const auto* types, array_of<int64_t>(file, kTypes, "integers"));
  ROPEWALK_CHECK_OK(check_count(file, kTypes, types->size(), tokens));
  return check_types(file, *types, out);
}

Result<void> read_merges(const GgufFile& file, Vocabulary& out) {
  ROPEWALK_TRY(const auto* merges, array_of<std::string_view>(file, kMerges, "strings"));
  if (merges == nullptr) {
    return fail(ErrorCode::kNotFound, "[tokenizer] {}/{}: expected the merges of a gpt2 tokenizer, but the key is absent",
                file.path(), kMerges);
  }
  PieceIndex index(&out.pieces, static_cast<size_t>(out.pieces.size()));
  for (int32_t id = 0; id < out.pieces.size(); ++id) index.insert(id);
  out.merges.reserve(merges->size());
  std::string joined;
  for (size_t i = 0; i < merges->size(); ++i) {
    const std::string_view text = (*merges)[i];
    std::string_view left, right;
    if (!split_merge(text, left, right)) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected two pieces and a space at index {}, but got \"{}\"",
                  file.path(), kMerges, i, text);
    }
    joined.assign(left);
    joined += right;
    const MergeRule rule{index.find(left), index.find(right), index.find(joined)};
    if (rule.left < 0 || rule.right < 0 || rule.result < 0) {
      const std::string_view missing = rule.left < 0 ? left : rule.right < 0 ? right : std::string_view(joined);
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected every piece of \"{}\" (index {}) in {}, but got no \"{}\"",
                  file.path(), kMerges, text, i, kTokens, missing);
    }
    out.merges.push_back(rule);
  }
  return {};
}

Result<std::optional<int32_t>> special_id(const GgufFile& file, std::string_view key, int32_t size) {
  if (!file.has(key)) return std::optional<int32_t>();
  ROPEWALK_TRY(const int64_t id, file.integer(key, -1, std::numeric_limits<uint32_t>::max()));
  // Writers that have no such token store -1, also as an unsigned number.
  if (id == -1 || id == std::numeric_limits<uint32_t>::max()) return std::optional<int32_t>();
  if (id >= size) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected an id below the {} entries of {}, but got {}", file.path(),
                key, size, kTokens, id);
  }
  return std::optional<int32_t>(static_cast<int32_t>(id));
}

Result<bool> flag(const GgufFile& file, std::string_view key, bool fallback) {
  const GgufValue* value = file.find_key(key);
  if (value == nullptr) return fallback;
  if (const bool* found = std::get_if<bool>(&value->value)) return *found;
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected a bool, but got a value of GGUF type {} (byte {})", file.path(),
              key, value->type, value->offset);
}

Result<void> read_info(const GgufFile& file, Vocabulary& out) {
  TokenizerInfo& info = out.info;
  const int32_t size = out.pieces.size();
  ROPEWALK_TRY(info.bos, special_id(file, "tokenizer.ggml.bos_token_id", size));
  ROPEWALK_TRY(info.eos, special_id(file, "tokenizer.ggml.eos_token_id", size));
  ROPEWALK_TRY(info.unknown, special_id(file, "tokenizer.ggml.unknown_token_id", size));
  ROPEWALK_TRY(info.padding, special_id(file, "tokenizer.ggml.padding_token_id", size));
  if (info.kind == "llama") {
    // Files of SentencePiece models from before these keys: the piece types and SentencePiece's usual names say it.
    for (int32_t id = 0; id < size; ++id) {
      const PieceType type = out.types[static_cast<size_t>(id)];
      if (type == PieceType::kUnknown && !info.unknown) info.unknown = id;
      if (type != PieceType::kControl) continue;
      if (!info.bos && out.pieces[id] == "<s>") info.bos = id;
      if (!info.eos && out.pieces[id] == "</s>") info.eos = id;
    }
  }
  ROPEWALK_TRY(info.add_bos, flag(file, "tokenizer.ggml.add_bos_token", info.kind == "llama" || adds_bos(info.pre)));
  ROPEWALK_TRY(info.add_eos, flag(file, "tokenizer.ggml.add_eos_token", false));
  info.add_bos = info.add_bos && info.bos.has_value();
  info.add_eos = info.add_eos && info.eos.has_value();
  ROPEWALK_TRY(out.add_space_prefix, flag(file, "tokenizer.ggml.add_space_prefix", info.kind == "llama"));
  if (file.has("tokenizer.chat_template")) {
    ROPEWALK_TRY(info.chat_template, file.text("tokenizer.chat_template"));
  }
  return {};
}

}  // namespace

bool split_merge(std::string_view text, std::string_view& left, std::string_view& right) {
  const size_t space = text.find(' ', 1);
  if (space == std::string_view::npos || space + 1 >= text.size()) return false;
  left = text.substr(0, space);
  right = text.substr(space + 1);
  return true;
}

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = 16 * value + digit;
  }
  return value;
}

const std::array<uint32_t, 256>& byte_to_code() {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> codes{};
    uint32_t next = 256;  // bytes that do not print take the code points from 256 up, in order
    for (uint32_t b = 0; b < 256; ++b) {
      const bool prints = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      codes[b] = prints ? b : next++;
    }
    return codes;
  }();
  return table;
}

int code_to_byte(uint32_t code) {
  static const std::array<int16_t, 512> table = [] {
    std::array<int16_t, 512> bytes{};
    bytes.fill(-1);
    for (size_t b = 0; b < 256; ++b) bytes[byte_to_code()[b]] = static_cast<int16_t>(b);
    return bytes;
  }();
  return code < table.size() ? table[code] : -1;
}

Result<Vocabulary> read_vocabulary(const GgufFile& file) {
  Vocabulary out;
  ROPEWALK_TRY(const auto* tokens, array_of<std::string_view>(file, kTokens, "strings"));
  if (tokens == nullptr) {
    return fail(ErrorCode::kNotFound, "[tokenizer] {}/{}: expected a tokenizer, but the key is absent", file.path(), kTokens);
  }
  if (tokens->empty() || tokens->size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected between 1 and 2^31 - 2 tokens, but got {}", file.path(),
                kTokens, tokens->size());
  }
  size_t bytes = 0;
  for (const std::string_view token : *tokens) bytes += token.size();
  out.pieces.reserve(tokens->size(), bytes);
  for (const std::string_view token : *tokens) out.pieces.add(token);
  ROPEWALK_CHECK_OK(read_scores(file, tokens->size(), out));
  ROPEWALK_CHECK_OK(read_types(file, tokens->size(), out));

  if (!file.has("tokenizer.ggml.model")) {
    return fail(ErrorCode::kNotFound,
                "[tokenizer] {}/tokenizer.ggml.model: expected the kind of tokenizer, but the key is absent", file.path());
  }
  ROPEWALK_TRY(out.info.kind, file.text("tokenizer.ggml.model"));
  if (out.info.kind != "llama" && out.info.kind != "gpt2") {
    return fail(
        ErrorCode::kUnsupported,
        "[tokenizer] {}/tokenizer.ggml.model: expected llama (SentencePiece-style) or gpt2 (byte-level BPE), but got \"{}\"",
        file.path(), out.info.kind);
  }
  out.info.pre = "default";
  if (file.has("tokenizer.ggml.pre")) {
    ROPEWALK_TRY(out.info.pre, file.text("tokenizer.ggml.pre"));
  }
  if (out.info.kind == "gpt2") {
    if (find_splitting_pattern(out.info.pre) == nullptr) {
      return fail(ErrorCode::kUnsupported, "[tokenizer] {}/tokenizer.ggml.pre: expected one of {}, but got \"{}\"", file.path(),
                  splitting_pattern_names(), out.info.pre);
    }
    out.ignore_merges = ignores_merges(out.info.pre);
    ROPEWALK_CHECK_OK(read_merges(file, out));
  } else if (out.scores.empty()) {
    return fail(ErrorCode::kNotFound, "[tokenizer] {}/{}: expected the scores of a llama tokenizer, but the key is absent",
                file.path(), kScores);
  }
  ROPEWALK_CHECK_OK(read_info(file, out));
  return out;
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const GgufFile& file) {
  ROPEWALK_TRY(Vocabulary vocabulary, read_vocabulary(file));
  if (vocabulary.info.kind == "llama") return make_sentencepiece(std::move(vocabulary));
  return make_byte_level_bpe(std::move(vocabulary));
}

}  // namespace ropewalk
