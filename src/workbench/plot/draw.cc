// The forms of a plot: CSV, SVG, a page, and characters.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "workbench/plot/plot.h"
#include "workbench/report.h"

namespace ropewalk {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double x) {
    if (!std::isfinite(x)) return;
    low = std::min(low, x);
    high = std::max(high, x);
  }
  bool empty() const { return low > high; }
  // A share of the way from low to high; the middle where there is no way.
  double share(double x) const { return high > low ? (x - low) / (high - low) : 0.5; }
};

double on_axis(const PlotPanel& panel, double y) { return panel.log_y ? std::log10(std::max(y, 1e-300)) : y; }

struct Axes {
  Range x, y;
};
Axes axes_of(const PlotPanel& panel) {
  Axes axes;
  for (const PlotSeries& series : panel.series) {
    for (const double x : series.x) axes.x.take(x);
    for (const double y : series.y) axes.y.take(on_axis(panel, y));
  }
  if (axes.x.empty()) axes.x = {0, 1};
  if (axes.y.empty()) axes.y = {0, 1};
  return axes;
}

std::string label(const PlotPanel& panel, double on_axis_value) {
  return fmt::format("{:.3g}", panel.log_y ? std::pow(10, on_axis_value) : on_axis_value);
}

Range cells_of(const PlotPanel& panel) {
  Range range;
  for (const double x : panel.cells) range.take(x);
  if (range.empty()) range = {0, 1};
  return range;
}

// Colours that colour-blind readers tell apart (Okabe and Ito 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"};

constexpr double kWidth = 760, kHeight = 260, kLeft = 64, kTop = 34, kBottom = 44, kRight = 16;

std::string svg_lines(const PlotPanel& panel, size_t at) {
  const Axes axes = axes_of(panel);
  const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom;
  std::string out =
      fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#888"/>)", kLeft, kTop, width, height);
  for (int tick = 0; tick <= 4; ++tick) {
    const double share = tick / 4.0;
    const double x = kLeft + share * width, y = kTop + (1 - share) * height;
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.4g}</text>)", x, kTop + height + 16,
                       axes.x.low + share * (axes.x.high - axes.x.low));
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 6, y + 4,
                       label(panel, axes.y.low + share * (axes.y.high - axes.y.low)));
    out += fmt::format(R"(<line x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}" stroke="#ddd"/>)", kLeft, kLeft + width, y);
  }
  for (size_t s = 0; s < panel.series.size(); ++s) {
    const PlotSeries& series = panel.series[s];
    const char* colour = kColours[s % std::size(kColours)];
    std::string path;
    for (size_t i = 0; i < series.x.size(); ++i) {
      path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", kLeft + axes.x.share(series.x[i]) * width,
                          kTop + (1 - axes.y.share(on_axis(panel, series.y[i]))) * height);
    }
    const std::string name = escape_html(series.name);
    out += fmt::format(R"(<g class="series p{}s{}"><path d="{}" fill="none" stroke="{}" stroke-width="1.6"/>)", at, s, path,
                       colour);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end" fill="{}">{}</text></g>)", kLeft + width - 6,
                       kTop + 16 + 15 * static_cast<double>(s), colour, name);
  }
  return out;
}

std::string svg_matrix(const PlotPanel& panel) {
  const Range range = cells_of(panel);
  const double cell = std::max(1.0, std::min(480.0 / static_cast<double>(panel.cols), 480.0 / static_cast<double>(panel.rows)));
  std::string out;
  for (int64_t r = 0; r < panel.rows; ++r) {
    for (int64_t c = 0; c < panel.cols; ++c) {
      const double value = panel.cells[static_cast<size_t>(r * panel.cols + c)];
      if (!std::isfinite(value)) continue;
      const int grey = static_cast<int>(std::lround(240 - 225 * range.share(value)));
      out += fmt::format(R"svg(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="rgb({},{},{})"/>)svg",
                         kLeft + static_cast<double>(c) * cell, kTop + static_cast<double>(r) * cell, cell, cell, grey, grey,
                         std::min(255, grey + 15));
    }
  }
  out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}">light {:.3g}, dark {:.3g}</text>)",
                     kLeft + static_cast<double>(panel.cols) * cell + 10, kTop + 12, range.low, range.high);
  return out;
}

double height_of(const PlotPanel& panel) {
  if (panel.rows == 0) return kHeight;
  const double cell = std::max(1.0, std::min(480.0 / static_cast<double>(panel.cols), 480.0 / static_cast<double>(panel.rows)));
  return kTop + kBottom + static_cast<double>(panel.rows) * cell;
}

std::string svg_panel(const PlotPanel& panel, size_t at) {
  const double height = height_of(panel);
  std::string out = fmt::format(R"(<text x="{}" y="20" font-weight="bold">{}</text>)", kLeft, escape_html(panel.title));
  out += panel.rows > 0 ? svg_matrix(panel) : svg_lines(panel, at);
  out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", kLeft + (kWidth - kLeft - kRight) / 2,
                     height - 8, escape_html(panel.x_label));
  out += fmt::format(R"svg(<text transform="translate(12 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg", height / 2,
                     escape_html(panel.y_label));
  return out;
}

// ---- characters

// Dots of two columns and four rows a character (Unicode's braille patterns).
class Canvas {
 public:
  Canvas(int columns, int rows) : columns_(columns), rows_(rows), cells_(static_cast<size_t>(columns * rows)) {}
  int dots_across() const { return 2 * columns_; }
  int dots_down() const { return 4 * rows_; }
  void dot(int x, int y, size_t series) {
    if (x < 0 || y < 0 || x >= dots_across() || y >= dots_down()) return;
    static constexpr unsigned kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    Cell& cell = cells_[at(x / 2, y / 4)];
    cell.dots |= kBits[y % 4][x % 2];
    cell.series = series;
  }
  void line(double x0, double y0, double x1, double y1, size_t series) {
    const int steps = 1 + static_cast<int>(std::max(std::abs(x1 - x0), std::abs(y1 - y0)));
    for (int i = 0; i <= steps; ++i) {
      const double share = static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + share * (x1 - x0))), static_cast<int>(std::lround(y0 + share * (y1 - y0))), series);
    }
  }
  std::string row(int r, bool colour) const {
    std::string out;
    for (int c = 0; c < columns_; ++c) {
      const Cell& cell = cells_[at(c, r)];
      if (cell.dots == 0) {
        out += ' ';
        continue;
      }
      // U+2800 + dots, as UTF-8.
      const std::string glyph = {static_cast<char>(0xE2), static_cast<char>(0xA0 | cell.dots >> 6),
                                 static_cast<char>(0x80 | (cell.dots & 0x3F))};
      if (colour) {
        out += fmt::format("\x1b[{}m{}\x1b[0m", 31 + cell.series % 6, glyph);
      } else {
        out += glyph;
      }
    }
    return out;
  }

 private:
  struct Cell {
    unsigned dots = 0;
    size_t series = 0;
  };
  size_t at(int column, int row) const {
    return static_cast<size_t>(row) * static_cast<size_t>(columns_) + static_cast<size_t>(column);
  }
  int columns_, rows_;
  std::vector<Cell> cells_;
};

std::string terminal_lines(const PlotPanel& panel, int width, bool colour) {
  constexpr int kRows = 12, kMargin = 10;
  const Axes axes = axes_of(panel);
  Canvas canvas(std::max(10, width - kMargin - 2), kRows);
  for (size_t s = 0; s < panel.series.size(); ++s) {
    const PlotSeries& series = panel.series[s];
    double x0 = 0, y0 = 0;
    for (size_t i = 0; i < series.x.size(); ++i) {
      const double x = axes.x.share(series.x[i]) * (canvas.dots_across() - 1);
      const double y = (1 - axes.y.share(on_axis(panel, series.y[i]))) * (canvas.dots_down() - 1);
      if (i > 0) canvas.line(x0, y0, x, y, s);
      if (i == 0) canvas.dot(static_cast<int>(std::lround(x)), static_cast<int>(std::lround(y)), s);
      x0 = x;
      y0 = y;
    }
  }
  std::string out;
  for (int r = 0; r < kRows; ++r) {
    const bool labelled = r == 0 || r == kRows - 1 || r == kRows / 2;
    const double value = axes.y.high - (axes.y.high - axes.y.low) * r / (kRows - 1);
    out += fmt::format("{:>{}} |{}\n", labelled ? label(panel, value) : "", kMargin - 1, canvas.row(r, colour));
  }
  const std::string left = fmt::format("{:.4g}", axes.x.low), right = fmt::format("{:.4g}", axes.x.high);
  const int gap = std::max(1, canvas.dots_across() / 2 - static_cast<int>(left.size() + right.size()));
  out += fmt::format("{:>{}}{}{:>{}}{}  {}\n", "", kMargin + 1, left, "", gap, right, panel.x_label);
  for (size_t s = 0; s < panel.series.size(); ++s) {
    const PlotSeries& series = panel.series[s];
    const std::string ends =
        series.y.empty() ? "nothing seen" : fmt::format("{:.4g} ... {:.4g}", series.y.front(), series.y.back());
    const std::string mark = colour ? fmt::format("\x1b[{}m--\x1b[0m", 31 + s % 6) : "--";
    out += fmt::format("{:>{}}{} {}: {}\n", "", kMargin + 1, mark, series.name, ends);
  }
  return out;
}

std::string terminal_matrix(const PlotPanel& panel, int width) {
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  const Range range = cells_of(panel);
  const int64_t columns = std::min<int64_t>(panel.cols, std::max(10, width - 12)), rows = std::min<int64_t>(panel.rows, 24);
  std::string out;
  for (int64_t r = 0; r < rows; ++r) {
    out += fmt::format("{:>9} |", r == 0 ? "0" : r == rows - 1 ? std::to_string(panel.rows - 1) : "");
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      int count = 0;
      for (int64_t i = r * panel.rows / rows; i < (r + 1) * panel.rows / rows; ++i) {
        for (int64_t j = c * panel.cols / columns; j < (c + 1) * panel.cols / columns; ++j) {
          const double value = panel.cells[static_cast<size_t>(i * panel.cols + j)];
          if (!std::isfinite(value)) continue;
          sum += value;
          ++count;
        }
      }
      const auto shade = count == 0 ? size_t{0} : static_cast<size_t>(std::min(4.0, 5 * range.share(sum / count)));
      out += count == 0 ? " " : kShades[shade];
    }
    out += '\n';
  }
  return out + fmt::format("{:>11}{} down, {} across; light {:.3g}, dark {:.3g}\n", "", panel.y_label, panel.x_label, range.low,
                           range.high);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string plot_csv(const Plot& plot) {
  std::string out = "panel,series,x,y\n";
  for (const PlotPanel& panel : plot.panels) {
    for (const PlotSeries& series : panel.series) {
      for (size_t i = 0; i < series.x.size(); ++i)
        out += fmt::format("{},{},{},{}\n", quoted(panel.title), quoted(series.name), series.x[i], series.y[i]);
    }
    for (int64_t r = 0; r < panel.rows; ++r) {
      for (int64_t c = 0; c < panel.cols; ++c) {
        const double value = panel.cells[static_cast<size_t>(r * panel.cols + c)];
        if (std::isfinite(value)) out += fmt::format("{},{},{},{}\n", quoted(panel.title), r, c, value);
      }
    }
  }
  return out;
}

std::string plot_svg(const Plot& plot) {
  double height = 0;
  std::string body;
  for (size_t at = 0; at < plot.panels.size(); ++at) {
    body += fmt::format("<g transform=\"translate(0 {:.1f})\">{}</g>\n", height, svg_panel(plot.panels[at], at));
    height += height_of(plot.panels[at]);
  }
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1:.0f}" width="{0}" height="{1:.0f}" font-family="sans-serif" font-size="12"><title>{2}</title>
<rect width="100%" height="100%" fill="#fff"/>
{3}</svg>
)",
      kWidth, height, escape_html(plot.title), body);
}

std::string plot_html(const Plot& plot) {
  std::string controls;
  for (size_t at = 0; at < plot.panels.size(); ++at) {
    for (size_t s = 0; s < plot.panels[at].series.size() && plot.panels[at].series.size() > 1; ++s) {
      controls += fmt::format("<label><input type=\"checkbox\" checked data-series=\"p{}s{}\"> {}: {}</label>\n", at, s,
                              escape_html(plot.panels[at].title), escape_html(plot.panels[at].series[s].name));
    }
  }
  return fmt::format(R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{0}</title>
<style>body{{font:14px sans-serif;margin:1.5rem auto;max-width:800px}}label{{display:block;margin:.2rem 0}}svg{{max-width:100%;height:auto}}</style></head>
<body><h1>{0}</h1>
{1}{2}<script>
for (const box of document.querySelectorAll("input[data-series]"))
  box.addEventListener("change", () => {{
    for (const part of document.querySelectorAll("." + box.dataset.series)) part.style.display = box.checked ? "" : "none";
  }});
</script></body></html>
)page",
                     escape_html(plot.title), plot_svg(plot), controls);
}

std::string plot_terminal(const Plot& plot, int width, bool colour) {
  std::string out;
  for (const PlotPanel& panel : plot.panels) {
    out += panel.title + '\n';
    out += panel.rows > 0 ? terminal_matrix(panel, width) : terminal_lines(panel, width, colour);
    out += '\n';
  }
  return out;
}

}  // namespace ropewalk
