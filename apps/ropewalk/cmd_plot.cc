// plot: pictures of encodings, one over the other.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/fail.h"
#include "command.h"
#include "terminal.h"
#include "workbench/plot/plot.h"

namespace ropewalk::app {
namespace {

struct Options {
  Common common;
  std::vector<std::string> encodings;
  std::string as = "terminal";
  std::string out;
  int64_t distance = 512, heads = 8, head_dim = 64, trained = 2048;
};

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return given > 0 ? given : 80;
}

Result<int> run(const Options& options) {
  PlotOptions how;
  how.context = {static_cast<int>(options.heads), static_cast<int>(options.head_dim), options.heads * options.head_dim,
                 options.trained, options.common.seed};
  how.distance = options.distance;
  ROPEWALK_TRY(const Plot plot, plot_encodings(options.encodings, how));
  std::string text;
  if (options.as == "csv") text = plot_csv(plot);
  if (options.as == "svg") text = plot_svg(plot);
  if (options.as == "html") text = plot_html(plot);
  const bool to_file = !options.out.empty();
  if (options.as == "terminal") text = plot_terminal(plot, to_file ? 80 : terminal_width(), !to_file && colour_wanted(stdout));
  if (to_file) {
    ROPEWALK_CHECK_OK(write_file_atomically(options.out, text));
    print(options.common, fmt::format("written: {}\n", options.out));
  } else {
    print(options.common, text);
  }
  nlohmann::json panels = nlohmann::json::array();
  for (const PlotPanel& panel : plot.panels) {
    nlohmann::json series = nlohmann::json::array();
    for (const PlotSeries& one : panel.series) series.push_back({{"name", one.name}, {"x", one.x}, {"y", one.y}});
    panels.push_back({{"title", panel.title}, {"series", std::move(series)}, {"rows", panel.rows}, {"cols", panel.cols}});
  }
  ROPEWALK_CHECK_OK(write_json(options.common, "plot", nullptr, {{"panels", std::move(panels)}}));
  return kDone;
}

}  // namespace

void add_plot(CLI::App& app) {
  CLI::App& command =
      add_command(app, "plot", "Draws encodings: scores against distance, biases, decay, wavelengths, tables, score matrices",
                  {"ropewalk plot alibi                          # in the terminal",
                   "ropewalk plot rope xpos --distance 2048      # over each other",
                   "ropewalk plot t5 kerple_log --as svg --out biases.svg"});
  auto options = std::make_shared<Options>();
  command.add_option("ENCODING", options->encodings, "encodings, as in `ropewalk encodings`, with parameters: t5:max=256")
      ->required();
  command.add_option("--as", options->as, "terminal, svg, html or csv (default terminal)")
      ->check(CLI::IsMember({"terminal", "svg", "html", "csv"}));
  command.add_option("--out", options->out, "file to write; default: standard output");
  add_integer(command, "--distance", options->distance, 2, 65536, "how far curves reach (default 512)");
  add_integer(command, "--heads", options->heads, 1, 1024, "heads (default 8)");
  add_integer(command, "--head-dim", options->head_dim, 1, 512, "size of a head (default 64)");
  add_integer(command, "--trained", options->trained, 1, int64_t{1} << 31, "trained length (default 2048)");
  add_common(command, options->common);
  set_run(command, [options] { return run(*options); });
}

}  // namespace ropewalk::app
