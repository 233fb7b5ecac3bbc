// Chat: how turns of a conversation become one text. Models carry a Jinja template; a table of the common ones is recognised by
// what stands in it, and written here as data. Rejected: an interpreter for Jinja, a language, for a dozen templates.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ropewalk/error.h"

namespace ropewalk {

enum class ChatRole { kSystem, kUser, kAssistant };

struct ChatTurn {
  ChatRole role = ChatRole::kUser;
  std::string text;
};

// What stands around a turn. "{bos}" and "{eos}" stand for the model's own tokens.
struct ChatFormat {
  enum class System {
    kTurn,       // a turn like the others
    kFirstUser,  // put before the first user turn's text, between system_open and system_close
    kNone,       // the template has no place for it
  };

  std::string name;  // "chatml", "llama-2", ...
  std::string user_open, user_close;
  std::string assistant_open, assistant_close;
  std::string system_open, system_close;
  System system = System::kTurn;
  std::string before;          // the whole
  std::string prompt;          // asks the assistant for its turn
  bool trim = false;           // the template strips white space around each text
  bool always_system = false;  // the template opens with a system turn, be it empty
  std::string default_system;  // the text of the system turn where the caller gives none; empty: no turn
  std::string stop;            // ends the assistant's turn; "{eos}" where that is the model's end of text
};

// Errors: kNotFound (the file has no template), kUnsupported (not in the table: the known names are listed).
Result<ChatFormat> find_chat_format(std::string_view template_text);

// The turns as the model's template writes them, asking for the assistant's next turn, to be encoded with parse_special. A BOS
// at the very start is left out where `tokenizer_adds_bos`: the tokenizer's caller puts it there. Errors: kInvalidArgument (a
// system turn that is not the first, or that the format has no place for).
Result<std::string> render_chat(const ChatFormat& format, std::span<const ChatTurn> turns, std::string_view bos,
                                std::string_view eos, bool tokenizer_adds_bos);

}  // namespace ropewalk
