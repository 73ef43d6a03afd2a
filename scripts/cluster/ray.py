#!/usr/bin/env python3
"""Runs a sweep as Ray tasks, one of which is killed and retried by Ray, merges, and compares every file with a single run's.

    pip install ray
    scripts/cluster/ray.py

BATCHLAB names the program; without it, that of `cargo build --release` is tested. The last line is PASS or FAIL.
"""

import filecmp
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.pop(0)  # The folder of this file, which would be imported as `ray`.
import ray  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHLAB = os.path.abspath(os.environ.get("BATCHLAB", ROOT / "target/release/batchlab"))
SHARDS = 7
SWEEP = [BATCHLAB, "sim", "scenarios/quickstart.toml", "--quiet", "--set", "workload.requests=100000"]
SWEEP += ["--sweep", "device.workers=1,2,3,4"]


@ray.remote(num_cpus=1, max_retries=3)
def shard(number, out, killed):
    command = [*SWEEP, "--threads", "1", "--out", out, "--shard", f"{number}/{SHARDS}"]
    if number == 3 and not killed.exists():
        killed.touch()
        child = subprocess.Popen(command, cwd=ROOT)
        time.sleep(0.2)
        child.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    subprocess.run(command, cwd=ROOT, check=True)


def files(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != "host.json"}


def main():
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
        began = time.monotonic()
        ray.get([shard.remote(number, str(work / "ray"), work / "killed") for number in range(1, SHARDS + 1)])
        print(f"{SHARDS} shards in {time.monotonic() - began:.1f} s; one was killed")
        ray.shutdown()
        subprocess.run([*SWEEP, "--out", str(work / "ray"), "--merge-only"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*SWEEP, "--out", str(work / "single")], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        single, sharded = files(work / "single"), files(work / "ray")
        differing = single ^ sharded
        differing |= {name for name in single & sharded if not filecmp.cmp(work / "single" / name, work / "ray" / name, False)}
        print(f"files: {len(single)}, different: {sorted(differing) or 0}")
        return (work / "killed").exists() and single and not differing


if __name__ == "__main__":
    try:
        passed = main()
    except Exception as error:
        print(error)
        passed = False
    print("PASS" if passed else "FAIL")
    sys.exit(0 if passed else 1)
