#!/usr/bin/env bash
# Makes the reference results that the README shows anew: BatchMaker's Figure 7, three policies on its trace, chunks against single steps, policies with deadlines, and the table of claims. The launches of JIT's Table 1 are
# counted where BATCHLAB_DATA names a folder with SICK's trees.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cargo build --release --locked
./target/release/batchlab sim --quiet --out "$out" scenarios/batchmaker/fig5.toml scenarios/batchmaker/fig7a.toml scenarios/batchmaker/fig7b.toml >/dev/null
for figure in fig5/gantt fig7a/latency-throughput fig7b/latency-throughput; do
    cp "$out/$figure.png" "results/reference/${figure%/*}.png"
    cp "$out/${figure%/*}/summary.csv" "results/reference/${figure%/*}.csv"
done
for comparison in three-ways cellular-vs-persistent cellular-vs-persistent-1024; do
    ./target/release/batchlab sim --quiet --out "$out" "scenarios/compare/$comparison.toml" >/dev/null
    cp "$out/$comparison/latency-throughput.png" "results/reference/$comparison.png"
done
# The first picture: the simulation beside a GPU's measurements.
./target/release/batchlab plot "$out/three-ways" results/reference/gpu/three-ways-f32 --kind latency-throughput --panels --bars false --width 6.6in --height 3in \
    --label "three-ways=V100, simulated" --label "three-ways-f32=H100, measured" --format png --out results/reference/three-ways.png
./target/release/batchlab sim --quiet --out "$out" scenarios/neighbours/deadlines.toml >/dev/null
cp "$out/neighbours-deadlines/goodput.png" results/reference/deadlines.png
./target/release/batchlab reproduce --quiet --out "$out" claims >results/reference/claims.txt
