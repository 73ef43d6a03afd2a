#!/usr/bin/env bash
# Makes a virtual environment with the peers in it: setup.sh [FOLDER] [PYTHON]. Takes 6 GB: PyTorch comes with its CUDA libraries.
#
# DyNet is built from its source on PyPI, for this very processor, which makes it about 1.4 times as fast as the wheel where there is AVX-512. That needs
# g++, make and Eigen's headers (Debian: libeigen3-dev, or EIGEN3_INCLUDE_DIR); without Eigen DyNet's own setup tries to
# fetch it. Where it can't be built, dyNET38 takes its place, the same library as a wheel for AVX2.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-"$here/.venv"}
python=${2:-python3}

"$python" -m venv "$venv"
export PATH="$venv/bin:$PATH"
pip install --quiet --requirement "$here/requirements.txt"

if [ -z "${EIGEN3_INCLUDE_DIR:-}" ] && [ -d /usr/include/eigen3 ]; then
    export EIGEN3_INCLUDE_DIR=/usr/include/eigen3
fi
pip install --quiet 'cython<3' 'cmake<4' wheel setuptools
log="$venv/dynet-build.log"
if ! pip install --verbose --no-build-isolation --no-deps --no-binary :all: dynet==2.1.2 >"$log" 2>&1; then
    echo "DyNet could not be built (see $log): taking the wheel dyNET38" >&2
    pip install --quiet dyNET38==2.2 || echo "DyNet can't be had here: the other peers run without it" >&2
fi
python "$here/peers.py" versions
