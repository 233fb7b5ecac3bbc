// generate: text from a model, a token at a time.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/fail.h"
#include "command.h"
#include "engine/forward.h"
#include "engine/sampler.h"
#include "formats/tokenizer/chat.h"
#include "formats/tokenizer/unicode.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  std::string model, prompt, system, rope = "none";
  int64_t count = 128;
  double temperature = 0;
  bool chat = false, ignore_end = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Prompt {
  std::vector<int32_t> ids;
  std::unordered_set<int32_t> ends;  // tokens that end the text
};

std::string piece_or_empty(const Tokenizer& tokenizer, const std::optional<int32_t>& id) {
  return id ? tokenizer.piece(*id) : std::string();
}

Result<Prompt> make_prompt(const Options& options, const Tokenizer& tokenizer) {
  const TokenizerInfo& info = tokenizer.info();
  Prompt prompt;
  if (info.eos) prompt.ends.insert(*info.eos);
  const bool bos = info.add_bos && info.bos.has_value();
  std::string text = options.prompt;
  if (options.chat) {
    ROPEWALK_TRY(const ChatFormat format, find_chat_format(info.chat_template));
    std::vector<ChatTurn> turns;
    if (!options.system.empty()) turns.push_back({ChatRole::kSystem, options.system});
    turns.push_back({ChatRole::kUser, options.prompt});
    ROPEWALK_TRY(text,
                 render_chat(format, turns, piece_or_empty(tokenizer, info.bos), piece_or_empty(tokenizer, info.eos), bos));
    const std::vector<int32_t> stop = tokenizer.encode(format.stop, true);
    if (stop.size() == 1) prompt.ends.insert(stop.front());
  }
  prompt.ids = tokenizer.encode(text, options.chat);
  if (bos) prompt.ids.insert(prompt.ids.begin(), *info.bos);
  if (prompt.ids.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "[generate] --prompt: expected a text of at least one token, but got an empty one");
  }
  return prompt;
}

struct Outcome {
  std::vector<int32_t> ids;
  std::string text;
  double prompt_seconds = 0, seconds = 0;
  int64_t steps = 0;  // tokens computed one at a time
  bool interrupted = false;
};

// Prints what is complete of the text so far, at once: a reader at a terminal follows along.
void emit(const Common& common, Outcome& outcome, const std::string& text) {
  outcome.text += text;
  print(common, text);
  if (common.json != "-") std::fflush(stdout);
}

Result<Outcome> generate(const Options& options, const Model& model, const Prompt& prompt) {
  const int64_t capacity = static_cast<int64_t>(prompt.ids.size()) + options.count;
  ROPEWALK_TRY(const Setting setting, parse_setting(options.rope));
  ROPEWALK_TRY(const AppliedSetting applied, apply_setting(setting, model.spec(), capacity));
  for (const std::string& text : applied.notes) note(options.common, text);
  if (capacity > model.spec().context_trained && options.rope == "none") {
    note(options.common, fmt::format("{} tokens are more than the {} that the model was trained to read: see ropewalk extend",
                                     capacity, model.spec().context_trained));
  }
  ForwardOptions forward;
  forward.threads = options.common.threads;
  ROPEWALK_TRY(Session session, Session::make(model, applied.layers, capacity, forward));

  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  std::vector<float> logits;
  {
    const Control control = make_control(options.common, "reading the prompt", "tokens");
    ROPEWALK_TRY(logits, session.append(prompt.ids, control));
  }
  outcome.prompt_seconds = seconds_since(start);
  Control control;
  control.stop = &stop_requested();
  Random random(options.common.seed);
  Utf8Stream stream;
  const auto first = std::chrono::steady_clock::now();
  while (static_cast<int64_t>(outcome.ids.size()) < options.count) {
    ROPEWALK_TRY(const int32_t token, sample_token(logits, options.temperature, random));
    if (!options.ignore_end && prompt.ends.contains(token)) break;
    outcome.ids.push_back(token);
    emit(options.common, outcome, stream.push(model.tokenizer().decode(std::span(&token, 1))));
    if (static_cast<int64_t>(outcome.ids.size()) == options.count) break;
    auto next = session.append(std::span(&token, 1), control);
    if (!next && next.error().code() == ErrorCode::kInterrupted) {
      outcome.interrupted = true;
      break;
    }
    if (!next) return next.error();
    logits = *std::move(next);
    ++outcome.steps;
  }
  outcome.seconds = seconds_since(first);
  emit(options.common, outcome, stream.finish());
  print(options.common, "\n");
  return outcome;
}

Result<int> run(const Options& options) {
  ROPEWALK_TRY(const Model model, Model::open(options.model));
  ROPEWALK_TRY(const Prompt prompt, make_prompt(options, model.tokenizer()));
  ROPEWALK_TRY(const Outcome outcome, generate(options, model, prompt));
  const auto rate = [](size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; };
  const double prompt_rate = rate(prompt.ids.size(), outcome.prompt_seconds);
  const double token_rate = rate(static_cast<size_t>(outcome.steps), outcome.seconds);
  note(options.common, fmt::format("{} prompt tokens at {} tokens/s, {} generated at {} tokens/s", prompt.ids.size(),
                                   short_number(prompt_rate), outcome.ids.size(), short_number(token_rate)));
  const nlohmann::json description = {{"path", options.model},
                                      {"architecture", model.spec().architecture},
                                      {"name", model.spec().name},
                                      {"context_trained", model.spec().context_trained}};
  const nlohmann::json body = {{"prompt_ids", prompt.ids},
                               {"ids", outcome.ids},
                               {"text", outcome.text},
                               {"setting", options.rope},
                               {"prompt_tokens_per_second", prompt_rate},
                               {"tokens_per_second", token_rate},
                               {"interrupted", outcome.interrupted}};
  ROPEWALK_CHECK_OK(write_json(options.common, "generate", description, body));
  return outcome.interrupted ? kInterrupted : kDone;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App& command = add_command(
      app, "generate", "Text from a model",
      {"ropewalk generate model.gguf --prompt \"To be, or not to be\" -n 64",
       "ropewalk generate model.gguf --chat --prompt \"Who wrote Hamlet?\" --temperature 0.7 --seed 1",
       "# past the trained context, with a setting", "ropewalk generate model.gguf --prompt \"$(cat long.txt)\" --rope ntk:2"});
  auto options = std::make_shared<Options>();
  command.add_option("MODEL", options->model, "a .gguf file, or a folder in the Hugging Face layout")->required();
  command.add_option("--prompt", options->prompt, "the text to go on from")->required();
  add_integer(command, "-n,--tokens", options->count, 1, int64_t{1} << 24, "how many tokens to write at most (128)");
  command.add_option("--temperature", options->temperature, "0 takes the likeliest token; higher is more varied")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--rope", options->rope, "the position setting to run with")->capture_default_str();
  command.add_flag("--chat", options->chat, "the prompt is a user's turn, written as the model's chat template has it");
  command.add_option("--system", options->system, "a system turn before it (with --chat)");
  command.add_flag("--ignore-end", options->ignore_end, "go on after the token that ends a text");
  add_common(command, options->common);
  set_run(command, [options]() -> Result<int> {
    or_usage(parse_setting(options->rope));  // found before the model is opened
    return run(*options);
  });
}

}  // namespace ropewalk::app
