#!/usr/bin/env bash
# Brings in what the build needs. A second run finds everything in place and costs a moment.
#
#   tools/setup.sh             build tools and libraries, LibTorch, cog
#   tools/setup.sh format      the pinned clang-format, for `make format`
#   tools/setup.sh pictures    Python packages for `make pictures`; so, too: site, site_test
#
# LibTorch is taken from what you name, Torch_DIR or CMAKE_PREFIX_PATH in the environment; else the CPU wheel is
# fetched. No Python package of the wheel is ever imported: it simply contains LibTorch's headers and libraries.
# All goes into .deps (delete it to start afresh); system packages come from apt-get where that works without
# questions, or with sudo's. Elsewhere this script prints the line to type. PYTHON=... names another python3.
set -eu
cd "$(dirname "$0")/.."

libtorch=2.13.0
cog=cogapp==3.6.0
clang_format=clang-format==14.0.6
deps=$PWD/.deps
log=$deps/setup.log

say() { printf 'setup: %s\n' "$*"; }
# fail LINE...: what is wrong, then what to do or to type, each on a line of its own.
fail() { printf 'setup: %s\n' "$1" >&2; shift; if [ $# -gt 0 ]; then printf '%s\n' "$@" >&2; fi; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Python ---------------------------------------------------------------------------------------------------------
# The first python3 that has pip: a python3 of the user's own may hide the system's and have none.
find_python() {
  python=
  local candidate
  for candidate in ${PYTHON:-python3 /usr/bin/python3}; do
    if "$candidate" -m pip --version >/dev/null 2>&1; then python=$candidate; return 0; fi
  done
  return 1
}

# pip_install FOLDER PACKAGE [OPTION...]: into FOLDER.partial first, so that FOLDER is whole whenever it exists.
# The environment undoes what a user's pip configuration, or a distribution's, would make of --target.
pip_install() {
  local folder=$1 package=$2 status=0
  shift 2
  rm -rf "$folder.partial"
  mkdir -p "$folder.partial/tmp"
  env PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_BREAK_SYSTEM_PACKAGES=1 TMPDIR="$folder.partial/tmp" \
    "$python" -m pip install --no-deps --no-input --disable-pip-version-check --timeout 15 --retries 1 \
    --target "$folder.partial" "$@" "$package" >>"$log" 2>&1 || status=$?
  rm -rf "$folder.partial/tmp"
  if [ $status -ne 0 ]; then rm -rf "$folder.partial"; return 1; fi
  printf '%s\n' "$package" >"$folder.partial/.installed"
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

installed() { [ "$(cat "$1/.installed" 2>/dev/null)" = "$2" ]; }

# pip_failed WHAT REMEDY: stops, with the last error that pip wrote.
pip_failed() {
  local reason
  reason=$(grep -E '^ERROR|No space left' "$log" | tail -n 1 | cut -c 1-200 || true)
  if grep -q 'WARNING: Retrying' "$log"; then reason="the network failed on the way (${reason#ERROR: })"; fi
  fail "$1 could not be installed: ${reason:-pip failed}" "$2 The whole output is in .deps/setup.log."
}

need_python() {
  find_python || fail "python3 has no pip: install it (Debian, Ubuntu: apt-get install python3-pip) and run this again"
}

# System packages --------------------------------------------------------------------------------------------------
# as_root COMMAND...: as root, or through sudo where it can answer.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}
can_be_root() {
  [ "$(id -u)" = 0 ] || { have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

version_at_least() {  # version_at_least 3.25.1 3.22
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t . -k 1,1n -k 2,2n | head -n 1)" = "$2" ]
}

# Without these nothing can be built. Prints the commands that are missing.
missing_tools() {
  have cmake || echo cmake
  have ninja || echo ninja
  have c++ || have g++ || have clang++ || echo c++
  if ! installed "$deps/python" "$cog" || [ -z "${Torch_DIR:-}${CMAKE_PREFIX_PATH:-}" -a ! -e "$deps/libtorch" ]; then
    find_python || echo pip
  fi
}

debian_package() {  # the package of a missing command
  case $1 in c++) echo g++ ;; ninja) echo ninja-build ;; pip) echo python3-pip ;; *) echo "$1" ;; esac
}

# CMake fetches the first four where they are missing; ccache only saves time.
libraries="libgtest-dev libcli11-dev nlohmann-json3-dev libpcre2-dev ccache"

missing_libraries() {
  local known package
  known=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $libraries 2>/dev/null || true)
  for package in $libraries; do
    case "$known" in *"$package installed"*) ;; *) echo "$package" ;; esac
  done
}

system_packages() {
  local tools tool needed="" wished="" package
  tools=$(missing_tools)
  if have apt-get && have dpkg-query; then
    for tool in $tools; do needed="$needed $(debian_package "$tool")"; done
    wished=$(echo $(missing_libraries))
    # What the system does not have stays missing: it is asked for once, not at every run.
    if [ -z "$needed$wished" ]; then return 0; fi
    if [ -z "$needed" ] && [ "$wished" = "$(cat "$deps/without" 2>/dev/null)" ]; then return 0; fi
    if can_be_root; then
      apt_install "$needed" "$wished"
    elif [ -n "$needed" ]; then
      fail "not root, and sudo is not there or asks for a password. Type this as root, then run this again:" \
        "  apt-get update && apt-get install -y$needed $wished"
    else
      say "going on without $wished: CMake fetches what it needs of these (or, as root: apt-get install $wished)"
      echo "$wished" >"$deps/without"
    fi
  elif [ -n "$tools" ]; then
    tools=$(echo $tools)
    if have dnf; then
      fail "missing: $tools. Type this, then run this again:" \
        "  sudo dnf install -y gcc-c++ cmake ninja-build python3-pip ccache gtest-devel cli11-devel json-devel pcre2-devel"
    elif have brew; then
      fail "missing: $tools. Type this, then run this again (c++: xcode-select --install):" \
        "  brew install cmake ninja python ccache googletest cli11 nlohmann-json pcre2"
    fi
    fail "missing: $tools. This system has neither apt-get, dnf nor brew: install these with its own packages, then run this again" \
      "or build in a container: see the first lines of the Dockerfile"
  fi
}

apt_install() {  # apt_install "needed packages" "wished packages"
  local package there="" how=apt-get
  if [ "$(id -u)" != 0 ]; then how="sudo apt-get"; fi
  say "installing with $how: $(echo $1 $2) (a minute or two)"
  as_root apt-get update >>"$log" 2>&1 || say "apt-get update failed; going on with the package lists that are there"
  for package in $2; do
    if apt-cache show "$package" >/dev/null 2>&1; then there="$there $package"; fi
  done
  if [ -n "$1$there" ]; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends \
      $1 $there >>"$log" 2>&1 || apt_failed "$1" "$there"
  fi
  echo $(missing_libraries) >"$deps/without"
}

apt_failed() {
  local reason
  reason=$(grep -E '^E:' "$log" | head -n 1 || true)
  if [ -z "$reason" ]; then reason=$(tail -n 1 "$log"); fi
  if [ -z "$1" ]; then say "apt-get failed ($reason); going on without $2: CMake fetches what it needs of these"; return 0; fi
  fail "apt-get failed: $reason (all of it is in .deps/setup.log)" "Mend that and run this again, or type: apt-get update && apt-get install -y$1$2"
}

check_cmake() {
  local version
  version=$(cmake --version | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p')
  version_at_least "$version" 3.22 ||
    fail "cmake is version $version, 3.22 or newer is needed: python3 -m pip install --user cmake, and put it first in PATH"
}

# LibTorch ---------------------------------------------------------------------------------------------------------
# Prints the folder of TorchConfig.cmake under one of the given folders.
find_torch() {
  local prefix place
  for prefix; do
    for place in "$prefix" "$prefix/share/cmake/Torch" "$prefix/torch/share/cmake/Torch" "$prefix/lib/cmake/Torch"; do
      if [ -f "$place/TorchConfig.cmake" ]; then (cd "$place" && pwd); return 0; fi
    done
  done
  return 1
}

libtorch_wheel() {  # fetches it unless it is there
  local package=torch==$libtorch+cpu index=https://download.pytorch.org/whl/cpu version
  if [ "$(uname -s)" = Darwin ]; then package=torch==$libtorch; fi  # the only one there is for macOS, and for the CPU
  if installed "$deps/libtorch" "$package" && find_torch "$deps/libtorch/torch" >/dev/null; then return 0; fi
  need_python
  say "fetching LibTorch $libtorch for the CPU (190 MB to load, 800 MB on disk; one to five minutes)"
  # A wheel of another Python will do where there is none for this one: only its C++ libraries are used.
  for version in own 3.12 3.11; do
    case $version in
      own) set -- ;;
      *) set -- --python-version "$version" --implementation cp --only-binary=:all: ;;
    esac
    if pip_install "$deps/libtorch" "$package" --extra-index-url "$index" "$@"; then return 0; fi
    grep -q -E 'No matching distribution|ResolutionImpossible' "$log" || break
  done
  pip_failed "LibTorch" "Check the network, or name a LibTorch that you have: CMAKE_PREFIX_PATH=/path/to/libtorch make run."
}

choose_libtorch() {
  local folder named source="$libtorch, the CPU wheel in .deps"
  if [ -n "${Torch_DIR:-}" ]; then
    folder=$(find_torch "$Torch_DIR") ||
      fail "Torch_DIR is $Torch_DIR, which has no TorchConfig.cmake: name LibTorch's folder share/cmake/Torch, or unset Torch_DIR"
    source="$folder (Torch_DIR)"
  else
    folder=
    if [ -n "${CMAKE_PREFIX_PATH:-}" ]; then
      IFS=':;' read -r -a named <<<"$CMAKE_PREFIX_PATH"
      folder=$(find_torch "${named[@]}") || say "no LibTorch in CMAKE_PREFIX_PATH ($CMAKE_PREFIX_PATH): taking the wheel"
    fi
    if [ -n "$folder" ]; then
      source="$folder (CMAKE_PREFIX_PATH)"
    else
      libtorch_wheel
      folder=$(find_torch "$deps/libtorch/torch") || fail "the wheel of LibTorch holds no TorchConfig.cmake: rm -r .deps/libtorch and run this again"
    fi
  fi
  # The Makefile configures anew when this file changes.
  if [ "$(cat "$deps/torch_dir" 2>/dev/null)" != "$folder" ]; then printf '%s\n' "$folder" >"$deps/torch_dir"; fi
  say "everything is in place; LibTorch: $source"
}

# -------------------------------------------------------------------------------------------------------------------
trap 'rm -rf "$deps"/*.partial; fail "stopped; nothing is left half done, run this again"' INT TERM
mkdir -p "$deps"
case "${1:-}" in
  "")
    : >"$log"
    system_packages
    check_cmake
    if ! installed "$deps/python" "$cog"; then
      need_python
      say "fetching $cog"
      pip_install "$deps/python" "$cog" || pip_failed "$cog" "Check the network and run this again."
    fi
    choose_libtorch
    ;;
  format)
    if ! installed "$deps/format" "$clang_format"; then
      : >"$log"
      need_python
      say "fetching $clang_format"
      pip_install "$deps/format" "$clang_format" ||
        pip_failed "$clang_format" "Check the network, or name a clang-format of version 14: make format CLANG_FORMAT=..."
    fi
    ;;
  pictures | site | site_test)
    requirements=tools/book/$1/requirements.txt
    # Some of these packages fit one version of Python only: it has to be the one that runs them.
    python=${PYTHON:-python3}
    "$python" -m pip --version >/dev/null 2>&1 ||
      fail "$python has no pip: install it, or name a python3 that has: PYTHON=/usr/bin/python3 make ..."
    wanted="$("$python" --version) $(cat "$requirements")"
    if ! installed "$deps/$1" "$wanted"; then
      : >"$log"
      say "fetching what $requirements names"
      pip_install "$deps/$1" --requirement="$requirements" ||
        pip_failed "$requirements" "It needs Python 3.10 or newer and the network; PYTHON=... names another python3."
      printf '%s\n' "$wanted" >"$deps/$1/.installed"
    fi
    ;;
  *) fail "unknown argument '$1': tools/setup.sh, or with format, pictures, site or site_test" ;;
esac
