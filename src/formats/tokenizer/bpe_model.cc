#include "formats/tokenizer/bpe_model.h"

#include <algorithm>
#include <bit>

#include "formats/tokenizer/unicode.h"

namespace ropewalk {

MergeTable::MergeTable(const std::vector<MergeRule>& rules)
    : slots_(std::bit_ceil(std::max<size_t>(16, 2 * rules.size() + 1))), shift_(64 - std::countr_zero(slots_.size())) {
  const size_t mask = slots_.size() - 1;
  for (size_t rank = 0; rank < rules.size(); ++rank) {
    const MergeRule& rule = rules[rank];
    const uint64_t pair = key(rule.left, rule.right);
    size_t i = slot_of(pair);
    while (slots_[i].pair != kEmpty && slots_[i].pair != pair) i = (i + 1) & mask;
    if (slots_[i].pair == kEmpty) slots_[i] = {pair, {static_cast<uint32_t>(rank), rule.result}};
  }
}

Merge MergeTable::find(int32_t left, int32_t right) const noexcept {
  const uint64_t pair = key(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t i = slot_of(pair); slots_[i].pair != kEmpty; i = (i + 1) & mask) {
    if (slots_[i].pair == pair) return slots_[i].merge;
  }
  return {};
}

BpeModel::BpeModel(const Vocabulary& vocabulary, BpeOptions options)
    : vocabulary_(vocabulary),
      options_(options),
      index_(&vocabulary.pieces, static_cast<size_t>(vocabulary.pieces.size())),
      merges_(vocabulary.merges) {
  fallback_bytes_.fill(-1);
  for (int32_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string_view piece = vocabulary.pieces[id];
    if (piece.empty()) continue;
    index_.insert(id);
    if (const int byte = byte_of_piece(piece); byte >= 0) fallback_bytes_[static_cast<size_t>(byte)] = id;
  }
  // A control or user-defined piece may look like the character of a byte. It stands for its own text, never for that byte:
  // else plain text would become a control token.
  PieceIndex characters(&vocabulary.pieces, 512);
  for (int32_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const std::string_view piece = vocabulary.pieces[id];
    if (!piece.empty() && piece.size() <= 2 && is_text(id)) characters.insert(id);
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(character, byte_to_code()[byte]);
    const int32_t id = characters.find(character);
    bytes_[byte] = id >= 0 ? id : fallback_bytes_[byte];
    // The only piece there is, if it is no control token.
    if (bytes_[byte] >= 0) continue;
    const int32_t other = index_.find(character);
    if (other >= 0 && vocabulary.types[static_cast<size_t>(other)] != PieceType::kControl) bytes_[byte] = other;
  }
}

void BpeModel::encode(std::string_view word, MergeLoop& loop, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges && encode_whole(word, ids)) return;
  constexpr size_t kLongest = size_t{1} << 30;  // offsets are 32 bits wide
  for (size_t at = 0; at < word.size(); at += kLongest) {
    fill_symbols(word.substr(at, kLongest), loop.symbols);
    merge(loop, ids);
  }
}

bool BpeModel::encode_whole(std::string_view word, std::vector<int32_t>& ids) const {
  std::string characters;
  if (options_.byte_level) {
    if (word.size() > 256) return false;
    for (const char c : word) append_utf8(characters, byte_to_code()[static_cast<uint8_t>(c)]);
    word = characters;
  }
  const int32_t id = index_.find(word);
  if (id < 0 || (options_.byte_level ? !is_text(id) : vocabulary_.types[static_cast<size_t>(id)] == PieceType::kControl))
    return false;
  ids.push_back(id);
  return true;
}

bool BpeModel::is_text(int32_t id) const {
  const PieceType type = vocabulary_.types[static_cast<size_t>(id)];
  return type != PieceType::kControl && type != PieceType::kUserDefined;
}

// Characters without a piece are dropped or replaced before merging, so their neighbours meet: what the tokenizers do that
// these vocabularies were made with.
void BpeModel::fill_symbols(std::string_view word, std::vector<MergeSymbol>& symbols) const {
  symbols.clear();
  const auto push = [&symbols](int32_t id) {
    if (id < 0) return;
    MergeSymbol s;
    s.id = id;
    symbols.push_back(s);
  };
  if (options_.byte_level) {
    for (const char c : word) {
      const int32_t id = bytes_[static_cast<uint8_t>(c)];
      push(id >= 0 ? id : options_.unknown.value_or(-1));
    }
    return;
  }
  bool after_unknown = false;
  for (size_t at = 0; at < word.size();) {
    const std::string_view character = word.substr(at, utf8_at(word, at).bytes);
    at += character.size();
    const int32_t id = index_.find(character);
    const auto has_byte = [this](char c) { return fallback_bytes_[static_cast<uint8_t>(c)] >= 0; };
    if (id >= 0) {
      push(id);
      after_unknown = false;
    } else if (options_.byte_fallback && std::all_of(character.begin(), character.end(), has_byte)) {
      for (const char c : character) push(fallback_bytes_[static_cast<uint8_t>(c)]);
      after_unknown = false;
    } else {
      if (!(options_.fuse_unknown && after_unknown)) push(options_.unknown.value_or(-1));
      after_unknown = true;
    }
  }
}

void BpeModel::merge(MergeLoop& loop, std::vector<int32_t>& ids) const {
  if (loop.symbols.empty()) return;
  loop.run([this](const MergeSymbol& left, const MergeSymbol& right) { return merges_.find(left.id, right.id); });
  for (int32_t i = 0; i >= 0; i = loop.symbols[static_cast<size_t>(i)].next)
    ids.push_back(loop.symbols[static_cast<size_t>(i)].id);
}

}  // namespace ropewalk
