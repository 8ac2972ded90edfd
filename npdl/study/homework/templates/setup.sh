#!/usr/bin/env bash
# Gradescope runs this once, when it builds the image: NumPy, for a Python of 3.11 or newer.
set -e
cd "$(dirname "${BASH_SOURCE[0]}")"
python=python3
if ! python3 -c 'import ensurepip, sys; assert sys.version_info >= (3, 11)' 2> /dev/null; then
    apt-get update
    for python in python3.12 python3.11; do
        apt-get install -y "$python-venv" && break
    done
fi
"$python" -m venv venv
venv/bin/pip install 'numpy>=2'         # the newest version that this Python has
