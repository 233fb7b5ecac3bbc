#include "vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "base/fail.h"
#include "base/random.h"
#include "encodings/rope/settings.h"
#include "engine/forward.h"
#include "engine/hf_sizes.h"
#include "engine/model.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

// One layer under a setting, and what else the numbers depend on.
struct Subject {
  std::string setting;
  AppliedLayer layer;
  int64_t index = -1;
  int head_dim = 0;
  double scale = 0;
  std::vector<std::string> notes;
};

int64_t length_of(const VectorsRequest& request) {
  const int64_t last = *std::max_element(request.positions.begin(), request.positions.end());
  return std::clamp<int64_t>(last, 0, std::numeric_limits<int64_t>::max() - 1) + 1;
}

Result<Subject> from_setting(const VectorsRequest& request, const Setting& setting) {
  const int width = request.rotary_dim == 0 ? request.head_dim : request.rotary_dim;
  ROPEWALK_TRY(const RotarySchedule plain, make_rotary_schedule(request.theta, width, request.head_dim, request.pairing));
  const std::vector<RotaryLayer> layers = {{&plain, &plain, true, 0}};
  ROPEWALK_TRY(AppliedSetting applied, apply_setting(setting, layers, request.trained, request.trained, length_of(request)));
  return Subject{setting.text,     std::move(applied.layers[0]),    -1,
                 request.head_dim, 1 / std::sqrt(request.head_dim), applied.notes};
}

Result<ModelSpec> spec_of_config(const std::string& path) {
  ROPEWALK_TRY(const HfConfig config, load_hf_config(path));
  ModelSpec spec;
  spec.heads = static_cast<int>(config.num_attention_heads);
  spec.kv_heads = static_cast<int>(config.num_key_value_heads);
  spec.head_dim = static_cast<int>(config.head_dim);
  spec.notes = config.warnings;
  if (config.query_pre_attn_scalar) spec.attention_scale = 1 / std::sqrt(*config.query_pre_attn_scalar);
  spec.layers.resize(static_cast<size_t>(config.num_hidden_layers));
  ROPEWALK_CHECK_OK(set_hf_positions(config, spec));
  return spec;
}

Result<Subject> from_spec(const VectorsRequest& request, const ModelSpec& spec) {
  ROPEWALK_TRY(const Setting setting, parse_setting(request.setting));
  ROPEWALK_TRY(AppliedSetting applied, apply_setting(setting, spec, length_of(request)));
  const auto layers = static_cast<int64_t>(applied.layers.size());
  const auto rotates = [&](int64_t i) {
    const AppliedLayer& layer = applied.layers[static_cast<size_t>(i)];
    return layer.rotary.has_value() || layer.pairs != nullptr;
  };
  int64_t chosen = request.layer;
  for (int64_t i = 0; chosen < 0 && i < layers; ++i) {
    if (rotates(i) && spec.layers[static_cast<size_t>(i)].position.global) chosen = i;
  }
  if (chosen < 0 || chosen >= layers || !rotates(chosen)) {
    return fail(ErrorCode::kInvalidArgument, "[vectors] {}: expected a layer in 0-{} that rotates, but got {}", request.subject,
                layers - 1, request.layer < 0 ? "no such layer" : fmt::format("--layer {}", request.layer));
  }
  Subject subject{
      setting.text, std::move(applied.layers[static_cast<size_t>(chosen)]), chosen, spec.head_dim, spec.attention_scale,
      spec.notes};
  if (subject.scale == 0) subject.scale = 1 / std::sqrt(spec.head_dim);
  subject.notes.insert(subject.notes.end(), applied.notes.begin(), applied.notes.end());
  return subject;
}

Result<Subject> open_subject(const VectorsRequest& request) {
  std::error_code ignored;
  const std::filesystem::path path = request.subject;
  if (!std::filesystem::exists(path, ignored)) {
    auto setting = parse_setting(request.subject);
    if (setting) return from_setting(request, *setting);
    return Error(setting.error().code(), fmt::format("{} (and there is no file of that name)", setting.error().message()));
  }
  const bool config = path.extension() == ".json" ||
                      (std::filesystem::is_directory(path, ignored) && std::filesystem::exists(path / "config.json", ignored));
  if (config) {
    ROPEWALK_TRY(const ModelSpec spec, spec_of_config(request.subject));
    return from_spec(request, spec);
  }
  ROPEWALK_TRY(const Model model, Model::open_weights(request.subject));
  return from_spec(request, model.spec());
}

std::vector<float> draw(uint64_t seed, uint64_t row, int dim) {
  Random random(seed, row);
  std::vector<float> q(static_cast<size_t>(dim));
  for (float& x : q) x = static_cast<float>(random.normal());
  return q;
}

Result<RotaryTable> table_at(const RotarySchedule& schedule, int64_t m, Profile profile) {
  // Text: all axes stand at the same position.
  const size_t axes = schedule.axis.empty() ? 1 : size_t{1} + *std::max_element(schedule.axis.begin(), schedule.axis.end());
  return make_rotary_table(schedule, std::vector<int64_t>(axes, m), profile);
}

Result<std::vector<float>> rotated(const RotarySchedule& schedule, std::vector<float> x, int64_t m, Profile profile) {
  ROPEWALK_TRY(const RotaryTable table, table_at(schedule, m, profile));
  const HeadsView view = heads_view(x.data(), 1, 1, static_cast<int>(x.size()));
  ROPEWALK_CHECK_OK(rotate(schedule, table, view, view));
  return x;
}

}  // namespace

Result<Vectors> make_vectors(const VectorsRequest& request) {
  if (request.positions.empty())
    return fail(ErrorCode::kInvalidArgument, "[vectors] expected at least one position, but got none");
  ROPEWALK_TRY(Subject subject, open_subject(request));
  Vectors v;
  v.setting = subject.setting;
  v.positions = request.positions;
  v.head_dim = subject.head_dim;
  v.layer = subject.index;
  v.scale = subject.scale;
  v.notes = std::move(subject.notes);
  if (subject.layer.pairs == nullptr) {
    v.schedules.push_back(*subject.layer.rotary);
  } else {
    for (const int64_t m : v.positions)
      v.schedules.push_back(subject.layer.pairs->schedule(subject.layer.pairs->choose({m, m}, {m, m}).side[0]));
  }
  if (subject.layer.pairs != nullptr && !subject.layer.pairs->name().empty()) {
    return fail(ErrorCode::kUnsupported,
                "[vectors] {}: expected a setting whose positions belong to tokens, but got one where they depend on the pair",
                subject.setting);
  }
  const size_t rows = v.positions.size();
  for (size_t r = 0; r < rows; ++r) v.q.push_back(draw(request.seed, r, v.head_dim));
  for (size_t r = 0; r < rows; ++r) {
    const RotarySchedule& schedule = v.schedule(r);
    ROPEWALK_TRY(RotaryTable table, table_at(schedule, v.positions[r], request.profile));
    v.cos.push_back(std::move(table.cos));
    v.sin.push_back(std::move(table.sin));
    ROPEWALK_TRY(std::vector<float> q, rotated(schedule, v.q[r], v.positions[r], request.profile));
    std::vector<double> scores;
    const double multiplier =
        v.scale * schedule.softmax_multiplier * query_multiplier(schedule.query_temperature, v.positions[r]);
    for (size_t c = 0; c < rows; ++c) {
      ROPEWALK_TRY(const std::vector<float> k, rotated(schedule, v.q[c], v.positions[c], request.profile));
      double sum = 0;
      for (size_t j = 0; j < k.size(); ++j) sum += static_cast<double>(q[j]) * static_cast<double>(k[j]);
      scores.push_back(multiplier * sum);
    }
    v.q_rotated.push_back(std::move(q));
    v.scores.push_back(std::move(scores));
  }
  return v;
}

nlohmann::json vectors_body(const Vectors& v) {
  const RotarySchedule& last = v.schedules.back();
  nlohmann::json body = {{"setting", v.setting},
                         {"positions", v.positions},
                         {"inv_freq", last.inv_freq},
                         {"cos", v.cos},
                         {"sin", v.sin},
                         {"q", v.q},
                         {"q_rotated", v.q_rotated},
                         {"scores", v.scores},
                         {"pairing", last.pairing == Pairing::kHalves ? "halves" : "interleaved"},
                         {"head_dim", v.head_dim},
                         {"rotary_dim", last.rotated.count},
                         {"rotary_begin", last.rotated.begin},
                         {"amplitude", last.amplitude},
                         {"softmax_multiplier", last.softmax_multiplier},
                         {"scale", v.scale},
                         {"notes", v.notes}};
  body["layer"] = v.layer < 0 ? nlohmann::json() : nlohmann::json(v.layer);
  body["theta"] = last.theta > 0 ? nlohmann::json(last.theta) : nlohmann::json();
  std::vector<double> temperature;
  for (size_t r = 0; r < v.positions.size(); ++r)
    temperature.push_back(query_multiplier(v.schedule(r).query_temperature, v.positions[r]));
  body["query_multiplier"] = temperature;
  if (v.schedules.size() > 1) {
    body["inv_freq_by_position"] = nlohmann::json::array();
    for (const RotarySchedule& schedule : v.schedules) body["inv_freq_by_position"].push_back(schedule.inv_freq);
  }
  return body;
}

std::string vectors_text(const Vectors& v) {
  constexpr size_t kShownPositions = 4;
  const RotarySchedule& last = v.schedules.back();
  std::string text =
      fmt::format("{}: {} planes of a head of {}, {}, amplitude {:.6g}\n\n", v.setting, last.inv_freq.size(), v.head_dim,
                  last.pairing == Pairing::kHalves ? "pairs (i, i + R/2)" : "pairs (2i, 2i + 1)", last.amplitude);
  std::vector<std::string> header = {"plane", "inv_freq", "wavelength"};
  const size_t shown = std::min(kShownPositions, v.positions.size());
  for (size_t r = 0; r < shown; ++r) {
    header.push_back(fmt::format("cos {}", v.positions[r]));
    header.push_back(fmt::format("sin {}", v.positions[r]));
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < last.inv_freq.size(); ++i) {
    const double f = last.inv_freq[i];
    std::vector<std::string> row = {fmt::format("{}", i), fmt::format("{:.9g}", f),
                                    f == 0 ? "-" : fmt::format("{:.6g}", 2 * std::numbers::pi / f)};
    for (size_t r = 0; r < shown; ++r) {
      row.push_back(fmt::format("{:.7f}", v.cos[r][i]));
      row.push_back(fmt::format("{:.7f}", v.sin[r][i]));
    }
    rows.push_back(std::move(row));
  }
  text += format_table(header, rows);
  if (shown < v.positions.size())
    text += fmt::format("\n{} more positions: --json - has them all\n", v.positions.size() - shown);
  if (v.schedules.size() > 1) {
    text += "\nThe frequencies depend on the position; those shown are of the last one (--json - has them all).\n";
  }
  return text;
}

}  // namespace ropewalk::app
