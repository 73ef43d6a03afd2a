#!/usr/bin/env python3
"""Prints tables of the benches and of the program as a whole in Markdown, with the machine and the commit.

    scripts/bench-tables.py               # runs the benches twice and keeps the second times, then the program; a quarter of an hour
    scripts/bench-tables.py --kept        # takes the times of the last `cargo bench` instead of running the benches
    scripts/bench-tables.py --program P   # times this program instead of building one

Run it while the machine does nothing else. Needs a Rust toolchain."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
BENCHES = ["simulation", "decision", "shared", "submit", "grnn"]
MILLION = 1_000_000
WORKERS = """
name = "workers"
workload = { model = "lstm", dataset = "traces/europarl-en.csv", requests = 2000000 }
arrivals = { process = "poisson", rates = [RATE] }
device = { workers = NUMBER, costs = "scenarios/costs/v100.csv" }
policy = [{ kind = "cellular", max_batch = 64 }]
output = { record = "stream", tasks = false }
"""
TRACE = """
name = "trace"
workload = { model = "lstm", trace = "TRACE" }
device = { costs = "scenarios/costs/v100.csv" }
policy = [{ kind = "cellular", max_batch = 512 }]
output = { requests = false, tasks = false }
"""
TREES = """
name = "trees"
workload = { model = "tree-lstm", dataset = "generator:treebank", requests = 200000 }
arrivals = { process = "poisson", rates = [2500] }
device = { costs = "scenarios/costs/v100.csv" }
policy = [{ kind = "cellular", max_batch = 64 }]
output = { requests = false, tasks = false }
"""


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def processor():
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def describe(args):
    commit = output("git", "describe", "--always", "--dirty", "--abbrev=8")
    benches = "the last benches, of an unknown commit" if args.kept else f"benches of commit {commit}"
    program = output(args.program.resolve(), "--version") if args.program else f"commit {commit}"
    rustc = output("rustc", "--version").split(" (")[0]
    return f"{os.cpu_count()} cores, {processor()}; {rustc}; {benches}; the program as a whole: {program}."


def with_unit(value, units):
    """The value in the largest unit that leaves at least 1, with three digits."""
    size, unit = next(((size, unit) for size, unit in units if value >= size), units[-1])
    digits = value / size
    return f"{digits:.{0 if digits >= 100 else 1 if digits >= 10 else 2}f} {unit}".rstrip()


def time_text(nanos):
    return with_unit(nanos, [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")])


def rate_text(rate):
    return with_unit(rate, [(1e6, "million")]) if rate >= 1e6 else f"{float(f'{rate:.3g}'):,.0f}"


def bench_tables():
    groups = {}
    files = (TARGET / "criterion").glob("*/*/new/benchmark.json")
    for file in sorted(files, key=lambda file: file.with_name("estimates.json").stat().st_mtime):
        bench = json.loads(file.read_text())
        groups.setdefault(bench["group_id"], []).append((bench, json.loads(file.with_name("estimates.json").read_text())))
    for name, found in groups.items():
        if name.split(",")[0] not in BENCHES:
            continue
        print(f"\n| {name} | time | in a second |\n|---|---:|---:|")
        for bench, times in found:
            nanos = (times.get("slope") or times["mean"])["point_estimate"]
            elements = (bench.get("throughput") or {}).get("Elements", 1)
            print(f"| {bench['function_id']} | {time_text(nanos)} | {rate_text(elements * 1e9 / nanos)} |")


def measure(program, *args):
    """The CPU time in seconds and the peak memory in MiB, as medians of three runs."""
    seconds, memory = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as out, open(os.devnull, "wb") as nowhere:
            child = subprocess.Popen([program, *args, "--threads", "1", "--quiet", "--out", out], cwd=ROOT, stdout=nowhere)
            _, status, used = os.wait4(child.pid, 0)
            if status:
                raise SystemExit(f"{program} {' '.join(args)} failed")
        seconds.append(used.ru_utime + used.ru_stime)
        memory.append(used.ru_maxrss / 1024)
    return statistics.median(seconds), statistics.median(memory)


def program_table(program):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        rows = folder / "million.csv"
        output(program, "trace", "gen", "--dataset", "traces/europarl-en.csv", "--rate", "20800", "-n", str(MILLION), "-q", "-o", rows)
        (folder / "trace.toml").write_text(TRACE.replace("TRACE", str(rows)))
        (folder / "trees.toml").write_text(TREES)
        for workers in (1, 1000):
            scenario = WORKERS.replace("NUMBER", str(workers)).replace("RATE", str(8000 * workers))
            (folder / f"{workers}.toml").write_text(scenario)
        ten_million = ["--set", f"workload.requests={10 * MILLION}"]
        runs = [
            ("10 million requests of `scale/billion`", 10 * MILLION, "sim", "scenarios/scale/billion.toml", *ten_million),
            ("2 million requests, one worker, batches of 64", 2 * MILLION, "sim", folder / "1.toml"),
            ("2 million requests, 1,000 workers, batches of 64", 2 * MILLION, "sim", folder / "1000.toml"),
            ("a million requests from a trace in CSV", MILLION, "sim", folder / "trace.toml"),
            ("200,000 trees", 200_000, "sim", folder / "trees.toml"),
            ("BatchMaker's figure 7, both panels", 0, "sim", "scenarios/batchmaker/fig7a.toml", "scenarios/batchmaker/fig7b.toml"),
            ("quickstart", 0, "sim", "scenarios/quickstart.toml"),
            ("all claims", 0, "reproduce", "claims"),
        ]
        print("\n| the program as a whole | CPU time | requests in a second of CPU time | peak memory |\n|---|---:|---:|---:|")
        for title, requests, *args in runs:
            seconds, memory = measure(program, *map(str, args))
            rate = rate_text(requests / seconds) if requests else ""
            print(f"| {title} | {time_text(seconds * 1e9)} | {rate} | {memory:.0f} MiB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true", help="take the times of the last benches")
    parser.add_argument("--program", type=Path, help="a built program")
    args = parser.parse_args()
    if not args.kept:
        benches = [word for bench in BENCHES for word in ("--bench", bench)]
        for _ in range(2):
            subprocess.run(["cargo", "bench", "--locked", *benches], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    program = args.program
    if program is None:
        subprocess.run(["cargo", "build", "--locked", "--release"], cwd=ROOT, check=True)
        program = TARGET / "release" / "batchlab"
    print(describe(args))
    bench_tables()
    program_table(str(Path(program).resolve()))


if __name__ == "__main__":
    main()
