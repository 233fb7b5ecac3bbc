#include "formats/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"

namespace ropewalk {
namespace {

using nlohmann::json;

const json kNull;

const json& member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

Result<json> parse(const std::string& text, const std::string& where) {
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected JSON, but got bytes that are not", where);
  if (!parsed.is_object())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected a JSON object, but got {}", where, parsed.type_name());
  return parsed;
}

struct Entry {
  int64_t id = 0;
  const std::string* text = nullptr;
  PieceType type = PieceType::kNormal;
};

// Ids of a vocabulary are nearly dense. A far larger one is damage, and would make the table as large as it says.
Result<void> check_id(const json& id, size_t entries, const std::string& text, const std::string& where) {
  const int64_t limit = static_cast<int64_t>(4 * entries + 65536);
  if (id.is_number_integer() && (!id.is_number_unsigned() || id.get<uint64_t>() <= uint64_t{1} << 62)) {
    const int64_t value = id.get<int64_t>();
    if (value >= 0 && value < limit && value < std::numeric_limits<int32_t>::max()) return {};
  }
  return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an id from 0 to {} for \"{}\", but got {}", where, limit - 1, text,
              id.is_number() ? id.dump() : id.type_name());
}

Result<void> read_added_tokens(const json& root, const std::string& path, size_t vocab_entries, std::vector<Entry>& entries,
                               BpeParts& parts) {
  const std::string where = path + "/added_tokens";
  const json& added = member(root, "added_tokens");
  if (added.is_null()) return {};
  if (!added.is_array())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an array, but got {}", where, added.type_name());
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string at = fmt::format("{}/{}", where, i);
    const json& item = added[i];
    if (!item.is_object() || !member(item, "content").is_string()) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an object with id and content, but got {}", at,
                  item.type_name());
    }
    const auto& text = item["content"].get_ref<const std::string&>();
    ROPEWALK_CHECK_OK(check_id(member(item, "id"), vocab_entries + added.size(), text, at));
    AddedToken token;
    token.id = item["id"].get<int32_t>();
    token.text = text;
    ROPEWALK_TRY(token.special, json_flag(item, "special", false, at));
    ROPEWALK_TRY(token.normalized, json_flag(item, "normalized", !token.special, at));
    ROPEWALK_TRY(token.single_word, json_flag(item, "single_word", false, at));
    ROPEWALK_TRY(token.strip_left, json_flag(item, "lstrip", false, at));
    ROPEWALK_TRY(token.strip_right, json_flag(item, "rstrip", false, at));
    entries.push_back({token.id, &text, token.special ? PieceType::kControl : PieceType::kUserDefined});
    parts.added.push_back(std::move(token));
  }
  return {};
}

// The pieces by id. An added token may repeat an entry of the vocabulary; two different texts may not share an id.
Result<void> fill_pieces(std::vector<Entry>& entries, const std::string& where, Vocabulary& out) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  size_t bytes = 0;
  for (const Entry& e : entries) bytes += e.text->size();
  out.pieces.reserve(entries.empty() ? 0 : static_cast<size_t>(entries.back().id) + 1, bytes);
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    if (i > 0 && entries[i - 1].id == e.id) {
      if (*entries[i - 1].text != *e.text) {
        return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected one token for each id, but got \"{}\" and \"{}\" for id {}",
                    where, *entries[i - 1].text, *e.text, e.id);
      }
      out.types.back() = e.type;
      continue;
    }
    while (out.pieces.size() < e.id) {  // a gap
      out.pieces.add("");
      out.types.push_back(PieceType::kUnused);
    }
    out.pieces.add(*e.text);
    out.types.push_back(e.type);
  }
  return {};
}

Result<void> read_merges(const json& merges, const std::string& where, Vocabulary& out) {
  if (!merges.is_array())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an array, but got {}", where, merges.type_name());
  PieceIndex index(&out.pieces, static_cast<size_t>(out.pieces.size()));
  for (int32_t id = 0; id < out.pieces.size(); ++id) {
    if (!out.pieces[id].empty()) index.insert(id);
  }
  out.merges.reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& item = merges[i];
    std::string_view left, right;
    bool is_pair = false;
    if (item.is_string()) {
      is_pair = split_merge(item.get_ref<const std::string&>(), left, right) && right.find(' ') == std::string_view::npos;
    } else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      left = item[0].get_ref<const std::string&>();
      right = item[1].get_ref<const std::string&>();
      is_pair = true;
    }
    if (!is_pair) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected \"a b\" or [\"a\", \"b\"], but got {}", where, i,
                  item.is_string() ? "\"" + item.get<std::string>() + "\"" : std::string(item.type_name()));
    }
    joined.assign(left);
    joined += right;
    const MergeRule rule{index.find(left), index.find(right), index.find(joined)};
    if (rule.left < 0 || rule.right < 0 || rule.result < 0) {
      const std::string_view missing = rule.left < 0 ? left : rule.right < 0 ? right : std::string_view(joined);
      return fail(ErrorCode::kCorrupt,
                  "[tokenizer] {}/{}: expected the pieces of \"{} {}\" and their union in model.vocab, but got no \"{}\"",
                  where, i, left, right, missing);
    }
    out.merges.push_back(rule);
  }
  return {};
}

std::optional<int32_t> id_of(const Vocabulary& vocabulary, std::string_view text) {
  for (int32_t id = vocabulary.pieces.size() - 1; id >= 0; --id) {
    if (!text.empty() && vocabulary.pieces[id] == text) return id;
  }
  return {};
}

Result<void> read_model(const json& root, const std::string& path, BpeParts& parts) {
  const std::string where = path + "/model";
  const json& model = member(root, "model");
  if (!model.is_object())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an object, but got {}", where, model.type_name());
  // Old files name no type; a list of merges makes it BPE.
  ROPEWALK_TRY(const std::string type, json_text(model, "type", model.contains("merges") ? "BPE" : "none", where));
  if (type != "BPE") return fail(ErrorCode::kUnsupported, "[tokenizer] {}/type: expected BPE, but got \"{}\"", where, type);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ROPEWALK_TRY(const std::string affix, json_text(model, key, "", where));
    if (!affix.empty())
      return fail(ErrorCode::kUnsupported, "[tokenizer] {}/{}: expected none, but got \"{}\"", where, key, affix);
  }
  const json& vocab = member(model, "vocab");
  if (!vocab.is_object() || vocab.empty()) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/vocab: expected an object with entries, but got {}", where,
                vocab.is_object() ? "an empty one" : vocab.type_name());
  }
  std::vector<Entry> entries;
  entries.reserve(vocab.size());
  for (auto it = vocab.begin(); it != vocab.end(); ++it) {
    ROPEWALK_CHECK_OK(check_id(it.value(), vocab.size(), it.key(), where + "/vocab"));
    entries.push_back({it.value().get<int64_t>(), &it.key(), PieceType::kNormal});
  }
  ROPEWALK_CHECK_OK(read_added_tokens(root, path, vocab.size(), entries, parts));
  ROPEWALK_CHECK_OK(fill_pieces(entries, where + "/vocab", parts.vocabulary));
  ROPEWALK_CHECK_OK(read_merges(member(model, "merges"), where + "/merges", parts.vocabulary));
  ROPEWALK_TRY(parts.model.byte_fallback, json_flag(model, "byte_fallback", false, where));
  ROPEWALK_TRY(parts.model.fuse_unknown, json_flag(model, "fuse_unk", false, where));
  ROPEWALK_TRY(parts.model.ignore_merges, json_flag(model, "ignore_merges", false, where));
  ROPEWALK_TRY(const std::string unknown, json_text(model, "unk_token", "", where));
  parts.model.unknown = id_of(parts.vocabulary, unknown);
  parts.vocabulary.info.unknown = parts.model.unknown;
  return {};
}

// A post-processor adds special tokens around a text: those of TemplateProcessing before and behind its "Sequence".
Result<void> read_post_processor(const json& component, const std::string& where, int depth, TokenizerInfo& info,
                                 const Vocabulary& vocabulary) {
  if (component.is_null()) return {};
  const json& type = component.is_object() ? member(component, "type") : kNull;
  if (!type.is_string())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}: expected an object with a type, but got {}", where,
                component.type_name());
  if (type == "ByteLevel") return {};  // offsets only
  if (type == "Sequence" && member(component, "processors").is_array() && depth < 8) {
    for (const json& step : component["processors"]) {
      ROPEWALK_CHECK_OK(read_post_processor(step, where + "/processors", depth + 1, info, vocabulary));
    }
    return {};
  }
  if (type != "TemplateProcessing") {
    return fail(ErrorCode::kUnsupported, "[tokenizer] {}/type: expected TemplateProcessing, ByteLevel or Sequence, but got {}",
                where, type.dump());
  }
  const json& single = member(component, "single");
  if (!single.is_array())
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/single: expected an array, but got {}", where, single.type_name());
  bool behind = false;
  for (const json& item : single) {
    if (item.is_object() && item.contains("Sequence")) {
      behind = true;
      continue;
    }
    const json& token = item.is_object() ? member(item, "SpecialToken") : kNull;
    const json& name = token.is_object() ? member(token, "id") : kNull;
    const std::optional<int32_t> id = name.is_string() ? id_of(vocabulary, name.get_ref<const std::string&>()) : std::nullopt;
    if (!id) {
      return fail(ErrorCode::kCorrupt, "[tokenizer] {}/single: expected special tokens of the vocabulary, but got {}", where,
                  name.is_string() ? name.dump() : item.type_name());
    }
    std::optional<int32_t>& slot = behind ? info.eos : info.bos;
    bool& adds = behind ? info.add_eos : info.add_bos;
    if (adds) {
      return fail(ErrorCode::kUnsupported, "[tokenizer] {}/single: expected at most one special token {} a text, but got more",
                  where, behind ? "behind" : "before");
    }
    slot = id;
    adds = true;
  }
  return {};
}

// "bos_token": "<s>" or {"content": "<s>", ...}.
Result<std::string> token_text(const json& config, const char* key, const std::string& where) {
  const json& value = member(config, key);
  if (value.is_object()) return json_text(value, "content", "", where + "/" + key);
  return json_text(config, key, "", where);
}

Result<void> read_special(const json& config, const char* key, bool required, const std::string& where,
                          const Vocabulary& vocabulary, std::optional<int32_t>& out) {
  ROPEWALK_TRY(const std::string text, token_text(config, key, where));
  if (text.empty()) return {};
  const std::optional<int32_t> id = id_of(vocabulary, text);
  if (!id && required) {
    return fail(ErrorCode::kCorrupt, "[tokenizer] {}/{}: expected a token of tokenizer.json, but got \"{}\"", where, key, text);
  }
  if (id) out = id;
  return {};
}

Result<std::string> chat_template(const json& config, const std::string& where) {
  const json& value = member(config, "chat_template");
  if (!value.is_array()) return json_text(config, "chat_template", "", where);
  std::string first;  // several by name: the one for chats is "default"
  for (const json& item : value) {
    if (!item.is_object()) continue;
    ROPEWALK_TRY(std::string text, json_text(item, "template", "", where + "/chat_template"));
    if (first.empty() || member(item, "name") == "default") first = std::move(text);
  }
  return first;
}

Result<void> read_config(const TokenizerFiles& files, Vocabulary& vocabulary) {
  TokenizerInfo& info = vocabulary.info;
  if (!files.config.empty()) {
    const std::string where = files.folder + "/tokenizer_config.json";
    ROPEWALK_TRY(const json config, parse(files.config, where));
    ROPEWALK_CHECK_OK(read_special(config, "bos_token", true, where, vocabulary, info.bos));
    ROPEWALK_CHECK_OK(read_special(config, "eos_token", true, where, vocabulary, info.eos));
    ROPEWALK_CHECK_OK(read_special(config, "unk_token", false, where, vocabulary, info.unknown));
    ROPEWALK_CHECK_OK(read_special(config, "pad_token", false, where, vocabulary, info.padding));
    ROPEWALK_TRY(info.add_bos, json_flag(config, "add_bos_token", info.add_bos, where));
    ROPEWALK_TRY(info.add_eos, json_flag(config, "add_eos_token", info.add_eos, where));
    ROPEWALK_TRY(info.chat_template, chat_template(config, where));
  }
  if (!files.chat_template.empty()) info.chat_template = files.chat_template;
  info.add_bos = info.add_bos && info.bos.has_value();
  info.add_eos = info.add_eos && info.eos.has_value();
  return {};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> parse_tokenizer_json(const TokenizerFiles& files) {
  const std::string path = files.folder + "/tokenizer.json";
  ROPEWALK_TRY(const json root, parse(files.tokenizer, path));
  BpeParts parts;
  ROPEWALK_CHECK_OK(read_model(root, path, parts));
  ROPEWALK_CHECK_OK(read_normalizer(member(root, "normalizer"), path + "/normalizer", parts));
  ROPEWALK_CHECK_OK(read_pre_tokenizer(member(root, "pre_tokenizer"), path + "/pre_tokenizer", parts));
  TokenizerInfo& info = parts.vocabulary.info;
  ROPEWALK_CHECK_OK(read_post_processor(member(root, "post_processor"), path + "/post_processor", 0, info, parts.vocabulary));
  ROPEWALK_CHECK_OK(read_config(files, parts.vocabulary));
  info.kind = parts.model.byte_level ? "gpt2" : "llama";
  info.pre = "tokenizer.json";
  return make_bpe(std::move(parts));
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer_json(const std::string& folder) {
  TokenizerFiles files;
  files.folder = folder;
  ROPEWALK_TRY(files.tokenizer, read_file(folder + "/tokenizer.json"));
  const auto optional = [&](const char* name, std::string& out) -> Result<void> {
    auto text = read_file(folder + "/" + name);
    if (text) {
      out = *std::move(text);
    } else if (text.error().code() != ErrorCode::kNotFound) {
      return text.error();
    }
    return {};
  };
  ROPEWALK_CHECK_OK(optional("tokenizer_config.json", files.config));
  ROPEWALK_CHECK_OK(optional("chat_template.jinja", files.chat_template));
  return parse_tokenizer_json(files);
}

}  // namespace ropewalk
