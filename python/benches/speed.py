"""The speed of the module, as docs/PYTHON.md states it. Run it with nothing beside it: python python/benches/speed.py

Times are those of the processor for one thread, the least of several runs; import and start are elapsed times.
"""

from __future__ import annotations

import functools
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import batchlab as bl

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))
from policies import Cellular, Padded

# Five loads of 20,000 requests.
REQUESTS = 100_000
ONE: dict[str, Any] = {"output.plots": []}


def least(work: Callable[[], Any], times: int = 5, clock: Callable[[], float] = time.process_time) -> float:
    """The least time of a few runs, in seconds."""
    spent = []
    for _ in range(times):
        start = clock()
        work()
        spent.append(clock() - start)
    return min(spent)


def elapsed(*arguments: str, folder: str = ".") -> float:
    """The least elapsed time of a program, in seconds."""
    return least(lambda: subprocess.run(arguments, check=True, capture_output=True, cwd=folder), 15, time.perf_counter)


def main() -> None:
    for name, policy in (("padded", Padded), ("cellular", Cellular)):
        rust = {"kind": name, "max_batch": 64}
        times = {
            which: least(functools.partial(bl.sim, "quickstart", set=ONE, policies={name: given}, threads=1))
            for which, given in (("Python", policy), ("Rust", rust))
        }
        for which, seconds in times.items():
            print(f"{name} in {which}: {REQUESTS / seconds:,.0f} requests/s")

    with tempfile.TemporaryDirectory() as folder:

        def command() -> None:
            shutil.rmtree(f"{folder}/command", ignore_errors=True)
            subprocess.run(
                [sys.executable, "-m", "batchlab", "sim", "quickstart", "--quiet", "--out", f"{folder}/command"],
                check=True,
                capture_output=True,
            )

        def module() -> None:
            shutil.rmtree(f"{folder}/module", ignore_errors=True)
            bl.sim("quickstart", out=f"{folder}/module")

        of_command = least(command, clock=time.perf_counter)
        print(f"quickstart by the command: {of_command:.3f} s")
        print(f"bl.sim with out: {least(module, clock=time.perf_counter):.3f} s")
        print(f"bl.sim: {least(lambda: bl.sim('quickstart'), clock=time.perf_counter):.3f} s")

    bare = elapsed(sys.executable, "-c", "pass")
    print(f"import batchlab: {1e3 * (elapsed(sys.executable, '-c', 'import batchlab') - bare):.1f} ms beyond Python")
    print(f"the command's start: {1e3 * elapsed(sys.executable, '-m', 'batchlab', '--version'):.1f} ms")
    program = shutil.which("batchlab")
    if len(sys.argv) > 1:
        program = sys.argv[1]
    if program is not None:
        print(f"{program}: {1e3 * elapsed(program, '--version'):.1f} ms")

    import polars

    with tempfile.TemporaryDirectory() as folder:
        million = {"workload.requests": 1_000_000, "arrivals.rates": [8000], "output.plots": []}
        cellular = {"cellular": {"kind": "cellular", "max_batch": 512}}
        run = bl.sim("quickstart", set=million, policies=cellular)
        requests: list[bl.Table] = []
        print(f"10^6 rows as a table: {1e3 * least(lambda: requests.append(run.requests())):.0f} ms")
        print(f"10^6 rows to polars: {1e3 * least(lambda: polars.DataFrame(requests[0])):.0f} ms")
        written = bl.sim("quickstart", set=million, policies=cellular, out=folder)
        print(f"10^6 rows from a folder: {1e3 * least(lambda: written.requests()):.0f} ms")


if __name__ == "__main__":
    main()
