#!/usr/bin/env bash
# Measures batchlab and its peers on the same traces, one after the other, and prints the tables: run.sh [FOLDER OF setup.sh].
# Takes about half an hour on an idle machine. BATCHLAB_DATA may name a folder with trees/sick_test.txt (traces/README.md).
set -euo pipefail
cd "$(dirname "$0")/../.."
python="${1:-scripts/peers/.venv}/bin/python"
out=results/peers
mkdir -p "$out"

if [ -z "${BATCHLAB:-}" ]; then
    cargo build --release --locked
    export BATCHLAB=target/release/batchlab
fi
"$BATCHLAB" trace gen --dataset traces/europarl-en.csv --requests 10000 --rate 1000 -o "$out/chains.csv"
"$BATCHLAB" trace gen --dataset generator:treebank --model tree-lstm --requests 5000 --rate 1000 -o "$out/trees.csv"
pairs=generator:treebank
if [ -f "${BATCHLAB_DATA:-}/trees/sick_test.txt" ]; then
    pairs=$BATCHLAB_DATA/trees/sick_test.txt
fi
"$BATCHLAB" trace gen --dataset "$pairs" --model childsum-tree-lstm --requests 5120 --rate 1000 -o "$out/pairs.csv"

peers() { "$python" scripts/peers/peers.py "$@" --out "$out"; }
peers steps
peers chains --trace "$out/chains.csv" --rates 1000
peers trees --trace "$out/trees.csv" --rates 500
peers trees-throughput --trace "$out/trees.csv"
peers childsum-throughput --trace "$out/pairs.csv"
"$python" scripts/peers/peers.py versions | tee "$out/versions.txt"
peers table
