# The checks that are no C++ tests: rules of the source, scripts, the installed package. All are fast.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(tools ${CMAKE_SOURCE_DIR}/tools)

function(ropewalk_check name)
  add_test(NAME check.${name} COMMAND ${Python3_EXECUTABLE} -B ${ARGN})
  set_tests_properties(check.${name} PROPERTIES TIMEOUT 120)
endfunction()

ropewalk_check(layers ${tools}/check_layers.py ${CMAKE_SOURCE_DIR})
ropewalk_check(sizes ${tools}/check_sizes.py ${CMAKE_SOURCE_DIR})
foreach(rule simd quiet places golden errors)
  ropewalk_check(${rule} ${tools}/check_rules.py ${rule} ${CMAKE_SOURCE_DIR})
endforeach()
ropewalk_check(snippets ${tools}/check_snippets.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:ropewalk_program>)
ropewalk_check(checks ${tools}/checks_test.py)
ropewalk_check(fetch_models ${tools}/fetch_models_test.py)

# Every public header compiles alone, and twice, with nothing but the standard library in reach.
file(GLOB public_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/include include/ropewalk/*.h)
set(header_sources)
foreach(header ${public_headers})
  string(MAKE_C_IDENTIFIER ${header} name)
  set(source ${CMAKE_BINARY_DIR}/public_headers/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n#include \"${header}\"  // twice\n")
  list(APPEND header_sources ${source})
endforeach()
add_library(public_headers OBJECT ${header_sources})
target_include_directories(public_headers PRIVATE include)
target_link_libraries(public_headers PRIVATE ropewalk_warnings)

# A small program against the installed tree, by find_package and by pkg-config. A sanitizer would have to be in both.
if(NOT ROPEWALK_SANITIZE)
  add_test(NAME check.consumer COMMAND ${CMAKE_SOURCE_DIR}/tests/consumer/run.sh ${CMAKE_BINARY_DIR} ${CMAKE_CXX_COMPILER})
  set_tests_properties(check.consumer PROPERTIES TIMEOUT 300)
endif()
