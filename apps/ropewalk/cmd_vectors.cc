// vectors: what another engine can test its rotation against.
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "command.h"
#include "vectors.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  VectorsRequest request;
  std::string positions = "0,1,4095,1048576";
  std::string pairing = "halves", profile = "exact";
};

// "0,1,-5,8k": whole numbers, negative ones too; k and m as everywhere.
Result<std::vector<int64_t>> parse_positions(const std::string& list) {
  std::vector<int64_t> positions;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string word = list.substr(begin, end - begin);
    int64_t unit = 1;
    if (!word.empty() && (word.back() == 'k' || word.back() == 'm')) {
      unit = word.back() == 'k' ? 1024 : 1024 * 1024;
      word.pop_back();
    }
    int64_t m = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), m);
    if (word.empty() || error != std::errc() || stop != word.data() + word.size() || m > (int64_t{1} << 31) / unit ||
        m < -(int64_t{1} << 31) / unit) {
      return fail(ErrorCode::kInvalidArgument,
                  "[command] --positions: expected whole numbers in [-2^31, 2^31] such as 0,1,8k, but got '{}'",
                  list.substr(begin, end - begin));
    }
    positions.push_back(m * unit);
    begin = end + 1;
  }
  return positions;
}

Result<int> run(Options options) {
  options.request.positions = or_usage(parse_positions(options.positions));
  options.request.seed = options.common.seed;
  options.request.pairing = options.pairing == "halves" ? Pairing::kHalves : Pairing::kInterleaved;
  const std::string& profile = options.profile;
  options.request.profile = profile == "hf"      ? Profile::kHf
                            : profile == "ggml"  ? Profile::kGgml
                            : profile == "exact" ? Profile::kExact
                                                 : Profile::kVllmBf16;
  ROPEWALK_TRY(const Vectors vectors, make_vectors(options.request));
  for (const std::string& line : vectors.notes) note(options.common, line);
  print(options.common, vectors_text(vectors));
  nlohmann::json body = vectors_body(vectors);
  body["profile"] = profile;
  const nlohmann::json model = vectors.layer < 0 ? nlohmann::json() : nlohmann::json{{"path", options.request.subject}};
  ROPEWALK_CHECK_OK(write_json(options.common, "vectors", model, body));
  return kDone;
}

}  // namespace

void add_vectors(CLI::App& app) {
  CLI::App& command =
      add_command(app, "vectors", "Frequencies, cos and sin, rotated vectors and scores to test another engine against",
                  {"# a setting on a fresh schedule", "ropewalk vectors yarn:4 --positions 0,1,4095,1m --json vectors.json",
                   "# what a file says, and the same under a setting", "ropewalk vectors model.gguf --positions 8191",
                   "ropewalk vectors config.json --rope ntk:2 --layer 5 --profile hf"});
  auto options = std::make_shared<Options>();
  VectorsRequest& request = options->request;
  add_common(command, options->common);
  command.add_option("subject", request.subject, "a setting, or a .gguf file, a model folder, a config.json")->required();
  command.add_option("--positions", options->positions, "positions of the rows, negative ones too")->capture_default_str();
  command.add_option("--rope", request.setting, "the setting to apply to a file")->capture_default_str();
  command.add_option("--layer", request.layer, "the layer of a file (default: the first global one that rotates)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--head-dim", request.head_dim, "head size D under a setting")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--rotary-dim", request.rotary_dim, "rotary width R under a setting (default: the head size)")
      ->check(CLI::Range(2, 1 << 20));
  command.add_option("--theta", request.theta, "rotary base under a setting")->capture_default_str();
  add_length(command, "--trained", request.trained, "trained length L0 under a setting (default 4096)");
  command.add_option("--pairing", options->pairing, "which dims turn together under a setting")
      ->capture_default_str()
      ->check(CLI::IsMember({"halves", "interleaved"}));
  command.add_option("--profile", options->profile, "whose rounding")
      ->capture_default_str()
      ->check(CLI::IsMember({"exact", "hf", "ggml", "vllm_bf16"}));
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
