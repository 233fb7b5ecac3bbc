// Pictures of encodings: what is drawn, apart from how.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ropewalk/encodings.h"
#include "ropewalk/error.h"

namespace ropewalk {

struct PlotSeries {
  std::string name;
  std::vector<double> x, y;
};

// Lines over a common axis, or (rows > 0) a matrix, row 0 on top.
struct PlotPanel {
  std::string title, x_label, y_label;
  bool log_y = false;
  std::vector<PlotSeries> series;
  int64_t rows = 0, cols = 0;
  std::vector<double> cells;
};

struct Plot {
  std::string title;
  std::vector<PlotPanel> panels;
};

struct PlotOptions {
  EncodingContext context = {8, 64, 512, 2048, 0};
  int64_t distance = 512;  // how far curves reach, from 0
};

// Encodings as make_encoding reads them. For all: the score of equal random content against distance. Then by what acts: the
// table and its dot products (input), the bias of each head (score by distance), the bound of RoFormer 3.4.3 and the
// wavelengths against the trained length (rotation), positions used (pairs), scores of random content as a matrix (content,
// pairs). Panels of one kind are shared: several encodings draw over each other. Errors: make_encoding's; kInvalidArgument for
// a distance outside 2 to 65536.
Result<Plot> plot_encodings(std::span<const std::string> encodings, const PlotOptions& options);

std::string plot_csv(const Plot& plot);   // panel,series,x,y with a header; of a matrix: series = row, x = column
std::string plot_svg(const Plot& plot);   // panels below each other
std::string plot_html(const Plot& plot);  // the same in one page that needs nothing else, with series to be switched off and on
// `width` columns; series in colours where asked, else told apart by letters.
std::string plot_terminal(const Plot& plot, int width, bool colour);

}  // namespace ropewalk
