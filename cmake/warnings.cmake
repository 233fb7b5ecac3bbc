# Warnings for our own targets only; never handed on to a consumer.
add_library(ropewalk_warnings INTERFACE)
target_compile_options(ropewalk_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
  -Wcast-align -Wdouble-promotion -Wformat=2)
if(ROPEWALK_WERROR)
  target_compile_options(ropewalk_warnings INTERFACE -Werror)
endif()
if(ROPEWALK_SANITIZE)
  add_compile_options(-fsanitize=${ROPEWALK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ROPEWALK_SANITIZE})
endif()
