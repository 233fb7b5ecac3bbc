// The version of the library, read by the build as well: CMakeLists.txt takes the three numbers from here.
#pragma once

#define ROPEWALK_VERSION_MAJOR 0
#define ROPEWALK_VERSION_MINOR 1
#define ROPEWALK_VERSION_PATCH 0
#define ROPEWALK_VERSION "0.1.0"
