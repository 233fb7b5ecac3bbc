// tokens: what a model's tokenizer makes of a text.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "command.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/unicode.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

constexpr size_t kShown = 40;  // rows on the terminal without --all

struct Options {
  Common common;
  std::string model, text_file, prompt;
  bool parse_special = false;
  bool plain = false;
  bool all = false;
};

Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return load_tokenizer_json(path);
  ROPEWALK_TRY(const std::unique_ptr<GgufFile> file, GgufFile::open(path));
  return make_tokenizer(*file);
}

// Text as a C string literal shows it; what is not UTF-8, or would move the cursor, as \xNN.
std::string as_literal(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_at(text, at);
    const std::string_view bytes = text.substr(at, c.bytes);
    at += c.bytes;
    if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '"' || c.code == '\\') {
      out += '\\';
      out += bytes;
    } else if (c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0) || !c.valid()) {
      for (const char byte : bytes) out += fmt::format("\\x{:02X}", static_cast<unsigned>(static_cast<uint8_t>(byte)));
    } else {
      out += bytes;
    }
  }
  return out + "\"";
}

std::string listing(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t bytes, bool all) {
  const size_t shown = all ? ids.size() : std::min(ids.size(), kShown);
  std::vector<std::vector<std::string>> rows;
  rows.reserve(shown);
  for (size_t i = 0; i < shown; ++i) {
    const std::span<const int32_t> one(&ids[i], 1);
    rows.push_back({std::to_string(i), std::to_string(ids[i]), as_literal(tokenizer.decode(one))});
  }
  std::string out = fmt::format("{} tokens for {} bytes", ids.size(), bytes);
  if (!ids.empty()) out += fmt::format(", {:.2f} bytes a token", static_cast<double>(bytes) / static_cast<double>(ids.size()));
  out += fmt::format(" ({}, {} pieces)\n\n", tokenizer.info().kind, tokenizer.size());
  if (!rows.empty()) out += format_table({"#", "id", "text"}, rows);
  if (shown < ids.size()) out += fmt::format("... and {} more (--all lists them)\n", ids.size() - shown);
  return out;
}

Result<int> run(const Options& options) {
  ROPEWALK_TRY(const std::unique_ptr<Tokenizer> tokenizer, open_tokenizer(options.model));
  std::string text = options.prompt;
  if (!options.text_file.empty()) {
    ROPEWALK_TRY(text, read_file(options.text_file));
  }
  const TokenizerInfo& info = tokenizer->info();
  std::vector<int32_t> ids = tokenizer->encode(text, options.parse_special);
  const bool bos = !options.plain && info.add_bos && info.bos;
  const bool eos = !options.plain && info.add_eos && info.eos;
  if (bos) ids.insert(ids.begin(), *info.bos);
  if (eos) ids.push_back(*info.eos);

  print(options.common, listing(*tokenizer, ids, text.size(), options.all));
  if (options.common.json.empty()) return kDone;
  std::vector<std::string> pieces;
  pieces.reserve(ids.size());
  for (const int32_t id : ids) pieces.push_back(tokenizer->piece(id));
  const nlohmann::json model = {
      {"path", options.model}, {"tokenizer", info.kind}, {"pre", info.pre}, {"vocabulary_size", tokenizer->size()}};
  const nlohmann::json body = {{"ids", ids},           {"pieces", std::move(pieces)},
                               {"bytes", text.size()}, {"tokens", ids.size()},
                               {"bos_added", bos},     {"eos_added", eos}};
  ROPEWALK_CHECK_OK(write_json(options.common, "tokens", model, body));
  return kDone;
}

}  // namespace

void add_tokens(CLI::App& app) {
  CLI::App& command = add_command(
      app, "tokens", "What a model's tokenizer makes of a text",
      {"ropewalk tokens model.gguf --prompt \"The rope\"", "ropewalk tokens model.gguf --text hamlet.txt --json ids.json",
       "# a chat prompt, its special tokens read as such, and no BOS before it",
       "ropewalk tokens model.gguf --prompt '<|im_start|>user' --special --plain"});
  auto options = std::make_shared<Options>();
  command.add_option("MODEL", options->model, "a .gguf file, or a folder with tokenizer.json")->required();
  CLI::Option_group* source = command.add_option_group("input", "one of");
  source->add_option("--text", options->text_file, "the file to tokenize");
  source->add_option("--prompt", options->prompt, "the text to tokenize");
  source->require_option(1);
  command.add_flag("--special", options->parse_special, "special tokens written out in the text become their ids");
  command.add_flag("--plain", options->plain, "without the BOS and EOS that the model's file asks for");
  command.add_flag("--all", options->all, "list every token, not the first 40");
  add_common(command, options->common);
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
