// The parts of the report page, embedded at build time from web/ and node-d3 (cmake/web.cmake).
#pragma once

#include <string_view>

namespace ropewalk::web {

extern const std::string_view report_html, report_css, report_js, report_d3_license, report_d3;

}  // namespace ropewalk::web
