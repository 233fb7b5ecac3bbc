#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/tokenizer/regex.h"

#include <pcre2.h>

#include "base/fail.h"

namespace ropewalk {
namespace {

// PCRE2's own \s takes U+180E along, which lost White_Space in Unicode 6.3.
constexpr std::string_view kSpaces =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// The pattern with \s and \S spelled out (\S inside a class stays: a class cannot hold a complement).
std::string spell_out_spaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kSpaces);
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A ']' right after the opening is an ordinary character.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

struct Regex::Scratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

Regex::Scratch::Scratch() : state_(std::make_unique<State>()) {}
Regex::Scratch::~Scratch() = default;

Result<Regex> Regex::make(std::string_view pattern, std::string_view shown, bool is_literal) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const uint32_t options = PCRE2_UTF | (is_literal ? PCRE2_LITERAL : PCRE2_UCP);
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(pattern.data());
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(bytes, pattern.size(), options, &error, &offset, nullptr);
  if (code->code == nullptr) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return fail(ErrorCode::kUnsupported,
                "[tokenizer] expected a regular expression that PCRE2 can compile, but got \"{}\" ({})", shown,
                reinterpret_cast<const char*>(message));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Result<Regex> Regex::compile(std::string_view pattern) { return make(spell_out_spaces(pattern), pattern, false); }
Result<Regex> Regex::literal(std::string_view text) { return make(text, text, true); }

Regex::Found Regex::find(std::string_view text, size_t from, Scratch& scratch, size_t& begin, size_t& end) const {
  Scratch::State& s = *scratch.state_;
  if (s.data == nullptr || s.context == nullptr) return Found::kGaveUp;
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto match = [&] {
    // The caller checked the text once; checking it in every match would make splitting quadratic.
    return code_->jit ? pcre2_jit_match(code_->code, bytes, text.size(), from, PCRE2_NO_UTF_CHECK, s.data, s.context)
                      : pcre2_match(code_->code, bytes, text.size(), from, PCRE2_NO_UTF_CHECK, s.data, s.context);
  };
  int rc = match();
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT && s.stack == nullptr) {
    s.stack = pcre2_jit_stack_create(size_t{1} << 16, size_t{16} << 20, nullptr);
    if (s.stack != nullptr) pcre2_jit_stack_assign(s.context, nullptr, s.stack);
    rc = match();
  }
  if (rc == PCRE2_ERROR_NOMATCH) return Found::kNone;
  if (rc < 0) return Found::kGaveUp;
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(s.data);
  begin = ends[0];
  end = ends[1];
  // \K in a lookaround may put the start past the end; such a match is no piece of text.
  return begin <= end && begin >= from ? Found::kMatch : Found::kGaveUp;
}

}  // namespace ropewalk
