#!/usr/bin/env python3
"""Measures batchlab's CPU backend and its peers side by side: see README.md.

Every command writes its tables into a folder; `table` prints what is in it.
"""

import argparse
import importlib.metadata
import os
import platform
import statistics
import time
from pathlib import Path

import common
import own
import serving
import table


def steps(args):
    """The time of one LSTM step."""
    import chains

    rows = []
    if args.own:
        path = args.out / "batchlab-steps.csv"
        own.profile_steps(f"lstm:{args.hidden}", args.batches, path)
        steps = [row for row in common.read_csv(path) if row["cell"] == "lstm"]
        rows += [["batchlab", row["cell"], row["batch"], float(row["ns"]) / 1e3, ""] for row in steps]
    for batch in args.batches:
        times = common.interleaved(chains.step_calls(args.hidden, batch))
        rows += [[*name, batch, median * 1e6, least * 1e6] for name, (median, least) in times.items()]
    common.write_csv(args.out / "steps.csv", ["system", "what", "batch", "median_us", "min_us"], rows)


def serve_all(args, workload, systems):
    """Latencies of all systems at the rates asked for, and the highest rate at which each holds each target.

    `systems` gives (name, largest batch, run). Every single run is written down.
    """
    runs, knees = [], []

    def noted(name, max_batch, run):
        def measure(rate):
            measured = run(rate)
            runs.append([name, max_batch, rate or "all at once", *measured])
            print(f"{workload}, {name}, batches of {max_batch}, {table.figures(runs[-1][2:])}", flush=True)
            return measured

        return measure

    systems = [(name, max_batch, noted(name, max_batch, run)) for name, max_batch, run in systems]
    for rate in args.rates:
        for *_, measure in systems:
            measure(rate)
    for target in args.targets:
        searches = [(measure, serving.knee(target, args.tolerance, args.tries)) for *_, measure in systems]
        for (name, max_batch, _), (rate, measured) in zip(systems, serving.in_turns(searches)):
            knees.append([name, max_batch, target, rate, *(measured or [0, "", "", ""])])
    latency = ["throughput_rps", "p50_ms", "p90_ms", "p99_ms"]
    common.write_csv(args.out / f"{workload}-runs.csv", ["system", "max_batch", "rate", *latency], runs)
    common.write_csv(args.out / f"{workload}-knees.csv", ["system", "max_batch", "target_ms", "rate", *latency], knees)


def own_systems(args, scenario, trace):
    """batchlab as `serve_all` wants it, with each of its largest batches."""
    for size in args.own_batch if args.own else []:
        settings = [f"workload.hidden={args.hidden}", f"policy.batchlab.max_batch={size}"]
        yield "batchlab", size, own.own_run(scenario, args.trace, trace, settings)


def serve_chains(args):
    """Sentences through one LSTM layer: padded buckets of the peers against cellular batching."""
    import chains

    trace = common.read_trace(args.trace)
    sentences = serving.Sentences(trace)

    def systems():
        yield from own_systems(args, "chains.toml", trace)
        for size in args.max_batch:
            for peer in chains.sentence_peers(args.hidden):
                prepare = lambda members, peer=peer: peer.prepare(*sentences.batch(members))
                buckets = lambda size=size: serving.Buckets(trace, size)
                yield f"{peer.name}, padded buckets", size, serving.peer_run(trace, buckets, prepare, peer.run)

    serve_all(args, "chains", systems())


def serve_trees(args):
    """Parse trees through a binary tree-LSTM: batches in the order of arrival against cellular batching."""
    import trees
    from forest import trees_of

    trace = common.read_trace(args.trace)
    forest = trees_of(trace.shapes)

    def systems():
        yield from own_systems(args, "trees.toml", trace)
        for size in args.max_batch:
            for peer in trees.peers(args.hidden, forest):
                prepare = lambda members, peer=peer: peer.prepare([forest[member] for member in members])
                batches = lambda size=size: serving.FirstCome(trace, size)
                yield peer.name, size, serving.peer_run(trace, batches, prepare, peer.run)

    serve_all(args, "trees", systems())


def throughput(workload, args, peers, forest, sizes):
    """Trees per second, batch after batch, with and without the time in which a peer builds its batches in Python.

    The systems take turns, and of each the median round counts.
    """
    settings = [f"workload.hidden={args.hidden}"]
    if args.embedding:
        settings.append(f"workload.embedding={args.embedding}")
    rounds = {}
    for _ in range(args.rounds):
        if args.own:
            for policy, row in own.real(f"{workload}.toml", args.trace, own.AT_ONCE, settings).items():
                name = policy if policy == "batchlab" else f"batchlab, {policy}"
                rate = float(row["throughput_rps"])
                rounds.setdefault((name, ""), []).append((rate, rate))
        for peer, size in zip(peers, sizes):
            building = running = 0.0
            for start in range(0, len(forest), size):
                batch = []
                building += common.seconds(lambda: batch.append(peer.prepare(forest[start : start + size])))
                running += common.seconds(lambda: peer.run(batch[0]))
            rates = len(forest) / running, len(forest) / (building + running)
            rounds.setdefault((peer.name, size), []).append(rates)
    rows = [[*system, *map(statistics.median, zip(*rates))] for system, rates in rounds.items()]
    header = ["system", "batch", "trees_per_s", "trees_per_s_with_building"]
    common.write_csv(args.out / f"{workload}-throughput.csv", header, rows)


def trees_throughput(args):
    """Throughput of the binary tree-LSTM, batches of equally many trees."""
    import trees
    from forest import trees_of

    forest = trees_of(common.read_trace(args.trace).shapes)
    peers = trees.peers(args.hidden, forest)
    throughput("trees", args, peers, forest, [args.batch] * len(peers))


def childsum_throughput(args):
    """Throughput of the child-sum tree-LSTM: one tree at a time, and batches of pairs."""
    import childsum
    from forest import trees_of

    forest = trees_of(common.read_trace(args.trace).shapes)
    throughput("childsum", args, childsum.peers(args.hidden, args.embedding, forest), forest, [1, args.batch])


def dynet_host(args):
    """DyNet's work on the host for a tree: building the graph, and ordering it. Needs DyNet and NumPy only.

    With a tiny width hardly any arithmetic is left. CPU time is taken, so that other work of the machine counts little.
    """
    import forest

    if forest.dynet is None:
        raise SystemExit("DyNet can't be imported; pip install dyNET38==2.2")
    trees = forest.trees_of(common.read_trace(args.trace).shapes)
    leaves = sum(1 for tree in trees for children in tree.children if not children)
    nodes = sum(len(tree.words) for tree in trees)
    operators = leaves * forest.LEAF_OPERATORS + (nodes - leaves) * forest.INTERNAL_OPERATORS
    peer = forest.DyNet(forest.Weights(args.hidden))
    rounds = {size: [] for size in args.batches}
    # The first round takes memory from the system.
    for round_ in range(args.rounds + 1):
        for size, times in rounds.items():
            building = ordering = 0.0
            for start in range(0, len(trees), size):
                begin = time.process_time()
                batch = peer.prepare(trees[start : start + size])
                built = time.process_time()
                peer.run(batch)
                building += built - begin
                ordering += time.process_time() - built
            if round_ > 0:
                times.append((building, ordering))
    rows = []
    for size, times in rounds.items():
        for what, of in zip(("construct", "merge"), zip(*times)):
            per_operator = [seconds / operators * 1e9 for seconds in of]
            per_tree = statistics.median(of) / len(trees) * 1e6
            rows.append([size, what, per_tree, statistics.median(per_operator), min(per_operator), max(per_operator)])
    columns = ["batch", "what", "us_per_tree", "ns_per_operator", "least_ns", "most_ns"]
    common.write_csv(args.out / "dynet-host.csv", columns, rows)
    print(f"{len(trees)} trees of {nodes / len(trees):.1f} nodes and {operators / len(trees):.0f} operators, {args.rounds} rounds")
    table.aligned("DyNet on the host", columns, [[str(row[0]), *row[1:]] for row in rows])


def show_table(args):
    """What the other commands wrote, as text."""
    table.show(args.out)


def versions(args):
    """The libraries and the processor."""
    for package in ("torch", "onnxruntime", "dynet", "dyNET38", "numpy"):
        try:
            print(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    cpus = Path("/proc/cpuinfo")
    models = [line.partition(": ")[2] for line in cpus.read_text().splitlines() if line.startswith("model name")] if cpus.exists() else []
    model = models[0] if models else platform.processor()
    print(f"Python {platform.python_version()}, {model}, {os.cpu_count()} cores, {common.THREADS} threads for each library")


def parse():
    numbers = lambda text: [int(part) for part in text.split(",") if part]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, hidden, trace=True):
        added = commands.add_parser(name, help=run.__doc__.splitlines()[0], description=run.__doc__)
        added.set_defaults(run=run, embedding=None)
        added.add_argument("--out", type=Path, default=Path("results/peers"), help="folder for the tables")
        if hidden:
            added.add_argument("--hidden", type=int, default=hidden, help="width of the layer")
            added.add_argument("--peers-only", dest="own", action="store_false", help="leave batchlab out")
        if hidden and trace:
            added.add_argument("--trace", required=True, help="id,arrival_ns,shape, as `batchlab trace gen` writes it")
        return added

    added = command("steps", steps, 1024, trace=False)
    added.add_argument("--batches", type=numbers, default=[1, 4, 16, 64, 512], help="batch sizes")
    for name, run, targets, sizes in (("chains", serve_chains, [50], [64, 256]), ("trees", serve_trees, [100], [64])):
        added = command(name, run, 256)
        added.add_argument("--targets", type=numbers, default=targets, help="p99 to hold, in milliseconds")
        added.add_argument("--rates", type=numbers, default=[], help="rates at which to report latencies besides")
        added.add_argument("--max-batch", type=numbers, default=sizes, help="largest batches; a system's best one counts")
        added.add_argument("--own-batch", type=numbers, default=[64, 256], help="batchlab's largest batches, in cells")
        added.add_argument("--tolerance", type=float, default=0.02, help="how close the search goes, of the capacity")
        added.add_argument("--tries", type=int, default=3, help="runs of which most have to hold the target")
    added = command("trees-throughput", trees_throughput, 256)
    added.add_argument("--batch", type=int, default=64, help="trees in a batch")
    added.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts")
    added = command("childsum-throughput", childsum_throughput, 150)
    added.add_argument("--batch", type=int, default=512, help="trees in a batch: two for a pair")
    added.add_argument("--embedding", type=int, default=300, help="width of a word")
    added.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts")
    added = command("dynet-host", dynet_host, 1)
    added.add_argument("--batches", type=numbers, default=[1, 10, 64], help="trees in a batch")
    added.add_argument("--rounds", type=int, default=15, help="rounds, of which the median counts")
    command("table", show_table, None)
    command("versions", versions, None)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    arguments.run(arguments)
