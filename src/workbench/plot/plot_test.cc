#include "workbench/plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ropewalk {
namespace {

using ::testing::HasSubstr;

PlotOptions small() {
  PlotOptions options;
  options.context = {4, 16, 64, 256, 3};
  options.distance = 40;
  return options;
}

Plot plot_of(const std::vector<std::string>& names, const PlotOptions& options = small()) {
  auto plot = plot_encodings(names, options);
  EXPECT_TRUE(plot) << (plot ? "" : plot.error().message());
  return *std::move(plot);
}

const PlotPanel& panel_of(const Plot& plot, const std::string& title) {
  const auto found =
      std::find_if(plot.panels.begin(), plot.panels.end(), [&](const PlotPanel& p) { return p.title.starts_with(title); });
  EXPECT_NE(found, plot.panels.end()) << title;
  return *found;
}

// RoFormer 3.4.3 for heads of 128, and the wavelengths 2 pi theta^(2i/R).
TEST(Plot, ValuesAreThoseOfTheDefinitions) {
  PlotOptions options = small();
  options.context.head_dim = 128;
  options.distance = 100;
  const Plot plot = plot_of({"rope"}, options);
  const PlotSeries& bound = panel_of(plot, "long-range").series[0];
  const std::pair<size_t, double> want[] = {{0, 32.50}, {1, 31.54}, {5, 20.85}, {50, 12.63}, {100, 10.23}};
  for (const auto& [d, value] : want) EXPECT_NEAR(bound.y[d], value, 0.005) << d;
  const PlotPanel& waves = panel_of(plot, "wavelength");
  EXPECT_TRUE(waves.log_y);
  EXPECT_NEAR(waves.series[1].y[0], 6.283185307, 1e-9);
  EXPECT_EQ(waves.series[0].y[0], 256);
  const Plot biases = plot_of({"alibi"});
  EXPECT_NEAR(panel_of(biases, "bias").series[0].y[8], -8.0 / 4, 1e-12);  // head 0 of 4: slope 1/4
  const Plot positions = plot_of({"rerope:window=8"});
  EXPECT_EQ(panel_of(positions, "distance that").series[0].y[30], 8);
  const Plot none = plot_of({"none"});
  const PlotSeries& flat = panel_of(none, "score").series[0];
  EXPECT_EQ(flat.y.front(), flat.y.back());
}

TEST(Plot, EncodingsShareTheirPanels) {
  const Plot plot = plot_of({"t5", "kerple_log", "rope"});
  EXPECT_EQ(panel_of(plot, "score of equal content").series.size(), 3U);
  EXPECT_EQ(panel_of(plot, "bias").series.size(), 8U);
}

TEST(Plot, EveryEncodingInEveryForm) {
  for (const EncodingInfo& info : encodings()) {
    const Plot plot = plot_of({info.name});
    ASSERT_FALSE(plot.panels.empty()) << info.name;
    for (const PlotPanel& panel : plot.panels) {
      EXPECT_EQ(panel.cells.size(), static_cast<size_t>(panel.rows * panel.cols));
      for (const PlotSeries& series : panel.series) {
        ASSERT_EQ(series.x.size(), series.y.size());
        for (const double y : series.y) EXPECT_TRUE(std::isfinite(y)) << info.name << ' ' << panel.title;
      }
    }
    EXPECT_THAT(plot_csv(plot), HasSubstr("panel,series,x,y"));
    const std::string svg = plot_svg(plot), page = plot_html(plot);
    EXPECT_TRUE(svg.starts_with("<svg") && svg.ends_with("</svg>\n")) << info.name;
    EXPECT_EQ(svg.find("nan"), std::string::npos) << info.name;
    EXPECT_THAT(page, testing::AllOf(HasSubstr(svg), HasSubstr("</html>")));
    for (const int width : {20, 80, 200}) EXPECT_FALSE(plot_terminal(plot, width, width == 80).empty());
  }
}

TEST(Plot, NamesAreNoMarkup) {
  const Plot plot = plot_of({"expr:d < 4 ? 0 : -1"});
  EXPECT_EQ(plot_svg(plot).find("d < 4"), std::string::npos);
  EXPECT_THAT(plot_svg(plot), HasSubstr("d &lt; 4"));
}

TEST(Plot, WhatIsWrongIsNamed) {
  PlotOptions far = small();
  far.distance = 1;
  const std::vector<std::string> names = {"alibi"}, unknown = {"alibbi"}, short_table = {"learned:rows=8"};
  EXPECT_THAT(plot_encodings(names, far).error().message(), HasSubstr("2 to 65536"));
  EXPECT_THAT(plot_encodings(unknown, small()).error().message(), HasSubstr("alibbi"));
  EXPECT_THAT(plot_encodings(short_table, small()).error().message(), HasSubstr("8 rows"));
}

}  // namespace
}  // namespace ropewalk
