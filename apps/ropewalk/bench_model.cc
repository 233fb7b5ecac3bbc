// bench model: a real checkpoint, reading and writing.
#include "bench_frame.h"
#include "engine/model.h"
#include "inspection.h"

namespace ropewalk::app {
namespace {

struct ModelCommand : BenchCommand {
  std::string path;
  ModelBench model;
  DType compute = DType::kF32;
  bool no_decode = false;
};

Result<int> run(const ModelCommand& options) {
  ROPEWALK_TRY(const Model model, Model::open_weights(options.path));
  ModelBench setup = options.model;
  setup.fast = options.compute == DType::kBF16;
  setup.decode = !options.no_decode;
  Inspection found = inspect_spec(model.spec(), model.gguf() != nullptr ? "gguf" : "hf", options.path);
  found.file_bytes = model.file_bytes();
  return run_bench(options, "model", inspection_model(found), [&](const BenchOptions& bench_options, const Control& control) {
    return bench_model(model, setup, bench_options, control);
  });
}

}  // namespace

void add_bench_model(CLI::App& bench) {
  auto options = std::make_shared<ModelCommand>();
  options->min_runs = 3;
  CLI::App& command = add_bench_kind(bench, "model", "Tokens per second of a model, reading and writing", *options,
                                     {"ropewalk bench model model.gguf --lengths 512,4k",
                                      "ropewalk bench model model.gguf --lengths 16k --precision fast --no-decode"});
  command.add_option("model", options->path, "a .gguf file or a Hugging Face folder")->required()->type_name("MODEL");
  add_lengths(command, "--lengths", options->model.lengths, "prompt lengths (default 512,4k)");
  add_choice<DType>(command, "--precision", options->compute, {{"exact", DType::kF32}, {"fast", DType::kBF16}},
                    "exact (f32) or fast (bf16 where native); default exact");
  command.add_flag("--no-decode", options->no_decode, "time prompts only, not single tokens behind them");
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
