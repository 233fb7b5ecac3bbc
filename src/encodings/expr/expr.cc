// A bias given as a formula of m, n, d, h and H: the general relative form, parsed by muParser.
#include <muParser.h>

#include <cmath>
#include <memory>
#include <string>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

// muParser binds variables by address, so each thread and call works on a copy of its own.
class Formula {
 public:
  // Throws mu::ParserError.
  explicit Formula(const std::string& text) {
    parser_.EnableOptimizer(true);
    parser_.DefineFun("log", [](double x) { return std::log(x); });  // natural, whatever the library's version says
    parser_.SetExpr(text);
    bind();
    parser_.Eval();
    if (parser_.GetNumResults() != 1) throw mu::ParserError("it has more than one value");
  }
  Formula(const Formula& other) : parser_(other.parser_) { bind(); }
  Formula& operator=(const Formula&) = delete;

  double operator()(double m, double n, double h, double heads) noexcept {
    m_ = m;
    n_ = n;
    d_ = m - n;
    h_ = h;
    heads_ = heads;
    try {
      return parser_.Eval();
    } catch (const mu::ParserError&) {
      return std::nan("");
    }
  }
  // Whether it reads m or n, and not d alone.
  bool reads_positions() const {
    const auto& used = parser_.GetUsedVar();
    return used.contains("m") || used.contains("n");
  }
  // Assignments would make the value depend on the order of calls.
  bool assigns() const { return parser_.GetExpr().find('=') != std::string::npos && !compares_only(); }

 private:
  bool compares_only() const {
    const std::string text = parser_.GetExpr();
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '=') continue;
      const bool pair = i + 1 < text.size() && text[i + 1] == '=';
      const bool after = i > 0 && (text[i - 1] == '<' || text[i - 1] == '>' || text[i - 1] == '!');
      if (!pair && !after) return false;
      if (pair) ++i;
    }
    return true;
  }
  void bind() {
    parser_.DefineVar("m", &m_);
    parser_.DefineVar("n", &n_);
    parser_.DefineVar("d", &d_);
    parser_.DefineVar("h", &h_);
    parser_.DefineVar("H", &heads_);
  }

  mu::Parser parser_;
  double m_ = 2, n_ = 1, d_ = 1, h_ = 0, heads_ = 1;
};

class ByDistance : public DistanceTerm {
 public:
  explicit ByDistance(const Formula& formula) : formula_(formula) {}
  void fill(int head, int heads, int64_t first, std::span<double> out) const override {
    Formula formula = formula_;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = formula(static_cast<double>(first + static_cast<int64_t>(i)), 0, head, heads);
  }

 private:
  Formula formula_;
};

class ByPositions : public PairTerm {
 public:
  using PairTerm::fill;
  explicit ByPositions(const Formula& formula) : formula_(formula) {}
  void fill(int head, int heads, int64_t m, int64_t n, std::span<double> out) const override {
    Formula formula = formula_;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = formula(static_cast<double>(m), static_cast<double>(n + static_cast<int64_t>(i)), head, heads);
  }

 private:
  Formula formula_;
};

}  // namespace

const EncodingEntry& encoding_expr() {
  static const EncodingEntry entry = {
      .info = {.name = "expr",
               .title = "A bias by its formula",
               .family = "relative",
               .formula = "s += formula(m, n, d, h, H), d = m - n",
               .summary =
                   "The general relative form, to try an idea without C++. A formula of d, h and H alone is tabulated once a "
                   "call; one of m or n is evaluated for every pair.",
               .source = "Shaw et al. 2018 and after: s + b(m, n, h) with any b",
               .cost = "a table of H by T + S floats a call; with m or n an evaluation a pair",
               .text = "a formula of m n d h H: + - * / ^, comparisons, c ? a : b, abs, log (natural), exp, sqrt, sin, cos, "
                       "min, max ...",
               .text_value = "-0.5*log(1+abs(d))",
               .points = {.score = true},
               .shift_invariant = true},
      .make = [](const EncodingArguments& arguments, const EncodingContext&,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const std::string& text = arguments.text();
        try {
          const Formula formula(text);
          if (formula.assigns())
            return fail(ErrorCode::kInvalidArgument,
                        "[encoding] expr: expected a formula of m n d h H without assignments, but got '{}'", text);
          PositionEncoding encoding;
          if (formula.reads_positions()) {
            encoding.score = std::make_shared<ByPositions>(formula);
          } else {
            encoding.score = std::make_shared<ByDistance>(formula);
          }
          return encoding;
        } catch (const mu::ParserError& error) {
          return fail(ErrorCode::kInvalidArgument, "[encoding] expr: expected a formula of m n d h H, but got '{}': {}", text,
                      error.GetMsg());
        }
      }};
  return entry;
}

}  // namespace ropewalk
