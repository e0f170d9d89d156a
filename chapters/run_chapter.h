// What a chapter's main() calls. Free of LibTorch's headers, so that the five main.cpp compile in a moment.
#pragma once

#include <string>

namespace kvbook {

/// Runs the program of the chapter of this name (see common/program.h) and returns its exit status: 0; 1 if tokens
/// that must agree differ; 2 for bad input.
int run_chapter(int argc, const char* const* argv, const std::string& name);

}  // namespace kvbook
