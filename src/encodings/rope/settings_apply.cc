// A setting made into what attention is given, layer by layer, with the notes that a plan shows.
#include <algorithm>
#include <optional>

#include "base/fail.h"
#include "encodings/position_maps/maps.h"
#include "encodings/rope/factor_file.h"
#include "encodings/rope/settings.h"
#include "encodings/rope/settings_grammar.h"
#include "encodings/rope/stretch.h"

namespace ropewalk {
namespace {

constexpr int64_t kDefaultStep = 256;

double number(const Rule& rule, const char* key, double fallback) {
  const auto it = rule.options.find(key);
  return it == rule.options.end() ? fallback : *settings::parse_number(it->second);
}
std::optional<double> maybe_number(const Rule& rule, const char* key) {
  const auto it = rule.options.find(key);
  return it == rule.options.end() ? std::nullopt : settings::parse_number(it->second);
}
int64_t count(const Rule& rule, const char* key, int64_t fallback) {
  const auto it = rule.options.find(key);
  return it == rule.options.end() ? fallback : *settings::parse_count(it->second);
}

// What one rule of the setting does: a stretch of the frequencies, a window, a map of positions, or nothing (none, plain).
struct Resolved {
  const Rule* rule = nullptr;
  std::optional<Stretch> stretch;
  bool maps_pairs = false;
  Reach reach;               // window > 0: in place of the layer's
  std::vector<bool> layers;  // [layers] chosen
};

bool maps_pairs(const Rule& rule) {
  return rule.name == "self_extend" || rule.name == "rerope" || rule.name == "dual_chunk" || rule.name == "sinks";
}

Result<void> one_pair_rule(const Setting& setting) {
  const auto maps = std::count_if(setting.rules.begin(), setting.rules.end(), maps_pairs);
  if (maps > 1)
    return fail(ErrorCode::kInvalidArgument,
                "[setting] {}: expected one of self_extend, rerope, dual_chunk and sinks, but got {}", setting.text, maps);
  return {};
}

// The map of positions over the schedule that the other rules made. Errors: kInvalidArgument.
Result<std::shared_ptr<const PairMap>> position_map(const Rule& rule, const RotarySchedule& schedule,
                                                    const std::string& setting, int64_t trained) {
  const int64_t value = *settings::parse_count(rule.value);
  if (rule.name == "rerope") return make_rerope(schedule, value, number(rule, "leak", 0));
  if (rule.name == "dual_chunk") {
    if (trained <= value)
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected chunks shorter than the trained length {}, but got {}",
                  setting, trained, value);
    return make_dual_chunk(schedule, value, count(rule, "window", trained - value), trained);
  }
  const int64_t window = count(rule, "window", 0);
  if (window < 1)
    return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected {} with a window, but got none", setting,
                rule.name == "sinks" ? "sinks:N:window=W" : "self_extend:G:window=W");
  if (rule.name == "sinks") return make_sinks(schedule, value, window);
  return make_self_extend(schedule, value, window);
}

Result<std::vector<bool>> choose_layers(const Rule& rule, const std::vector<RotaryLayer>& layers, const std::string& setting) {
  const auto size = static_cast<int64_t>(layers.size());
  std::vector<bool> chosen(layers.size(), false);
  const auto it = rule.options.find("layers");
  const bool mixed = std::any_of(layers.begin(), layers.end(), [](const RotaryLayer& l) { return l.global; }) &&
                     std::any_of(layers.begin(), layers.end(), [](const RotaryLayer& l) { return !l.global; });
  if (it == rule.options.end()) {
    for (size_t i = 0; i < layers.size(); ++i) chosen[i] = !mixed || layers[i].global;
    return chosen;
  }
  const auto choice = *settings::parse_layers(it->second);
  if (choice.kind != settings::LayerChoice::Kind::kRanges) {
    const bool want_global = choice.kind == settings::LayerChoice::Kind::kFull;
    for (size_t i = 0; i < layers.size(); ++i) chosen[i] = layers[i].global == want_global;
    if (std::find(chosen.begin(), chosen.end(), true) == chosen.end()) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected layers of the kind layers={}, but the model has none",
                  setting, it->second);
    }
    return chosen;
  }
  for (const auto& [first, last] : choice.ranges) {
    if (last >= size) {
      return fail(ErrorCode::kInvalidArgument, "[setting] {}: expected layers in 0-{}, but got layers={}", setting, size - 1,
                  it->second);
    }
    for (int64_t i = first; i <= last; ++i) chosen[static_cast<size_t>(i)] = true;
  }
  return chosen;
}

std::string list_layers(const std::vector<bool>& chosen) {
  std::string text;
  for (size_t i = 0; i < chosen.size();) {
    if (!chosen[i]) {
      ++i;
      continue;
    }
    size_t last = i;
    while (last + 1 < chosen.size() && chosen[last + 1]) ++last;
    text += text.empty() ? "" : ", ";
    text += last > i ? fmt::format("{}-{}", i, last) : fmt::format("{}", i);
    i = last + 1;
  }
  return text;
}

Result<Stretch> resolve_longrope(const Rule& rule, int64_t trained, std::vector<std::string>& notes) {
  ROPEWALK_TRY(const LongRopeFile file, read_longrope_file(rule.value));
  Stretch s;
  s.kind = Stretch::Kind::kLongRope;
  s.longrope = file.params;
  s.trained = trained;
  if (!rule.options.contains("original") && file.original && *file.original != trained) {
    s.trained = *file.original;
    notes.push_back(
        fmt::format("longrope: L0 = {}, the original length that {} gives (the model says {}; original=N overrides it)",
                    s.trained, rule.value, trained));
  }
  if (!file.amplitude_known) {
    notes.push_back(fmt::format("longrope: amplitude 1, because {} holds neither factor nor attention_factor", rule.value));
  }
  return s;
}

// The stretch behind a rule; nothing for none, plain and window.
Result<std::optional<Stretch>> resolve(const Rule& rule, int64_t trained, int64_t length, std::vector<std::string>& notes) {
  using Kind = Stretch::Kind;
  static const std::map<std::string, Kind> kKinds = {
      {"theta", Kind::kTheta},       {"linear", Kind::kLinear},   {"ntk", Kind::kNtk},   {"ntk_alpha", Kind::kNtk},
      {"gradient", Kind::kGradient}, {"dynamic", Kind::kDynamic}, {"yarn", Kind::kYarn}, {"llama3", Kind::kLlama3},
      {"longrope", Kind::kLongRope}, {"factors", Kind::kFactors}, {"logn", Kind::kLogN}};
  const auto it = kKinds.find(rule.name);
  if (it == kKinds.end()) return std::optional<Stretch>();
  Stretch s;
  s.trained = trained;
  if (it->second == Kind::kLongRope) {
    ROPEWALK_TRY(s, resolve_longrope(rule, trained, notes));
  } else if (it->second == Kind::kFactors) {
    ROPEWALK_TRY(s.factors, read_factor_file(rule.value));
  } else if (it->second == Kind::kGradient) {
    s.target = *settings::parse_count(rule.value);
  } else if (!rule.value.empty()) {
    s.value = *settings::parse_number(rule.value);
  }
  s.kind = it->second;
  s.yarn = {s.value,
            number(rule, "beta_fast", 32),
            number(rule, "beta_slow", 1),
            number(rule, "truncate", 1) != 0,
            maybe_number(rule, "attention_factor"),
            maybe_number(rule, "mscale"),
            maybe_number(rule, "mscale_all_dim")};
  s.llama3 = {s.value, number(rule, "low", 1), number(rule, "high", 4)};
  if (s.kind == Kind::kDynamic || s.kind == Kind::kLongRope) {
    s.horizon = count(rule, "horizon", 0);
    if (s.horizon == 0) s.step = count(rule, "step", kDefaultStep);
    if (s.horizon > 0 && s.horizon < length) {
      notes.push_back(
          fmt::format("{}: horizon={} is shorter than the length in use, {}; the frequencies stay those of the horizon",
                      rule.name, s.horizon, length));
    }
  }
  return std::optional<Stretch>(std::move(s));
}

bool needs_trained_length(Stretch::Kind kind) {
  using Kind = Stretch::Kind;
  return kind != Kind::kTheta && kind != Kind::kLinear && kind != Kind::kNtk && kind != Kind::kFactors;
}

bool has_step(const std::vector<Stretch>& rules) {
  return std::any_of(rules.begin(), rules.end(), [](const Stretch& s) { return s.step > 0; });
}

// Which of the two readings is meant, where they differ: the file has a scaling of its own and a rule acts on the frequencies.
void note_reading(const Setting& setting, const std::vector<RotaryLayer>& layers, const std::vector<Resolved>& resolved,
                  bool plain, int64_t trained, int64_t original, std::vector<std::string>& notes) {
  const bool stretches = std::any_of(resolved.begin(), resolved.end(),
                                     [](const Resolved& r) { return r.stretch && r.stretch->kind != Stretch::Kind::kLogN; });
  const bool scaled = std::any_of(layers.begin(), layers.end(), [](const RotaryLayer& l) {
    return l.trained != nullptr && l.plain != nullptr && *l.trained != *l.plain;
  });
  if (!stretches || (!scaled && trained == original)) return;
  if (plain) {
    notes.push_back(
        fmt::format("{}: starts from the bare base and L0 = {}; without plain+ it would act on the file's own scaling, with "
                    "L0 = {}",
                    setting.text, original, trained));
  } else {
    notes.push_back(
        fmt::format("{}: acts on the frequencies as trained, the file's own scaling included, with L0 = {}; plain+{} would "
                    "start from the bare base, with L0 = {}",
                    setting.text, trained, setting.text, original));
  }
}

void note_layers(const std::vector<Resolved>& resolved, const std::vector<RotaryLayer>& layers,
                 std::vector<std::string>& notes) {
  for (const Resolved& r : resolved) {
    if (r.rule->name == "none") continue;
    const auto chosen = std::count(r.layers.begin(), r.layers.end(), true);
    if (chosen == static_cast<std::ptrdiff_t>(layers.size())) continue;
    const bool by_default = !r.rule->options.contains("layers");
    notes.push_back(fmt::format("{}: acts on {} {} of {}{}", r.rule->name, chosen == 1 ? "layer" : "layers",
                                list_layers(r.layers), layers.size(),
                                by_default ? ", the global ones (layers=.. chooses others)" : ""));
  }
}

}  // namespace

Result<AppliedSetting> apply_setting(const Setting& setting, const std::vector<RotaryLayer>& layers, int64_t context_trained,
                                     int64_t context_original, int64_t length) {
  ROPEWALK_CHECK_OK(one_pair_rule(setting));
  const bool plain = !setting.rules.empty() && setting.rules.front().name == "plain";
  AppliedSetting applied;
  std::vector<Resolved> resolved;
  for (const Rule& rule : setting.rules) {
    const int64_t trained = count(rule, "original", plain ? context_original : context_trained);
    Resolved r;
    r.rule = &rule;
    ROPEWALK_TRY(r.layers, choose_layers(rule, layers, setting.text));
    ROPEWALK_TRY(r.stretch, resolve(rule, trained, length, applied.notes));
    if (r.stretch && r.stretch->trained < 1 && needs_trained_length(r.stretch->kind)) {
      return fail(ErrorCode::kInvalidArgument,
                  "[setting] {}: {} needs the trained length, which the model does not say; give original=N", setting.text,
                  rule.name);
    }
    if (rule.name == "window") r.reach.window = *settings::parse_count(rule.value);
    if (rule.name == "sinks") r.reach = {count(rule, "window", 0), *settings::parse_count(rule.value), 0};
    r.maps_pairs = maps_pairs(rule);
    resolved.push_back(std::move(r));
  }
  note_reading(setting, layers, resolved, plain, context_trained, context_original, applied.notes);
  note_layers(resolved, layers, applied.notes);

  struct Made {
    const RotarySchedule* base;
    std::vector<bool> acting;  // [resolved]
    std::shared_ptr<const PairMap> pairs;
  };
  std::vector<Made> made;  // equal layers share a map, and with it the schedules that it makes
  for (size_t i = 0; i < layers.size(); ++i) {
    const RotaryLayer& layer = layers[i];
    AppliedLayer out;
    out.reach = layer.reach;
    const bool from_plain = plain && resolved.front().layers[i] && layer.plain != nullptr;
    const RotarySchedule* base = from_plain ? layer.plain : layer.trained;
    std::vector<Stretch> rules;
    std::vector<bool> acting;
    const Rule* map = nullptr;
    for (const Resolved& r : resolved) {
      acting.push_back(r.layers[i]);
      if (!r.layers[i]) continue;
      if (r.reach.window > 0) out.reach = r.reach;
      if (r.stretch) rules.push_back(*r.stretch);
      if (r.maps_pairs) map = r.rule;
    }
    if (map != nullptr && has_step(rules)) {
      return fail(ErrorCode::kUnsupported, "[setting] {}: expected a rule with a horizon beside {}, but got one with steps",
                  setting.text, map->name);
    }
    if (base != nullptr && has_step(rules)) {
      const auto same = std::find_if(made.begin(), made.end(),
                                     [&](const Made& m) { return m.acting == acting && (m.base == base || *m.base == *base); });
      if (same != made.end()) {
        out.pairs = same->pairs;
        applied.layers.push_back(std::move(out));
        continue;
      }
      auto pairs = StepPairs::make(*base, std::move(rules));
      if (!pairs)
        return Error(pairs.error().code(), fmt::format("{}, in layer {} under {}", pairs.error().message(), i, setting.text));
      out.pairs = *pairs;
      made.push_back({base, acting, out.pairs});
    } else if (base != nullptr) {
      auto schedule = stretch(*base, rules, length);
      if (!schedule) {
        return Error(schedule.error().code(),
                     fmt::format("{}, in layer {} under {}", schedule.error().message(), i, setting.text));
      }
      if (map != nullptr) {
        ROPEWALK_TRY(out.pairs, position_map(*map, *schedule, setting.text, count(*map, "original", context_trained)));
      } else {
        out.rotary = *std::move(schedule);
      }
    }
    applied.layers.push_back(std::move(out));
  }
  for (const Resolved& r : resolved) {
    if (!r.stretch && !r.maps_pairs) continue;
    bool turns = false;
    for (size_t i = 0; i < layers.size(); ++i) turns = turns || (r.layers[i] && layers[i].trained != nullptr);
    if (!turns) {
      return fail(ErrorCode::kInvalidArgument,
                  "[setting] {}: expected a layer that rotates for {} to act on, but none of the chosen ones does",
                  setting.text, r.rule->name);
    }
  }
  return applied;
}

}  // namespace ropewalk
