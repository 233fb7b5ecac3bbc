# libFuzzer targets: every fuzz/*_fuzz.cc. Needs clang; the fuzz preset sets it up.
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/*_fuzz.cc)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ropewalk_static ropewalk_warnings)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
