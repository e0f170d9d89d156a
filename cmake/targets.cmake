# The three kinds of target. Libraries and programs take the precompiled header of kvbook_common, which saves about seven
# seconds a file; GCC accepts it only where -O, -g, -D and the sanitizers are the same, so set those globally. Tests take
# that of kvbook_testing: it holds GoogleTest and JSON too, and is made without optimisation, since what the tests run is
# optimised already.
set(KVBOOK_OWN_HEADERS kvbook_common kvbook_testing)

add_library(kvbook_warnings INTERFACE)
target_compile_options(kvbook_warnings INTERFACE -Wall -Wextra)

# kvbook_library(NAME sources... LINK libraries...)
function(kvbook_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} PRIVATE kvbook_warnings)
  if(NOT name IN_LIST KVBOOK_OWN_HEADERS)
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

# kvbook_test(NAME source) -> build/tests/NAME, and a ctest entry
function(kvbook_test name source)
  add_executable(${name} ${source})
  target_compile_options(${name} PRIVATE -O0)
  target_link_libraries(${name} PRIVATE kvbook_testing kvbook_warnings)
  target_precompile_headers(${name} REUSE_FROM kvbook_testing)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
endfunction()
