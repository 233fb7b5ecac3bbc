#include "workbench/model_scorer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/fail.h"
#include "base/machine.h"
#include "ropewalk/version.h"
#include "workbench/statistics.h"

namespace ropewalk {
namespace {

Result<AppliedSetting> applied(const Model& model, const std::string& text, int64_t length) {
  ROPEWALK_TRY(const Setting setting, parse_setting(text));
  return apply_setting(setting, model.spec(), length);
}

int32_t argmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Two pair maps act alike on positions [0, length): the same map of positions, and the same schedule in every block of queries.
bool same_pairs(const PairMap& a, const PairMap& b, int64_t length) {
  if (a.name() != b.name()) return false;
  for (int64_t m = 0; m < length;) {
    const PairMap::Choice x = a.choose({m, m}, {0, m}), y = b.choose({m, m}, {0, m});
    if (x.sides != y.sides || x.border != y.border) return false;
    for (int side = 0; side < x.sides; ++side) {
      if (side > 0 && x.split[side - 1] != y.split[side - 1]) return false;
      if (!(a.schedule(x.side[side]) == b.schedule(y.side[side]))) return false;
    }
    const int64_t next = std::min(a.next_edge(m), b.next_edge(m));
    if (next <= m) return false;
    m = next;
  }
  return true;
}

std::vector<std::filesystem::path> files_of(const std::string& path) {
  std::vector<std::filesystem::path> files;
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    for (std::filesystem::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
      std::error_code skip;
      if (at->is_regular_file(skip)) files.push_back(at->path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(path);
  }
  return files;
}

}  // namespace

bool same_positions(const AppliedSetting& a, const AppliedSetting& b, int64_t length) {
  if (a.layers.size() != b.layers.size()) return false;
  for (size_t i = 0; i < a.layers.size(); ++i) {
    const AppliedLayer &x = a.layers[i], &y = b.layers[i];
    if (!(x.reach == y.reach) || (x.pairs == nullptr) != (y.pairs == nullptr)) return false;
    if (x.pairs != nullptr ? !same_pairs(*x.pairs, *y.pairs, length) : !(x.rotary == y.rotary)) return false;
  }
  return true;
}

Scorer model_scorer(const Model& model, ForwardOptions options) {
  const int64_t all = weight_cache_bytes(model.spec(), options.precision);
  auto weights = std::make_shared<WeightCache>(all <= memory_available() / 4 ? all : 0);
  options.weights = weights.get();
  Scorer scorer;
  scorer.score = [&model, options, weights](const std::string& setting, std::span<const int32_t> tokens,
                                            const Control& control) -> Result<std::vector<double>> {
    ROPEWALK_TRY(const AppliedSetting positions, applied(model, setting, static_cast<int64_t>(tokens.size())));
    return score_window(model, positions.layers, tokens, {}, options, control);
  };
  // Asked many times for the same lengths: remembered.
  auto known = std::make_shared<std::map<std::tuple<std::string, int64_t, int64_t>, bool>>();
  scorer.prefix_equal = [&model, known](const std::string& setting, int64_t shorter, int64_t longer) {
    const auto [at, fresh] = known->try_emplace({setting, shorter, longer}, false);
    if (fresh) {
      const auto a = applied(model, setting, shorter), b = applied(model, setting, longer);
      at->second = a && b && same_positions(*a, *b, shorter);
    }
    return at->second;
  };
  scorer.flops = [&model](int64_t length) { return score_flops(model.spec(), length); };
  scorer.memory = [&model, options, weights](int64_t length) { return score_memory(model.spec(), length, options); };
  return scorer;
}

Retriever model_retriever(const Model& model, ForwardOptions options) {
  return [&model, options](const std::string& setting, const PasskeyTrial& trial, const Control& control) -> Result<bool> {
    const auto length = static_cast<int64_t>(trial.prompt.size() + trial.answer.size()) + 1;
    ROPEWALK_TRY(const AppliedSetting positions, applied(model, setting, length));
    ROPEWALK_TRY(Session session, Session::make(model, positions.layers, length, options));
    std::vector<int32_t> prompt;
    const TokenizerInfo& info = model.tokenizer().info();
    if (info.add_bos && info.bos) prompt.push_back(*info.bos);
    prompt.insert(prompt.end(), trial.prompt.begin(), trial.prompt.end());
    ROPEWALK_TRY(std::vector<float> logits, session.append(prompt, control));
    for (size_t i = 0; i < trial.answer.size(); ++i) {
      if (argmax(logits) != trial.answer[i]) return false;
      if (i + 1 == trial.answer.size()) break;
      ROPEWALK_TRY(logits, session.append(std::span(&trial.answer[i], 1), control));
    }
    return true;
  };
}

Corpus make_corpus(const Model& model, std::vector<Text> texts) {
  Corpus corpus;
  corpus.texts = std::move(texts);
  const TokenizerInfo& info = model.tokenizer().info();
  if (info.add_bos) corpus.bos = info.bos;
  return corpus;
}

Result<std::vector<std::string>> setting_notes(const Model& model, const std::string& setting, int64_t length) {
  ROPEWALK_TRY(AppliedSetting out, applied(model, setting, length));
  return std::move(out.notes);
}

Result<std::vector<ExportTarget>> export_model_setting(const Model& model, const std::string& text, int64_t context) {
  const ModelSpec& spec = model.spec();
  ExportRequest request;
  ROPEWALK_TRY(request.setting, parse_setting(text));
  ROPEWALK_TRY(request.applied, apply_setting(request.setting, spec, context));
  for (const LayerSpec& layer : spec.layers) {
    const LayerPosition& p = layer.position;
    request.layers.push_back({p.rotary ? &*p.rotary : nullptr, p.rotary_plain ? &*p.rotary_plain : nullptr, p.global, p.reach});
  }
  request.context_trained = spec.context_trained;
  request.context = context;
  request.architecture = spec.architecture;
  request.head_dim = spec.head_dim;
  return export_setting(request);
}

bool is_expressible(const Model& model, const std::string& setting, int64_t context) {
  const auto targets = export_model_setting(model, setting, context);
  return targets && std::any_of(targets->begin(), targets->end(), [](const ExportTarget& t) { return t.expressible; });
}

std::string measurement_context(const Model& model, Precision precision) {
  uint64_t hash = fingerprint("model");
  for (const auto& file : files_of(model.path())) {
    std::error_code failed;
    const auto size = std::filesystem::file_size(file, failed);
    const auto changed = std::filesystem::last_write_time(file, failed).time_since_epoch().count();
    hash = fingerprint(fmt::format("{} {} {}", file.filename().string(), failed ? 0 : size, failed ? 0 : changed), hash);
    std::ifstream in(file, std::ios::binary);
    std::string head(65536, '\0');
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    hash = fingerprint(std::string_view(head.data(), static_cast<size_t>(std::max<std::streamsize>(0, in.gcount()))), hash);
  }
  return fmt::format("ropewalk {} model {:016x} {}", ROPEWALK_VERSION, hash, precision == Precision::kExact ? "exact" : "fast");
}

nlohmann::json model_json(const Model& model) {
  const ModelSpec& spec = model.spec();
  return {{"path", model.path()},
          {"name", spec.name},
          {"architecture", spec.architecture},
          {"bytes", model.file_bytes()},
          {"layers", spec.layers.size()},
          {"heads", spec.heads},
          {"kv_heads", spec.kv_heads},
          {"head_dim", spec.head_dim},
          {"width", spec.width},
          {"vocabulary", spec.vocabulary},
          {"context_trained", spec.context_trained},
          {"context_claimed", spec.context_claimed},
          {"tokenizer", model.tokenizer().info().kind}};
}

}  // namespace ropewalk
