#!/usr/bin/env python3
"""Runs the commands and examples of docs/ANALYSIS.md, whose assertions compare with the program's own figures.

    pip install pandas duckdb
    BATCHLAB=target/release/batchlab scripts/check-analysis.py
"""

import os
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    program = os.path.abspath(os.environ.get("BATCHLAB", "batchlab"))
    text = (ROOT / "docs/ANALYSIS.md").read_text()
    commands = re.findall(r"^    batchlab (.*)$", text, re.M)
    examples = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(commands) > 3 and len(examples) > 3, "docs/ANALYSIS.md has changed its form"
    with tempfile.TemporaryDirectory() as folder:
        for name in ["scenarios", "traces"]:
            os.symlink(ROOT / name, f"{folder}/{name}")
        for command in commands:
            subprocess.run([program, *command.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        os.chdir(folder)
        scope = {}
        for example in examples:
            exec(compile(example, "docs/ANALYSIS.md", "exec"), scope)
    print(f"{len(examples)} examples agree with the program")


if __name__ == "__main__":
    main()
