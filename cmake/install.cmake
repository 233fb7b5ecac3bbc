# The installed tree: the program, the shared library, the public headers, and what finds them (find_package, pkg-config).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS ropewalk EXPORT ropewalk-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/ropewalk DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(TARGETS ropewalk_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ropewalk)
install(EXPORT ropewalk-targets NAMESPACE ropewalk:: FILE ropewalk-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/ropewalk-config.cmake.in ${CMAKE_BINARY_DIR}/ropewalk-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break, so only the same one is compatible.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ropewalk-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ropewalk-config.cmake ${CMAKE_BINARY_DIR}/ropewalk-config-version.cmake
  DESTINATION ${package_folder})

# The prefix of the .pc file is found from its own place, so that an installed tree can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_to_prefix "${pc_to_prefix}")
configure_file(cmake/ropewalk.pc.in ${CMAKE_BINARY_DIR}/ropewalk.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ropewalk.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
