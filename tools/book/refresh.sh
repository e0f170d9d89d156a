#!/bin/sh
# Puts code, recorded output and tables into the texts; with --check it changes nothing and fails where one is stale.
# The text between [[[cog ...]]] and [[[end]]] is made by tools/book/inserts.py.
set -eu
cd "$(dirname "$0")/../.."
mode=-r
if [ "${1:-}" = --check ]; then mode=--check; fi
PYTHONPATH=.deps/python:tools/book PYTHONDONTWRITEBYTECODE=1 "${PYTHON:-python3}" -m cogapp $mode --verbosity=1 \
  -p 'from inserts import *' README.md BOOK.md chapters/*/README.md workshop/README.md || {
  echo "book: a text is stale: run \`make book\`" >&2
  exit 1
}
