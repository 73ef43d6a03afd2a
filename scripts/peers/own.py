"""batchlab itself on the same traces: `batchlab real` and `batchlab profile`."""

import os
import subprocess
import tempfile
from pathlib import Path

from common import THREADS, read_csv

HERE = Path(__file__).parent
BATCHLAB = os.environ.get("BATCHLAB", str(HERE.parent.parent / "target" / "release" / "batchlab"))
# The factor for a trace's times with which all of its requests are there from the start.
AT_ONCE = 1e-9


def batchlab(*arguments):
    """Runs batchlab; its words are shown if it fails."""
    command = [BATCHLAB, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")


def profile_steps(cell, batches, output):
    """Measures one cell at these batch sizes into a cost table (`cell,batch,ns,stddev_ns`)."""
    output.parent.mkdir(parents=True, exist_ok=True)
    batchlab("profile", "--backend", "cpu", "--cell", cell, "--batches", ",".join(map(str, batches)), "-o", output)


def real(scenario, trace, time_scale, settings):
    """Runs a scenario of this folder in real time: the rows of its summary, by policy."""
    with tempfile.TemporaryDirectory() as out:
        sets = [f"workload.trace={Path(trace).resolve()}", f"workload.time_scale={time_scale}"]
        sets += [f"device.workers={THREADS}", *settings]
        arguments = [part for setting in sets for part in ("--set", setting)]
        batchlab("real", HERE / scenario, "--backend", "cpu", "--quiet", "--out", out, *arguments)
        (path,) = Path(out).glob("*/summary.csv")
        return {row["policy"]: row for row in read_csv(path)}


def own_run(scenario, path, trace, settings):
    """`run` of `serving.in_turns` for a scenario with one policy."""

    def run(rate):
        (row,) = real(scenario, path, trace.rate / rate if rate else AT_ONCE, settings).values()
        if not row["p99_ms"]:
            raise SystemExit(f"{path}: batchlab names a p99 from 1,000 requests on")
        return [float(row[key]) for key in ("throughput_rps", "p50_ms", "p90_ms", "p99_ms")]

    return run
