#include "workbench/results.h"

#include <cmath>

namespace ropewalk {
namespace {

using nlohmann::json;

void add_interval(json& out, const Interval& i) {
  out["low"] = i.low;
  out["high"] = i.high;
}

json interval_json(const Interval& i) { return {{"mean", i.mean}, {"low", i.low}, {"high", i.high}, {"tokens", i.count}}; }

template <class Rows>
json list(const Rows& rows) {
  json out = json::array();
  for (const auto& row : rows) out.push_back(to_json(row));
  return out;
}

}  // namespace

json to_json(const SettingRow& row) {
  json out = {{"setting", row.setting}, {"length", row.length},
              {"windows", row.windows}, {"tokens", row.tokens},
              {"nll", row.nll.mean},    {"ppl", std::exp(std::min(row.nll.mean, 700.0))},
              {"seconds", row.seconds}, {"tokens_per_second", row.tokens_per_second}};
  add_interval(out, row.nll);
  if (row.pass_length != row.length) out["shared_from_length"] = row.pass_length;
  json positions = json::array();
  for (const BucketRow& b : row.by_position) {
    json entry = {{"from", b.bucket.from}, {"to", b.bucket.to}, {"tokens", b.nll.count}, {"nll", b.nll.mean}};
    add_interval(entry, b.nll);
    positions.push_back(std::move(entry));
  }
  out["by_position"] = std::move(positions);
  return out;
}

json to_json(const PairRow& row) {
  json out = {{"a", row.a},
              {"b", row.b},
              {"length", row.length},
              {"from", row.bucket.from},
              {"to", row.bucket.to},
              {"tokens", row.delta.count},
              {"delta_nll", row.delta.mean},
              {"verdict", to_string(row.verdict)}};
  add_interval(out, row.delta);
  return out;
}

json to_json(const Curve& curve) {
  json points = json::array();
  for (const CurvePoint& p : curve.points) points.push_back({p.from, p.to, p.mean, p.error});
  return {{"setting", curve.setting},
          {"against", curve.against.empty() ? json(nullptr) : json(curve.against)},
          {"length", curve.length},
          {"points", std::move(points)}};
}

json to_json(const RetrievalRow& row) {
  return {
      {"setting", row.setting}, {"length", row.length}, {"depth", row.depth}, {"trials", row.trials}, {"correct", row.correct}};
}

json to_json(const ExportTarget& target) {
  json files = json::array();
  for (const ExportFile& file : target.files) files.push_back(file.name);
  json out = {{"as", target.as},
              {"files", files},
              {"losses", target.losses},
              {"expressible", target.expressible},
              {"snippet", target.snippet}};
  if (target.expressible) {
    out["round_trip"] = {{"max_relative_frequency_error", target.max_relative_frequency_error},
                         {"amplitude_error", target.amplitude_error}};
  }
  return out;
}

json eval_json(const EvalResult& result) {
  return {{"settings", list(result.settings)},
          {"paired", list(result.paired)},
          {"curves", list(result.curves)},
          {"notes", result.notes},
          {"complete", result.complete}};
}

json extend_json(const ExtendResult& result, const std::string& reproduce) {
  json out = eval_json(result.eval);
  json candidates = json::array();
  for (const CandidateResult& c : result.candidates) {
    json entry = {{"setting", c.setting},
                  {"state", to_string(c.standing)},
                  {"dropped_at", c.dropped_at > 0 ? json(c.dropped_at) : json(nullptr)},
                  {"why", c.why},
                  {"loadable", c.expressible}};
    if (c.price) entry["short_cost"] = interval_json(*c.price);
    if (c.gain) entry["gain"] = interval_json(*c.gain);
    candidates.push_back(std::move(entry));
  }
  out["candidates"] = std::move(candidates);
  const Recommendation& r = result.recommendation;
  if (r.setting.empty()) {
    out["recommendation"] = nullptr;
  } else {
    out["recommendation"] = {{"setting", r.setting},
                             {"reason", r.reason},
                             {"usable_to", r.usable_to},
                             {"short_cost_nll", r.short_cost.mean},
                             {"short_cost", interval_json(r.short_cost)},
                             {"gain_nll", r.gain.mean},
                             {"gain", interval_json(r.gain)},
                             {"runner_up", r.runner_up.empty() ? json(nullptr) : json(r.runner_up)},
                             {"reproduce", reproduce}};
  }
  out["price"] = list(result.price);
  out["restart"] = list(result.restart);
  out["asked"] = result.asked;
  out["target"] = result.target;
  out["seconds"] = result.seconds;
  return out;
}

}  // namespace ropewalk
