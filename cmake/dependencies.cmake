# The other libraries: the system's where it has one new enough, else fetched, pinned by version and SHA256.
# They are built without our warnings. To take the second path on any machine: cmake --preset default -DKVBOOK_FETCH=ON
include(FetchContent)
option(KVBOOK_FETCH "Fetch the libraries even where the system has them" OFF)
if(POLICY CMP0135)
  cmake_policy(SET CMP0135 NEW)  # unpacked files are as old as their unpacking
endif()

function(kvbook_say_fetching name version package)
  message(STATUS "${name}: none on this system, fetching ${version} (Debian and Ubuntu have it as ${package})")
endfunction()

# Fetches a library of headers alone and makes an INTERFACE target of its include folder. Its own CMake files are
# not run: SOURCE_SUBDIR names a folder that it does not have.
function(kvbook_fetch_headers target include_folder url sha256)
  FetchContent_Declare(${target} URL ${url} URL_HASH SHA256=${sha256} SOURCE_SUBDIR no-cmake)
  FetchContent_MakeAvailable(${target})
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_SOURCE_DIR}/${include_folder})
endfunction()

# GoogleTest: the tests.
if(NOT KVBOOK_FETCH)
  find_package(GTest 1.10 CONFIG QUIET)
endif()
if(NOT TARGET GTest::gtest)
  kvbook_say_fetching(GoogleTest 1.17.0 libgtest-dev)
  set(BUILD_GMOCK OFF)
  set(INSTALL_GTEST OFF)
  FetchContent_Declare(googletest
    URL https://github.com/google/googletest/archive/refs/tags/v1.17.0.tar.gz
    URL_HASH SHA256=65fab701d9829d38cb77c14acdc431d2108bfdbf8979e40eb8ae567edf10b27c)
  FetchContent_MakeAvailable(googletest)
endif()
add_library(kvbook_gtest INTERFACE)
target_link_libraries(kvbook_gtest INTERFACE GTest::gtest)

# CLI11: command lines.
if(NOT KVBOOK_FETCH)
  find_package(CLI11 2.1 CONFIG QUIET)
endif()
if(NOT TARGET CLI11::CLI11)
  kvbook_say_fetching(CLI11 2.5.0 libcli11-dev)
  kvbook_fetch_headers(cli11 include https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.5.0.tar.gz
                       17e02b4cddc2fa348e5dbdbb582c59a3486fa2b2433e70a0c3bacb871334fd55)
  add_library(CLI11::CLI11 ALIAS cli11)
endif()

# nlohmann-json: configurations, safetensors headers, results.
if(NOT KVBOOK_FETCH)
  find_package(nlohmann_json 3.10 CONFIG QUIET)
endif()
if(NOT TARGET nlohmann_json::nlohmann_json)
  kvbook_say_fetching(nlohmann-json 3.12.0 nlohmann-json3-dev)
  kvbook_fetch_headers(json include https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
                       42f6e95cad6ec532fd372391373363b62a14af6d771056dbfc86160e6dfff7aa)
  add_library(nlohmann_json::nlohmann_json ALIAS json)
endif()

# PCRE2: the tokenizer's split pattern, with Unicode properties. Older than 10.39 has faults there.
add_library(kvbook_pcre2 INTERFACE)
target_compile_definitions(kvbook_pcre2 INTERFACE PCRE2_CODE_UNIT_WIDTH=8)
set(pcre2_version 0)
if(NOT KVBOOK_FETCH)
  find_path(PCRE2_INCLUDE pcre2.h)
  find_library(PCRE2_LIBRARY pcre2-8)
  if(PCRE2_INCLUDE AND PCRE2_LIBRARY)
    file(STRINGS ${PCRE2_INCLUDE}/pcre2.h pcre2_lines REGEX "#define PCRE2_M(AJOR|INOR) ")
    if(pcre2_lines MATCHES "MAJOR +([0-9]+).*MINOR +([0-9]+)")
      set(pcre2_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
    endif()
  endif()
endif()
if(pcre2_version VERSION_GREATER_EQUAL 10.39)
  target_include_directories(kvbook_pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE})
  target_link_libraries(kvbook_pcre2 INTERFACE ${PCRE2_LIBRARY})
else()
  kvbook_say_fetching(PCRE2 10.46 libpcre2-dev)
  set(PCRE2_BUILD_PCRE2GREP OFF)
  set(PCRE2_BUILD_TESTS OFF)
  FetchContent_Declare(pcre2
    URL https://github.com/PCRE2Project/pcre2/releases/download/pcre2-10.46/pcre2-10.46.tar.gz
    URL_HASH SHA256=8d28d7f2c3b970c3a4bf3776bcbb5adfc923183ce74bc8df1ebaad8c1985bd07)
  FetchContent_MakeAvailable(pcre2)
  target_link_libraries(kvbook_pcre2 INTERFACE pcre2-8-static)
endif()

# fmt, as headers only: the ones on Torch's include path, since two versions in one program would clash.
add_library(kvbook_fmt INTERFACE)
target_compile_definitions(kvbook_fmt INTERFACE FMT_HEADER_ONLY=1)
find_path(torch_fmt NAMES fmt/base.h fmt/core.h PATHS ${TORCH_INCLUDE_DIRS} NO_DEFAULT_PATH NO_CACHE)
if(NOT torch_fmt)
  kvbook_say_fetching(fmt 12.1.0 "libfmt-dev, whose version may clash with Torch's")
  kvbook_fetch_headers(fmt include https://github.com/fmtlib/fmt/archive/refs/tags/12.1.0.tar.gz
                       ea7de4299689e12b6dddd392f9896f08fb0777ac7168897a244a6d6085043fea)
  target_link_libraries(kvbook_fmt INTERFACE fmt)
endif()
