#include "formats/tokenizer/chat.h"

#include <algorithm>
#include <vector>

#include "base/fail.h"

namespace ropewalk {
namespace {

using System = ChatFormat::System;

struct Known {
  std::vector<std::string_view> marks;   // all stand in the template
  std::vector<std::string_view> absent;  // none does
  ChatFormat format;
};

// Sources: the chat_template of the models' own tokenizer_config.json, named in the comments. More telling marks come first.
const std::vector<Known>& table() {
  static const std::vector<Known> formats = [] {
    std::vector<Known> known;
    const auto add = [&known](std::string_view name, std::vector<std::string_view> marks,
                              std::vector<std::string_view> absent = {}) -> ChatFormat& {
      known.push_back({std::move(marks), std::move(absent), {}});
      known.back().format.name = name;
      return known.back().format;
    };
    {  // SmolLM2, Qwen 2 and 2.5, Yi, many fine-tunes. Qwen 3 and others with tools or thinking in the template: plain turns
       // agree.
      ChatFormat& f = add("chatml", {"<|im_start|>", "<|im_end|>"}, {"<|im_sep|>"});
      f.user_open = "<|im_start|>user\n";
      f.assistant_open = f.prompt = "<|im_start|>assistant\n";
      f.system_open = "<|im_start|>system\n";
      f.user_close = f.assistant_close = f.system_close = "<|im_end|>\n";
      f.stop = "<|im_end|>";
    }
    // Llama 3; 3.1 and later say two dates in a system turn of their own, the second a constant where no clock is asked.
    for (const bool dated : {true, false}) {
      constexpr std::string_view kDate = "Cutting Knowledge Date: December 2023";
      ChatFormat& f = dated ? add("llama-3.1", {"<|start_header_id|>", "<|eot_id|>", kDate})
                            : add("llama-3", {"<|start_header_id|>", "<|eot_id|>"}, {"Cutting Knowledge Date"});
      f.before = "{bos}";
      f.user_open = "<|start_header_id|>user<|end_header_id|>\n\n";
      f.assistant_open = f.prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n";
      f.system_open = "<|start_header_id|>system<|end_header_id|>\n\n";
      if (dated) f.system_open += std::string(kDate) + "\nToday Date: 26 Jul 2024\n\n";
      f.user_close = f.assistant_close = f.system_close = "<|eot_id|>";
      f.trim = true;
      f.always_system = dated;
      f.stop = "<|eot_id|>";
    }
    {  // Gemma 1 to 3
      ChatFormat& f = add("gemma", {"<start_of_turn>", "<end_of_turn>"});
      f.before = "{bos}";
      f.user_open = "<start_of_turn>user\n";
      f.assistant_open = f.prompt = "<start_of_turn>model\n";
      f.user_close = f.assistant_close = "<end_of_turn>\n";
      f.system = System::kFirstUser;
      f.system_close = "\n\n";
      f.trim = true;
      f.stop = "<end_of_turn>";
    }
    {  // Phi 3
      ChatFormat& f = add("phi-3", {"<|user|>", "<|assistant|>", "<|end|>"});
      f.user_open = "<|user|>\n";
      f.assistant_open = f.prompt = "<|assistant|>\n";
      f.system_open = "<|system|>\n";
      f.user_close = f.assistant_close = f.system_close = "<|end|>\n";
      f.stop = "<|end|>";
    }
    {  // Zephyr, TinyLlama
      ChatFormat& f = add("zephyr", {"<|user|>", "<|assistant|>", "eos_token"});
      f.user_open = "<|user|>\n";
      f.assistant_open = f.prompt = "<|assistant|>\n";
      f.system_open = "<|system|>\n";
      f.user_close = f.assistant_close = f.system_close = "{eos}\n";
      f.stop = "{eos}";
    }
    {  // Llama 2
      ChatFormat& f = add("llama-2", {"[INST]", "<<SYS>>"});
      f.user_open = "{bos}[INST] ";
      f.user_close = " [/INST]";
      f.assistant_open = " ";
      f.assistant_close = " {eos}";
      f.system = System::kFirstUser;
      f.system_open = "<<SYS>>\n";
      f.system_close = "\n<</SYS>>\n\n";
      f.trim = true;
      f.stop = "{eos}";
    }
    {  // Mistral 7B Instruct, the first two versions; the third and later write [INST] and its spaces otherwise
      ChatFormat& f = add("mistral", {"'[INST] '", "' [/INST]'"}, {"<<SYS>>", "[AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]"});
      f.before = "{bos}";
      f.user_open = "[INST] ";
      f.user_close = " [/INST]";
      f.assistant_close = "{eos}";
      f.system = System::kNone;
      f.stop = "{eos}";
    }
    return known;
  }();
  return formats;
}

// Templates such as SmolLM2's and Qwen's write a system turn of their own where the chat has none. Its text stands in the
// template between the marks of a system turn, as a literal.
std::string literal_system(std::string_view text) {
  constexpr std::string_view kOpen = "<|im_start|>system";
  if (text.find("!= 'system'") == std::string_view::npos && text.find("!= \"system\"") == std::string_view::npos &&
      text.find("{%- else %}") == std::string_view::npos) {
    return "";
  }
  for (size_t at = text.find(kOpen); at != std::string_view::npos; at = text.find(kOpen, at + 1)) {
    const std::string_view rest = text.substr(at + kOpen.size());
    const size_t newline = rest.starts_with("\\n") ? 2 : rest.starts_with("\n") ? 1 : 0;
    const std::string_view body = rest.substr(newline, rest.find("<|im_end|>") - newline);
    const bool literal = body.find_first_of("'\"{}\\\n") == std::string_view::npos;
    if (newline > 0 && rest.find("<|im_end|>") != std::string_view::npos && literal && !body.empty()) return std::string(body);
  }
  return "";
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Fills in the model's tokens. Only the format's own strings pass through here, never the text of a turn.
std::string filled(std::string_view text, std::string_view bos, std::string_view eos) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("{bos}")) {
      out += bos;
      at += 5;
    } else if (text.substr(at).starts_with("{eos}")) {
      out += eos;
      at += 5;
    } else {
      out += text[at++];
    }
  }
  return out;
}

}  // namespace

Result<ChatFormat> find_chat_format(std::string_view template_text) {
  if (template_text.empty()) return fail(ErrorCode::kNotFound, "[chat] expected a chat template in the file, but got none");
  const auto has = [template_text](std::string_view mark) { return template_text.find(mark) != std::string_view::npos; };
  std::string names;
  for (const Known& known : table()) {
    if (std::all_of(known.marks.begin(), known.marks.end(), has) &&
        std::none_of(known.absent.begin(), known.absent.end(), has)) {
      ChatFormat format = known.format;
      if (format.name == "chatml") format.default_system = literal_system(template_text);
      return format;
    }
    names += (names.empty() ? "" : ", ") + known.format.name;
  }
  return fail(ErrorCode::kUnsupported,
              "[chat] expected one of the known chat templates ({}), but got another, which begins \"{}\"", names,
              template_text.substr(0, 60));
}

Result<std::string> render_chat(const ChatFormat& format, std::span<const ChatTurn> turns, std::string_view bos,
                                std::string_view eos, bool tokenizer_adds_bos) {
  std::string out;
  const auto put = [&](std::string_view text) { out += filled(text, bos, eos); };
  const auto body = [&](const ChatTurn& turn) { return format.trim ? trimmed(turn.text) : std::string_view(turn.text); };
  put(format.before);
  const bool has_system = !turns.empty() && turns[0].role == ChatRole::kSystem;
  if (has_system && format.system == System::kNone) {
    return fail(ErrorCode::kInvalidArgument,
                "[chat] expected turns of user and assistant, as template {} has, but got a system turn", format.name);
  }
  if (format.system == System::kTurn && (has_system || format.always_system || !format.default_system.empty())) {
    put(format.system_open);
    out += has_system ? body(turns[0]) : std::string_view(format.default_system);
    put(format.system_close);
  }
  bool system_waits = has_system && format.system == System::kFirstUser;
  for (size_t i = has_system ? 1 : 0; i < turns.size(); ++i) {
    const ChatTurn& turn = turns[i];
    if (turn.role == ChatRole::kSystem) {
      return fail(ErrorCode::kInvalidArgument, "[chat] expected the system turn first, but got one as turn {}", i);
    }
    const bool user = turn.role == ChatRole::kUser;
    put(user ? format.user_open : format.assistant_open);
    if (user && system_waits) {
      put(format.system_open);
      out += turns[0].text;  // templates of this kind take it as it is
      put(format.system_close);
      system_waits = false;
    }
    out += body(turn);
    put(user ? format.user_close : format.assistant_close);
  }
  put(format.prompt);
  if (tokenizer_adds_bos && !bos.empty() && out.starts_with(bos)) out.erase(0, bos.size());
  return out;
}

}  // namespace ropewalk
