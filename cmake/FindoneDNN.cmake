# oneDNN by header and library, as the target oneDNN::oneDNN. Its own package file demands the development files of OpenCL, which
# Debian only recommends beside libdnnl-dev and which nothing here uses: with it, a machine without them could not be configured.
find_path(oneDNN_INCLUDE_DIR dnnl.hpp)
find_library(oneDNN_LIBRARY dnnl)
if(oneDNN_INCLUDE_DIR AND EXISTS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h")
  file(STRINGS "${oneDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" oneDNN_version_lines REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  list(TRANSFORM oneDNN_version_lines REPLACE "[^0-9]" "")
  list(JOIN oneDNN_version_lines "." oneDNN_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(oneDNN REQUIRED_VARS oneDNN_LIBRARY oneDNN_INCLUDE_DIR VERSION_VAR oneDNN_VERSION)
if(oneDNN_FOUND AND NOT TARGET oneDNN::oneDNN)
  add_library(oneDNN::oneDNN UNKNOWN IMPORTED)
  set_target_properties(oneDNN::oneDNN PROPERTIES
    IMPORTED_LOCATION "${oneDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${oneDNN_INCLUDE_DIR}")
endif()
