// Regular expressions over UTF-8: PCRE2 with its just-in-time compiler.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "ropewalk/error.h"

namespace ropewalk {

class Regex {
 public:
  // Unicode throughout (\d \w \p{..} and (?i:) too); \s is White_Space, as in the engines that these patterns were written for.
  // Errors: kUnsupported, naming the pattern, the place and PCRE2's reason.
  static Result<Regex> compile(std::string_view pattern);
  static Result<Regex> literal(std::string_view text);

  // What one thread needs for matching: cheap to make, grown when a match asks for it.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> state_;
  };

  enum class Found { kMatch, kNone, kGaveUp };
  // The first match at or after `from`; the text is valid UTF-8. kGaveUp: the pattern backtracked past PCRE2's limits (ten
  // million steps, 16 MB of stack), which a pattern out of a hostile file can do; none of the built-in ones does, on any text.
  Found find(std::string_view text, size_t from, Scratch& scratch, size_t& begin, size_t& end) const;

 private:
  struct Code;
  static Result<Regex> make(std::string_view pattern, std::string_view shown, bool is_literal);
  std::shared_ptr<const Code> code_;
};

}  // namespace ropewalk
