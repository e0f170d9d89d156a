# The three kinds of target. Each takes the one precompiled header of kvbook_common, which saves about seven
# seconds a file; GCC accepts it only where -O, -g, -D and the sanitizers are the same, so set those globally.

add_library(kvbook_warnings INTERFACE)
target_compile_options(kvbook_warnings INTERFACE -Wall -Wextra)

# kvbook_library(NAME sources... LINK libraries...)
function(kvbook_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE kvbook_warnings)
  if(NOT name STREQUAL "kvbook_common")
    target_precompile_headers(${name} REUSE_FROM kvbook_common)
  endif()
endfunction()

# kvbook_program(NAME sources... LINK libraries...) -> build/bin/NAME
function(kvbook_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} kvbook_warnings)
  target_precompile_headers(${name} REUSE_FROM kvbook_common)
endfunction()
