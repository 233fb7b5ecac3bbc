// info: the build, the machine, and what of it is used.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <dnnl.hpp>

#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "base/parallel.h"
#include "command.h"
#include "ropewalk/version.h"
#include "simd/limits.h"
#include "simd/targets.h"
#include "terminal.h"

namespace ropewalk::app {
namespace {

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string thread_runtime() {
#if defined(ROPEWALK_STD_THREADS)
  return "std::thread";
#else
  return "OpenMP";
#endif
}

nlohmann::json libraries() {
  const dnnl_version_t* dnnl = dnnl_version();
  return {{"highway", highway_version()},
          {"onednn", fmt::format("{}.{}.{}", dnnl->major, dnnl->minor, dnnl->patch)},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"nlohmann_json",
           fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"pcre2", fmt::format("{}.{}", PCRE2_MAJOR, PCRE2_MINOR)},
          {"cli11", CLI11_VERSION}};
}

Result<int> run(const Common& common) {
  const nlohmann::json versions = libraries();
  const nlohmann::json body = {
      {"version", ROPEWALK_VERSION},
      {"build", {{"type", ROPEWALK_BUILD_TYPE}, {"compiler", compiler()}, {"thread_runtime", thread_runtime()}}},
      {"simd",
       {{"compiled", simd_targets_compiled()},
        {"supported", simd_targets_supported()},
        {"in_use", simd_target_in_use()},
        {"bf16_dot", has_bf16_dot()}}},
      {"memory", {{"total_bytes", memory_total()}, {"available_bytes", memory_available()}}},
      {"threads", {{"cores", available_cores()}, {"used", common.threads}}},
      {"libraries", versions}};

  std::string text = fmt::format("ropewalk {}\n\n", ROPEWALK_VERSION);
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<18}{}\n", name, value); };
  line("build", fmt::format("{}, {}", ROPEWALK_BUILD_TYPE, compiler()));
  line("processor", cpu_name());
  line("cores, threads", fmt::format("{}, {} ({})", available_cores(), common.threads, thread_runtime()));
  line("memory", fmt::format("{}, {} available", short_bytes(static_cast<double>(memory_total())),
                             short_bytes(static_cast<double>(memory_available()))));
  line("SIMD in use", simd_target_in_use());
  line("SIMD compiled", fmt::format("{}", fmt::join(simd_targets_compiled(), ", ")));
  line("SIMD supported", fmt::format("{}", fmt::join(simd_targets_supported(), ", ")));
  line("bf16 dot product", bf16_pays()
                               ? fmt::format("yes ({}): --precision fast multiplies in bf16", bf16_units().front().instruction)
                           : has_bf16_dot() ? "yes, but slower than f32 here: --precision fast computes in f32"
                                            : "no: --precision fast computes in f32");
  for (const auto& item : versions.items()) line(item.key(), item.value().get<std::string>());
  print(common, text);
  if (auto written = write_json(common, "info", nullptr, body); !written) return written.error();
  return kDone;
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App& command = add_command(app, "info", "The build, the machine, and what of it is used",
                                  {"ropewalk info", "ropewalk info --json - | jq .simd.in_use"});
  auto common = std::make_shared<Common>();
  add_common(command, *common);
  set_run(command, [common] { return run(*common); });
}

}  // namespace ropewalk::app
