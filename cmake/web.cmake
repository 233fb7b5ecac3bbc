# The report page, embedded: web/report.{html,css,js} and Debian's D3 become one generated source file.
find_file(ROPEWALK_D3 d3.min.js PATHS /usr/share/nodejs/d3/dist /usr/share/javascript/d3)
if(NOT ROPEWALK_D3)
  message(FATAL_ERROR "d3.min.js was not found: install the package node-d3, or give its path with -DROPEWALK_D3=")
endif()
set(report_assets ${CMAKE_BINARY_DIR}/web/report_assets.cc)
set(report_parts
  report_html=${CMAKE_SOURCE_DIR}/web/report.html report_css=${CMAKE_SOURCE_DIR}/web/report.css report_js=${CMAKE_SOURCE_DIR}/web/report.js
  report_d3_license=${CMAKE_SOURCE_DIR}/web/d3_license.txt report_d3=${ROPEWALK_D3})
set(report_files ${report_parts})
list(TRANSFORM report_files REPLACE "^[^=]*=" "")
string(REPLACE ";" "|" report_parts_argument "${report_parts}")
add_custom_command(OUTPUT ${report_assets}
  COMMAND ${CMAKE_COMMAND} -D "OUTPUT=${report_assets}" -D "PARTS=${report_parts_argument}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${report_files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(ropewalk_objects PRIVATE ${report_assets})
