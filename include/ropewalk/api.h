// Marks what the shared library exports. Everything else has hidden visibility.
#pragma once

#if defined(_WIN32)
#define ROPEWALK_API
#else
#define ROPEWALK_API __attribute__((visibility("default")))
#endif
