"""What the parts read of the program's results, and what they make of it. Nothing here runs the program, so that it is tested without a GPU
(test_read.py)."""

import csv
import json
from collections import namedtuple

# The highest rates of a GPU in a format, as `profile --floors` measures them.
Floors = namedtuple("Floors", "bytes_per_s operations_per_s cache_bytes_per_s cache_bytes launch_ns")

# The requests of all runs that were compared with the CPU; the largest relative error, none if all bits are the same; and that error in percent
# of what is tolerated.
Verified = namedtuple("Verified", "requests error percent")

# What a run's host did: microseconds of the scheduler and of its submissions.
HostTimes = namedtuple("HostTimes", "policy point task_us decision_us")


def rows_of(path):
    """The rows of a CSV file, without the comments above its header."""
    with open(path) as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def costs_of(path):
    """A cost table: nanoseconds by cell and batch."""
    costs = {}
    for row in rows_of(path):
        costs.setdefault(row["cell"], {})[int(row["batch"])] = float(row["ns"])
    return costs


def floors_of(path):
    """The floors of each format."""
    return {row["precision"]: Floors(*(float(row[field]) for field in Floors._fields)) for row in rows_of(path)}


def host_of(folder):
    """The entries of a sweep's runs in its host.json."""
    with open(folder / "host.json") as file:
        return json.load(file)["runs"]


def verified(runs):
    """What was verified in some runs; nothing if a run has none, since then the run is not known to be right."""
    if not runs or any(run.get("verified", 0) == 0 for run in runs):
        return None
    compared = [run for run in runs if "largest_error" in run]
    if not compared:
        return Verified(sum(run["verified"] for run in runs), None, 0.0)
    worst = max(compared, key=lambda run: run["largest_error_of_tolerated"])
    return Verified(sum(run["verified"] for run in runs), worst["largest_error"], 100 * worst["largest_error_of_tolerated"])


def describe_verified(found):
    """What was verified, in words."""
    if found.error is None:
        return f"{found.requests} requests, all with the CPU's bits"
    return f"{found.requests} requests, largest relative error {found.error:.2e}, {found.percent:.1f} % of tolerated"


def host_times(runs):
    """What the host did for each task. A run without tasks has no such time."""
    times = []
    for run in runs:
        per_task, per_decision = run.get("scheduler_ns_per_task"), run.get("scheduler_ns_per_decision")
        if not per_task or not per_decision:
            continue
        times.append(HostTimes(run["policy"], run["point"], per_task / 1e3, per_decision / 1e3))
    return times


def memory_ns(floors, moved):
    """The least time in which bytes are moved. Steps are measured back to back, so what fits the L2 cache comes from it."""
    cached = min(moved, floors.cache_bytes) if floors.cache_bytes_per_s > floors.bytes_per_s else 0
    return (cached / floors.cache_bytes_per_s + (moved - cached) / floors.bytes_per_s) * 1e9


def floor_ns(floors, precision, moved, operations, fused=False):
    """The least time of a step: its bytes or its operations, whichever take longer, and a launch. A fused step in f32 multiplies three times in
    TF32, on tensor cores; another one has no such units."""
    own = floors[precision]
    rate = own.operations_per_s
    if fused and precision == "f32":
        rate = max(rate, floors["tf32"].operations_per_s / 3)
    return max(memory_ns(own, moved), operations / rate * 1e9) + own.launch_ns


def share_of_floor(floors, precision, moved, operations, ns):
    """A step's time over its floor, and whether it was fused: what is quicker than a product on its own units can be has used others."""
    share = ns / floor_ns(floors, precision, moved, operations)
    if share >= 1 or precision != "f32":
        return share, False
    return ns / floor_ns(floors, precision, moved, operations, fused=True), True


def by_load(rows, figure):
    """A figure of a summary by offered load and policy, loads ascending. Points without the figure are left out."""
    loads = {}
    for row in rows:
        if row[figure] and row["offered_rps"]:
            loads.setdefault(float(row["offered_rps"]), {})[row["policy"]] = float(row[figure])
    return dict(sorted(loads.items()))


def behind(latencies, policy):
    """At which loads, and by how much, a policy's latency is above that of the best other: (load, ratio of the two, the other)."""
    found = []
    for load, of_policies in latencies.items():
        others = {name: ms for name, ms in of_policies.items() if name != policy}
        if policy not in of_policies or not others:
            continue
        best = min(others, key=others.get)
        found.append((load, of_policies[policy] / others[best], best))
    return found


def peaks(rows):
    """What each policy served at most, in requests per second, by the rows of a run with all requests at once."""
    return {row["policy"]: float(row["throughput_rps"]) for row in rows}


def missing_answers(rows, found, requests):
    """Why the answers of a run are not verified, in words, or nothing if they are."""
    undone = [row["policy"] for row in rows if int(row["completed"]) != requests]
    if undone:
        return f"not all done: {', '.join(undone)}"
    return "" if found else "nothing was verified"


def late_points(rows):
    """The points whose requests were handed over too late to be valid."""
    return [f"{row['policy']} at {float(row['offered_rps'] or 0):.3g}" for row in rows if row.get("valid") == "false"]


def validation(rows, near=5.0):
    """What a validation says: figures with a verdict, those within `near` percent or in their interval, real figures and those of them in intervals,
    and whether replays decide the same."""
    bounded = [row for row in rows if row["verdict"] and row["difference_percent"]]
    agree = [row for row in bounded if abs(float(row["difference_percent"])) <= near or "inside" in row["verdict"].split("; ")]
    runs, inside = (sum(int(row[column]) for row in bounded) for column in ("real_runs", "real_runs_inside"))
    off = [
        f"{row['scenario']} {row['policy']} at {row['load_percent']} %: {row['figure']} {float(row['difference_percent']):+.1f} %"
        for row in bounded
        if row not in agree
    ]
    same = all(row["same_decisions"] == "true" for row in rows)
    return {"figures": len(bounded), "agree": len(agree), "real": runs, "inside": inside, "off": off, "same_decisions": same}
