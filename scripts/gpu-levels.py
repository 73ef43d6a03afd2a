#!/usr/bin/env python3
"""What recorded runs on a GPU say of the rows `whole.*` and `launch.further` of a cost table, which lack them.

    batchlab trace gen --dataset DATA --model MODEL -n N --rate 1 -q -o TRACE.csv     # the requests of the runs
    scripts/gpu-levels.py levels COSTS.csv TRACE.csv RUN…       # runs of merged batching
    scripts/gpu-levels.py decisions COSTS.csv RUN…              # runs of cellular batching

A RUN is a folder with `tasks.csv` and, for levels, `batches.csv`. Merged batching takes requests in their order, so
the trace tells the levels of each task; their numbers must agree with `batches.csv`. The rows are fitted to the first
run by medians, and printed as lines of the table. For each run the script says how much longer its tasks took than
the table predicts, without the rows and with them. Only the first run is fitted.
"""

import bisect
import csv
import pathlib
import statistics
import sys
from collections import Counter, defaultdict


def read_table(path):
    rows = defaultdict(list)
    with open(path) as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            rows[row["cell"]].append((int(row["batch"]), int(row["ns"])))
    return {name: sorted(points) for name, points in rows.items()}


def time(table, name, batch):
    """The time of a batch, on the lines between the rows; 0 without rows."""
    points = table.get(name)
    if not points:
        return 0
    place = bisect.bisect_right([size for size, _ in points], batch)
    if place == 0:
        return points[0][1]
    place = min(place, len(points) - 1)
    (before, low), (after, high) = points[place - 1], points[place]
    return max(0, low + (high - low) * (batch - before) / (after - before))


def read_tasks(run):
    with open(pathlib.Path(run) / "tasks.csv") as lines:
        for row in csv.DictReader(lines):
            yield row["cell"], int(row["batch"]), *(int(row[key]) for key in ["submit_ns", "start_ns", "finish_ns"])


def tree_nodes(parents):
    """The cell and the depth from the leaves of each node of a tree."""
    children = defaultdict(list)
    for node, parent in enumerate(parents, 1):
        children[parent].append(node)
    order, depth = [children[0][0]], {}
    for node in order:
        order.extend(children[node])
    for node in reversed(order):
        depth[node] = 1 + max((depth[child] for child in children[node]), default=-1)
        yield "internal" if children[node] else "leaf", depth[node]


def levels(shapes):
    """The cells and rows of the steps of merged batching, in their order."""
    counts = Counter()
    for shape in shapes:
        kind, size = shape.split(":")
        if kind == "tree":
            counts.update((depth, cell) for cell, depth in tree_nodes([int(parent) for parent in size.split()]))
        elif kind == "chain":
            counts.update((depth, "lstm") for depth in range(int(size)))
        else:
            source, target = map(int, size.split(">"))
            counts.update((depth, "encoder") for depth in range(source))
            counts.update((depth, "decoder") for depth in range(source, source + target))
    order = {"leaf": 1, "internal": 0, "encoder": 1, "decoder": 0, "lstm": 0}
    steps = sorted(counts.items(), key=lambda item: (item[0][0], order[item[0][1]]))
    return [(cell, rows) for (_, cell), rows in steps]


def predict(table, steps, host, gather):
    """The time of a task by the table, with a host's time for each node and so much of a gather at each change."""
    queued = ended = 0
    before, last = {}, None
    for cell, rows in steps:
        queued += host * rows
        ended = max(ended, queued) + time(table, cell, rows)
        if last not in (None, cell):
            ended += time(table, f"{cell}.switch", rows)
        if before.get(cell, rows) != rows:
            ended += gather * time(table, "gather", rows)
        before[cell], last = rows, cell
    return ended


def fit(table, tasks):
    """The host's time of a node, the part of a gather, and the time of a request that fit best in the median."""
    is_tree = any(cell == "leaf" for cell, _ in tasks[0][1])
    hosts = range(0, 500, 10) if is_tree else [0]
    gathers = [0] if is_tree else [part / 20 for part in range(41)]
    best = None
    for host in hosts:
        for gather in gathers:
            left = [(took - predict(table, steps, host, gather), requests) for requests, steps, took in tasks]
            each = 0 if is_tree else statistics.median(more / requests for more, requests in left)
            miss = statistics.median(abs(more - each * requests) for more, requests in left)
            best = min(best or (miss, host, gather, each), (miss, host, gather, each))
    return best[1:]


def fit_levels(costs, trace, runs):
    table = read_table(costs)
    with open(trace) as lines:
        shapes = [row["shape"] for row in csv.DictReader(lines)]
    found = None
    for run in runs:
        tasks, first = [], 0
        for _, requests, _, start, finish in read_tasks(run):
            tasks.append((requests, levels(shapes[first : first + requests]), finish - start))
            first += requests
        counted = Counter(step for _, steps, _ in tasks for step in steps)
        with open(pathlib.Path(run) / "batches.csv") as lines:
            logged = {(row["cell"], int(row["batch"])): int(row["tasks"]) for row in csv.DictReader(lines)}
        if counted != logged:
            sys.exit(f"{run}: its batches are not those of {trace}; take the run's dataset and seed")
        tasks = tasks[1:]  # The first runs on cold caches.
        if found is None:
            found = fit(table, tasks)
            host, gather, each = found
            largest = max(requests for requests, _, _ in tasks)
            rows = [("whole.host", 1, host), ("whole.host", 2, 2 * host)] if host else []
            for size in [1, 16, 64, 256, 512]:
                for name in ["whole.shrink", "whole.grow"]:
                    rows.append((name, size, gather * time(table, "gather", size)))
            rows += [("whole", 1, each), ("whole", largest, each * largest)]
            for name, batch, ns in rows:
                if ns > 0:
                    print(f"{name},{batch},{ns:.0f}")
        host, gather, each = found
        took = sum(task[2] for task in tasks)
        plain = sum(predict(table, steps, 0, 0) for _, steps, _ in tasks)
        full = sum(each * requests + predict(table, steps, host, gather) for requests, steps, _ in tasks)
        print(f"# {run}: tasks took {100 * (took / plain - 1):+.1f} %, with these rows {100 * (took / full - 1):+.1f} %")


def fit_decisions(costs, runs):
    """The rows `launch.further`, if all tasks gather, for the decisions of five tasks in all runs."""
    table = read_table(costs)
    decisions = []
    for run in runs:
        last = None
        for task in read_tasks(run):
            if task[2] != last:
                decisions.append([])
            last = task[2]
            decisions[-1].append(task)
    left = defaultdict(list)
    for tasks in decisions:
        batch = tasks[0][1]
        if len(tasks) == 5:
            took = tasks[-1][4] - tasks[0][2] - time(table, "launch", batch)
            for place, (cell, rows, *_) in enumerate(tasks):
                switched = place > 0 and tasks[place - 1][0] != cell
                more = [time(table, "gather", rows), time(table, f"{cell}.switch", rows) if switched else 0]
                took -= time(table, cell, rows) + max(more)
            left[batch.bit_length()].append((batch, took))
    for found in left.values():
        if len(found) >= 20:
            batch = statistics.median_low(batch for batch, _ in found)
            each = statistics.median(took for _, took in found) / 4
            print(f"launch.further,{batch},{max(each, 0):.0f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["levels", costs, trace, run, *more]:
            fit_levels(costs, trace, [run, *more])
        case ["decisions", costs, run, *more]:
            fit_decisions(costs, [run, *more])
        case _:
            sys.exit(__doc__)
