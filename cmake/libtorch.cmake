# LibTorch: what the user names (CMAKE_PREFIX_PATH or Torch_DIR), else the wheel that tools/setup.sh put into .deps.
set(CMAKE_MESSAGE_LOG_LEVEL ERROR)  # the wheel's own files warn of a profiling library that it does not carry
find_package(Torch QUIET HINTS ${CMAKE_SOURCE_DIR}/.deps/libtorch/torch)
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "LibTorch was not found. Run tools/setup.sh, or name yours: cmake -DCMAKE_PREFIX_PATH=/path/to/libtorch")
endif()
message(STATUS "LibTorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}")

# Everything is built with Torch's flags: they choose the C++ ABI of std::string.
set(CMAKE_CXX_FLAGS "${CMAKE_CXX_FLAGS} ${TORCH_CXX_FLAGS}")

# LibTorch's wheel was compiled with NDEBUG, and at::RecordFunction has another layout without it. Release sets it anyway.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_definitions(NDEBUG)
endif()
