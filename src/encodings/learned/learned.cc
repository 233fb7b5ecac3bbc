// A learned vector for each position, and the two ways of reaching beyond the table.
#include <cmath>
#include <memory>
#include <vector>

#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

enum class Extension { kNone, kInterpolate, kHierarchical };

class Learned : public InputTerm {
 public:
  Learned(std::vector<float> table, int64_t rows, int64_t offset, Extension extension, double alpha, int64_t length)
      : table_(std::move(table)), rows_(rows), offset_(offset), extension_(extension), alpha_(alpha), length_(length) {}

  Result<void> apply(std::span<const int64_t> positions, float* x, int64_t width) const override {
    for (const int64_t m : positions) {
      if (m >= 0 && m < usable()) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "[learned] expected positions from 0 to {} (a table of {} rows, offset {}), but got {}", usable() - 1, rows_,
                  offset_, m);
    }
    for (size_t t = 0; t < positions.size(); ++t) {
      float* to = x + static_cast<int64_t>(t) * width;
      const std::vector<Part> rows = parts(positions[t]);
      for (int64_t c = 0; c < width; ++c) {
        auto sum = static_cast<double>(to[c]);
        for (const Part& part : rows)
          sum += part.share * static_cast<double>(table_[static_cast<size_t>(part.row * width + c)]);
        to[c] = static_cast<float>(sum);
      }
    }
    return {};
  }
  void backward(std::span<const int64_t> positions, const float*, float* gradient, int64_t width,
                EncodingGradients& weights) const override {
    std::vector<double>& table = weights.of("table", table_.size());
    for (size_t t = 0; t < positions.size(); ++t) {
      for (const Part& part : parts(positions[t])) {
        for (int64_t c = 0; c < width; ++c) {
          table[static_cast<size_t>(part.row * width + c)] +=
              part.share * static_cast<double>(gradient[static_cast<int64_t>(t) * width + c]);
        }
      }
    }
  }

 private:
  int64_t places() const { return rows_ - offset_; }  // positions that have a row of their own
  int64_t usable() const {
    if (extension_ == Extension::kNone) return places();
    return extension_ == Extension::kInterpolate ? length_ : places() * places();
  }
  // The encoding of a position: rows of the table by their shares.
  struct Part {
    int64_t row;
    double share;
  };
  std::vector<Part> parts(int64_t m) const {
    switch (extension_) {
      case Extension::kNone: break;
      case Extension::kInterpolate: {
        // Half-pixel centres, as image resizing does (align_corners = false).
        const double at = (static_cast<double>(m) + 0.5) * static_cast<double>(places()) / static_cast<double>(length_) - 0.5;
        const double place = std::min(std::max(at, 0.0), static_cast<double>(places() - 1));
        const auto low = static_cast<int64_t>(place);
        const int64_t high = std::min(low + 1, places() - 1);
        const double share = place - static_cast<double>(low);
        return {{low + offset_, 1 - share}, {high + offset_, share}};
      }
      case Extension::kHierarchical: {
        // a u_i + (1 - a) u_j, u_i = (p_i - a p_0) / (1 - a).
        const double a = alpha_ / (1 - alpha_);
        return {{m / places() + offset_, a}, {m % places() + offset_, 1}, {offset_, -a * alpha_ - alpha_}};
      }
    }
    return {{m + offset_, 1}};
  }

  std::vector<float> table_;  // [rows][C]
  int64_t rows_, offset_;
  Extension extension_;
  double alpha_;
  int64_t length_;
};

}  // namespace

const EncodingEntry& encoding_learned() {
  static const EncodingEntry entry = {
      .info =
          {.name = "learned",
           .title = "Learned table",
           .family = "absolute",
           .formula = "x_m + P[m + offset]",
           .summary =
               "A trained vector for each position. Positions beyond the table are an error, unless an extension is chosen: "
               "interpolate stretches the table to `length`; hierarchical makes rows^2 positions out of pairs of rows.",
           .used_by = "GPT-2, BERT (offset 0); OPT, BART, RoBERTa (offset 2); ViT",
           .source = "Gehring et al. 2017, arXiv:1705.03122; hierarchical: Su 2020 (u_i = (p_i - a p_0)/(1 - a))",
           .cost = "one addition to the embeddings",
           .parameters = {{"rows", "rows of the table; 0 = trained length + offset", 0, 0, 16777216, true},
                          {"offset", "row of position 0", 0, 0, 65536, true},
                          {"interpolate", "1: stretch the table to `length` positions", 0, 0, 1, true},
                          {"length", "positions of an interpolated table", 4096, 1, 2147483648.0, true},
                          {"hierarchical", "1: position i n + j is a u_i + (1 - a) u_j", 0, 0, 1, true},
                          {"alpha", "a of hierarchical", 0.4, 0.001, 0.999, false}},
           .points = {.input = true}},
      .shapes = [](const EncodingArguments& arguments, const EncodingContext& context) -> std::vector<EncodingWeight> {
        const int64_t rows = arguments.whole("rows");
        return {{"table", {rows > 0 ? rows : context.trained + arguments.whole("offset"), context.width}, {}}};
      },
      .initial = [](const std::string&, double normal) { return 0.02 * normal; },
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables& tables) -> Result<PositionEncoding> {
        const auto rows = static_cast<int64_t>(tables["table"].size()) / context.width;
        const int64_t offset = arguments.whole("offset");
        if (offset >= rows)
          return fail(ErrorCode::kInvalidArgument, "[encoding] learned: offset: expected less than the {} rows, but got {}",
                      rows, offset);
        const bool interpolate = arguments["interpolate"] != 0;
        const bool hierarchical = arguments["hierarchical"] != 0;
        if (interpolate && hierarchical)
          return fail(ErrorCode::kInvalidArgument, "[encoding] learned: expected interpolate or hierarchical, but got both");
        const Extension extension = interpolate    ? Extension::kInterpolate
                                    : hierarchical ? Extension::kHierarchical
                                                   : Extension::kNone;
        PositionEncoding encoding;
        encoding.input =
            std::make_shared<Learned>(tables["table"], rows, offset, extension, arguments["alpha"], arguments.whole("length"));
        return encoding;
      }};
  return entry;
}

}  // namespace ropewalk
