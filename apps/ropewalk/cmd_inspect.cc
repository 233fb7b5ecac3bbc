// inspect: what the position scheme of a model is.
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "command.h"
#include "inspection.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  std::string path;
  bool planes = false;
};

Result<int> run(const Options& options) {
  ROPEWALK_TRY(const Inspection found, inspect_path(options.path));
  print(options.common, inspection_text(found, options.planes));
  ROPEWALK_CHECK_OK(write_json(options.common, "inspect", inspection_model(found), inspection_body(found)));
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App& command =
      add_command(app, "inspect", "What the position scheme of a model is, layer by layer",
                  {"ropewalk inspect model.gguf", "ropewalk inspect model.gguf --planes        # every plane's wavelength",
                   "ropewalk inspect checkpoint/config.json     # a lone config will do",
                   "ropewalk inspect model.gguf --json - | jq '.layers[0].inv_freq'"});
  auto options = std::make_shared<Options>();
  command.add_option("model", options->path, "a .gguf file, a Hugging Face folder, or a config.json")
      ->required()
      ->type_name("MODEL");
  command.add_flag("--planes", options->planes, "list every plane: frequency, wavelength, turns in training");
  add_common(command, options->common);
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
