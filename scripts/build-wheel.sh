#!/usr/bin/env bash
# Builds the wheel, with the module and the command, and tries it as a new user does: in an empty folder, in a fresh
# virtual environment, without Rust in PATH and without network. Prints sizes and times; ends with PASS or FAIL. Needs a
# Rust toolchain and Python, and installs maturin and Zig, whose linker builds for the glibc of manylinux_2_28.
#
#     scripts/build-wheel.sh             # builds target/wheels/batchlab-*.whl for this machine and tries it
#     scripts/build-wheel.sh FILE.whl    # tries a wheel that is there
#     scripts/build-wheel.sh aarch64     # builds the wheel for 64-bit ARM, which is not tried here
set -euo pipefail
cd "$(dirname "$0")/.."
most=8000000 # bytes

seconds() { date +%s.%N; }
since() { python3 -c "print(f'{$(seconds) - $1:.1f} s')"; }
fail() {
  echo "FAIL: $*"
  exit 1
}

# Builds the wheel for a kind of processor.
build() {
  local tools=target/wheel-tools start
  [ -x "$tools/bin/maturin" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet 'maturin[zig]>=1.9,<2'; }
  start=$(seconds)
  rm -f target/wheels/batchlab-*"$1".whl
  PATH=$PWD/$tools/bin:$PATH maturin build --profile dist --locked --zig --target "$1-unknown-linux-gnu" \
    --compatibility manylinux_2_28 --compression-level 9 --out target/wheels
  wheel=$(echo target/wheels/batchlab-*"$1".whl)
  echo "built in $(since "$start")"
}

here=$(uname -m)
case ${1:-} in
  *.whl) wheel=$1 ;;
  "") build "$here" ;;
  *) build "$1" ;;
esac
wheel=$(realpath "$wheel")
size=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $size bytes"
[ "$size" -le "$most" ] || fail "the wheel is larger than $most bytes"
if [[ $wheel != *"$here.whl" ]]; then
  echo "PASS, but it does not run on this machine"
  exit
fi

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/python"
mkdir "$home/empty"
cd "$home/empty"
export HOME=$home PATH=$home/python/bin:/usr/bin:/bin
unset CARGO_HOME RUSTUP_HOME VIRTUAL_ENV CONDA_PREFIX
if command -v cargo rustc; then fail "there is Rust in $PATH"; fi

start=$(seconds)
pip install --quiet --no-index --disable-pip-version-check "$wheel"
batchlab reproduce batchmaker fig7a >figure.txt
[ -s results/reproduce/batchmaker/fig7a/latency-throughput.png ] || fail "Figure 7 (a) was not drawn"
echo "installed, and Figure 7 (a) drawn, in $(since "$start")"

start=$(seconds)
batchlab real quickstart --verify all --set workload.hidden=32 --set workload.requests=500 --set 'arrivals.rates=[500]' >real.txt
[ -s results/cpu/quickstart/summary.csv ] || fail "the real run has no summary"
echo "a real run on the CPU in $(since "$start")"

# Exits with 1 where there is no GPU.
batchlab devices || [ $? = 1 ] || fail "batchlab devices"
module=$(echo "$home"/python/lib/python3*/site-packages/batchlab/_batchlab*.so)
grep -q __global__ "$module" || fail "the CUDA kernels are not in the module"
! ldd "$module" | grep -iE 'cuda|nvrtc|cublas' || fail "the module is linked to CUDA"
echo "$(stat -c %s "$module") bytes installed"

start=$(seconds)
python -c 'import batchlab as bl; assert len(bl.sim("quickstart").requests("Cellular batching", 8000)) == 20000'
echo "the quickstart in Python in $(since "$start")"
echo PASS
