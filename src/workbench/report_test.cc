#include "workbench/report.h"

#include <gtest/gtest.h>

#include <cmath>

#include "workbench/report_assets.h"
#include "workbench/results.h"
#include "workbench/synthetic.h"

namespace ropewalk {
namespace {

ReportInput hostile_input() {
  ReportInput input;
  const std::string bad = "</script><script>alert(1)</script><!-- {{js}} \" ' & \xE2\x80\xA8 \xFF";
  input.title = input.kicker = input.headline = input.lead = input.exported = input.reproduce = bad;
  input.results = {{"settings", {{{"setting", bad}, {"length", 10}}}}, {"paired", nlohmann::json::array()}};
  input.facts = {{"model", bad}};
  return input;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Report, NothingFromOutsideBecomesMarkup) {
  const std::string page = report_html(hostile_input());
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  // Three scripts, opened and closed by the page itself, and none more.
  EXPECT_EQ(count(page, "</script>"), 3u);
  EXPECT_EQ(count(page, "<script"), 3u);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;script&gt;alert(1)"), std::string::npos);
}

TEST(Report, DataSurvivesTheEscapes) {
  const nlohmann::json value = {{"a", "<b> & </script> \"quoted\" \\ \n"}, {"n", {1, 2.5, nullptr, true}}};
  const std::string text = json_for_script(value);
  for (const char c : {'<', '>', '&'}) EXPECT_EQ(text.find(c), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text), value);
  EXPECT_TRUE(nlohmann::json::accept(json_for_script("\xFF\xFE broken")));  // invalid UTF-8 is replaced, not thrown at
}

TEST(Report, FilledInTextIsNotATemplate) {
  ReportInput input = hostile_input();
  input.headline = "{{css}}{{data}}";
  const std::string page = report_html(input);
  EXPECT_NE(page.find("<h1>{{css}}{{data}}</h1>"), std::string::npos);
}

TEST(Report, IsSelfContained) {
  const std::string page = report_html(hostile_input());
  EXPECT_GT(web::report_d3.size(), 100000u);
  EXPECT_NE(page.find("Mike Bostock"), std::string::npos);
  EXPECT_NE(page.find("Redistribution and use in source and binary forms"), std::string::npos);
  // Nothing is fetched: no source, link or import, and a policy that forbids it.
  for (const char* part : {" src=", "<link", "@import", "url(http", "fetch(", "XMLHttpRequest(\"h"}) {
    EXPECT_EQ(std::string(web::report_html).find(part), std::string::npos) << part;
    EXPECT_EQ(std::string(web::report_css).find(part), std::string::npos) << part;
    EXPECT_EQ(std::string(web::report_js).find(part), std::string::npos) << part;
  }
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("{{"), page.find("{{js}}"));  // only what the hostile input brought
}

TEST(Report, HeadlineSaysWhatWasMeasured) {
  nlohmann::json results = {{"target", 16384},
                            {"candidates", {{{"setting", "none"}}}},
                            {"recommendation", {{"setting", "ntk:2"}, {"usable_to", 16384}}}};
  EXPECT_EQ(headline(results, 8192), "With ntk:2, this model reads 16,384 tokens instead of 8,192");
  auto shorter = results;  // clearly worse than a fresh window from there on
  shorter["recommendation"]["usable_to"] = 12288;
  EXPECT_EQ(headline(shorter, 8192),
            "With ntk:2, this model reads 12,288 tokens; past that, its last 8,192 alone serve it better");
  results["recommendation"]["usable_to"] = 12288;
  EXPECT_NE(headline(results, 8192).find("12,288"), std::string::npos);
  results["recommendation"]["usable_to"] = 8192;
  EXPECT_NE(headline(results, 8192).find("does not"), std::string::npos);
  results["recommendation"]["setting"] = "none";
  EXPECT_EQ(headline(results, 8192), "Leave this model as it is");
  results["recommendation"] = nullptr;
  EXPECT_NE(headline(results, 8192).find("cut short"), std::string::npos);
}

}  // namespace
}  // namespace ropewalk
