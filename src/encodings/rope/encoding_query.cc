// Rules on the query alone: log-n and the temperatures of Llama 4 and Ministral 3, with or without a rotation.
#include "base/fail.h"
#include "encodings/registry.h"

namespace ropewalk {
namespace {

Result<PositionEncoding> with(const QueryTemperature& temperature, double theta, const EncodingContext& context) {
  RotarySchedule schedule;
  if (theta > 0) {
    ROPEWALK_TRY(schedule, make_rotary_schedule(theta, context.head_dim, context.head_dim, Pairing::kHalves));
  }
  schedule.query_temperature = temperature;
  PositionEncoding encoding;
  encoding.rotary = std::move(schedule);
  return encoding;
}

const EncodingParameter kTheta = {"theta", "base of the rotation; 0: no rotation", 10000, 0, 1e12, false};

}  // namespace

const EncodingEntry& encoding_logn() {
  static const EncodingEntry entry = {
      .info = {.name = "logn",
               .title = "RoPE with log-n scaled queries",
               .family = "rotary",
               .formula = "q_m * max(1, ln(m + 1) / ln(L0)) after the rotation",
               .summary =
                   "Attention over more keys than in training is flatter; scores grow with the logarithm of their number to "
                   "keep its entropy.",
               .used_by = "Qwen (first generation)",
               .source = "Su 2021, kexue.fm/archives/8823; Chiang and Cholak 2022, arXiv:2202.12172",
               .cost = "a rotation of q and k, fused with packing",
               .parameters = {{"length", "L0; 0 = the trained length of the layer", 0, 0, 2147483647, true}, kTheta},
               .points = {.rotation = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        const int64_t length = arguments["length"] == 0 ? context.trained : arguments.whole("length");
        if (length < 2)
          return fail(ErrorCode::kInvalidArgument, "[encoding] logn: length: expected at least 2, but got {}", length);
        return with({QueryTemperature::Form::kLogN, 0, length}, arguments["theta"], context);
      }};
  return entry;
}

const EncodingEntry& encoding_temperature() {
  static const EncodingEntry entry = {
      .info = {.name = "temperature",
               .title = "Query temperature by position",
               .family = "rotary",
               .formula = "q_m * (1 + beta ln(1 + floor((m + 1)/length))), or (ministral) floor(m/length)",
               .summary =
                   "Queries grow in steps of `length` positions. Llama 4 does so on its layers without rotation (theta = 0), "
                   "Ministral 3 on every layer after the rotation.",
               .used_by = "Llama 4 (length=8192); Ministral 3 (ministral=1, length=16384)",
               .source = "transformers' llama4 and ministral3; Nakanishi 2025, arXiv:2501.19399",
               .cost = "a factor a query, fused with packing",
               .parameters = {{"beta", "how fast it grows", 0.1, 0, 100, false},
                              {"length", "positions of a step", 64, 1, 2147483647, true},
                              {"ministral", "1: Ministral's form", 0, 0, 1, true},
                              kTheta},
               .points = {.rotation = true}},
      .make = [](const EncodingArguments& arguments, const EncodingContext& context,
                 const EncodingTables&) -> Result<PositionEncoding> {
        using Form = QueryTemperature::Form;
        return with(
            {arguments["ministral"] != 0 ? Form::kMinistral : Form::kLlama4, arguments["beta"], arguments.whole("length")},
            arguments["theta"], context);
      }};
  return entry;
}

}  // namespace ropewalk
