# Micro-benchmarks (Google Benchmark): every *_bench.cc. `ropewalk bench` is the one that checks answers and knows the limits.
file(GLOB_RECURSE bench_sources CONFIGURE_DEPENDS src/*_bench.cc bench/*_bench.cc)
if(bench_sources)
  find_package(benchmark REQUIRED)
  add_executable(ropewalk_bench ${bench_sources})
  target_link_libraries(ropewalk_bench PRIVATE ropewalk_static ropewalk_warnings benchmark::benchmark benchmark::benchmark_main)
endif()
