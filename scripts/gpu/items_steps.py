"""What a step costs: beside its floors, its use in full batches, the scheduler, and PyTorch."""

import json
import pathlib
import sys

from bench import Skip, table
from read import costs_of, rows_of, share_of_floor

TORCH = pathlib.Path(__file__).parent / "torch_steps.py"

# What is asked for: a step's time over its floor, the share of back-to-back steps, and microseconds added to a task.
WITHIN_OF_FLOOR = 1.15
SHARE_OF_BACK_TO_BACK = 0.97
ADDED_US = 5.0
# How much slower than the better of two kernels a choice may be.
WITHIN_OF_BEST = 1.1

SCENARIO = """name = "{name}"

[workload]
model      = "lstm"
hidden     = {hidden}
vocabulary = {vocabulary}
dataset    = "constant:{length}"
requests   = {requests}

[arrivals]
process = "offline"

[device]
precision = "{precision}"

[metrics]
warmup = "none"

# Decides one task ahead, as in scenarios/validate/gpu, so that the GPU does not wait for the host.
[[policy]]
kind      = "cellular"
max_batch = {batch}
max_tasks = 1
ahead     = 1
"""


def profile(bench, name, *words):
    path = bench.folder / f"costs-{name}.csv"
    batches = ",".join(map(str, bench.scale.batches))
    bench.needed(
        "profile", "--backend", "cuda", "--batches", batches, "--repeats", bench.scale.repeats, "-o", path, *words
    )
    return costs_of(path)


def element(precision):
    return 4 if precision in ("f32", "tf32") else 2


def step_of(cell, hidden, vocabulary, precision, batch):
    """The bytes that a step has to move at least, and the operations of its products. A word's vector is as wide as h."""
    size = element(precision)
    # Weights as elements; what is read and written of a row: elements of operands, floats of states.
    weights, operand, state = {
        "lstm": (8 * hidden**2, hidden, 4 * hidden),
        "gru": (6 * hidden**2, hidden, 2 * hidden),
        "encoder": (8 * hidden**2, hidden, 4 * hidden),
        "decoder": (8 * hidden**2 + vocabulary * hidden, hidden, 4 * hidden),
        "leaf": (3 * hidden**2, hidden, 2 * hidden),
        "internal": (10 * hidden**2, 0, 6 * hidden),
    }[cell]
    return weights * size + batch * (operand * size + state * 4), 2 * weights * batch


def against_floors(bench, measured, costs):
    """The largest batches have to be near the floor; a table shows all."""
    scale = bench.scale
    lines, worst = [], (0.0, "")
    for (precision, cell), by_batch in costs.items():
        for batch, ns in sorted(by_batch.items()):
            moved, operations = step_of(cell, scale.hidden, scale.vocabulary, precision, batch)
            share, fused = share_of_floor(measured, precision, moved, operations, ns)
            lines.append((precision, cell, batch, f"{ns / 1e3:.1f}", f"{ns / share / 1e3:.1f}", "fused" if fused else "", f"{share:.2f}"))
            if share > worst[0]:
                worst = (share, f"{cell} in {precision} at {batch}")
    heading = ("format", "cell", "batch", "us", "floor us", "units", "of the floor")
    bench.write("floors.txt", table(heading, lines))
    inside = sum(float(line[-1]) <= WITHIN_OF_FLOOR for line in lines)
    return inside == len(lines), (
        f"{inside} of {len(lines)} steps are within {WITHIN_OF_FLOOR} of the larger of bytes and operations, and a launch; the worst is {worst[1]} "
        f"with {worst[0]:.2f} (floors: {rates(measured)}; floors.txt has all)"
    )


def rates(floors):
    """The floors in words."""
    own = next(iter(floors.values()))
    formats = ", ".join(f"{precision} {each.operations_per_s / 1e12:.0f} TFLOP/s" for precision, each in floors.items())
    return (
        f"memory {own.bytes_per_s / 1e12:.2f} TB/s, L2 {own.cache_bytes_per_s / 1e12:.2f} TB/s up to {own.cache_bytes / 2**20:.0f} MiB, "
        f"a launch {own.launch_ns / 1e3:.1f} us, {formats}"
    )


STEPS = """name = "steps"

[workload]
model      = "lstm"
hidden     = {hidden}
vocabulary = {vocabulary}
dataset    = "constant:4"
requests   = 8

[arrivals]
process = "offline"

[[policy]]
kind = "cellular"
"""


def fused(bench, precision):
    """A step by cuBLAS and by the fused kernel, and the better of the two beside its floor."""
    scale = bench.scale
    path = bench.folder / "steps.toml"
    path.write_text(STEPS.format(hidden=scale.hidden, vocabulary=scale.vocabulary))
    times = {}
    for kernels in ("cublas", "fused", "auto"):
        costs = bench.folder / f"costs-{kernels}-{precision}.csv"
        sizes = ("--batches", ",".join(map(str, scale.fused_batches)), "--repeats", scale.repeats)
        sets = ("--set", f"device.precision={precision}", "--set", f"device.step_kernels={kernels}")
        call = bench.call("profile", "--scenario", path, "--backend", "cuda", *sizes, *sets, "-o", costs)
        if call.code != 0:
            raise Skip(call.last_words())
        times[kernels] = costs_of(costs)["lstm"]
    lines, wrong = [], []
    for batch in scale.fused_batches:
        library, own, chosen = (times[kernels][batch] for kernels in ("cublas", "fused", "auto"))
        moved, operations = step_of("lstm", scale.hidden, scale.vocabulary, precision, batch)
        share, _ = share_of_floor(bench.floors(), precision, moved, operations, min(library, own))
        lines.append((batch, *(f"{ns / 1e3:.1f}" for ns in (library, own, chosen)), f"{library / own:.2f}", f"{share:.2f}"))
        if chosen > WITHIN_OF_BEST * min(library, own):
            wrong.append(batch)
    bench.write(f"fused-{precision}.txt", table(("batch", "cuBLAS us", "fused us", "auto us", "times", "of the floor"), lines))
    ratios = ", ".join(f"{line[0]}: {line[1]} and {line[2]}" for line in lines)
    return not wrong, (
        f"us a step by cuBLAS and fused: {ratios}; auto takes more than {WITHIN_OF_BEST} times the better one at batches "
        f"{', '.join(map(str, wrong)) or 'none'}"
    )


def fused_steps(bench):
    """The part of fused steps."""
    for precision in bench.scale.step_precisions[:2]:
        bench.item(f"fused steps in {precision}", lambda: fused(bench, precision))


def makespan(bench, name, precision, batch, requests):
    """The time that an offline run spends on a task of full batches, in nanoseconds, and the run's folder."""
    scale = bench.scale
    path = bench.folder / f"{name}.toml"
    path.write_text(
        SCENARIO.format(
            name=name, hidden=scale.hidden, vocabulary=scale.vocabulary, length=scale.length, requests=requests,
            precision=precision, batch=batch,
        )
    )
    bench.real(path, name)
    (log,) = (bench.folder / "runs" / name).glob("*/*/*/tasks.csv")
    tasks = rows_of(log)
    full = [task for task in tasks if int(task["batch"]) == batch]
    took = max(int(task["finish_ns"]) for task in full) - min(int(task["start_ns"]) for task in full)
    return took / len(full), len(full)


def full_batches(bench, precision, costs):
    scale = bench.scale
    batch = scale.full_batch
    task, count = makespan(bench, f"full-{precision}", precision, batch, batch * scale.full_rounds)
    share = costs[precision, "lstm"][batch] / task
    return share >= SHARE_OF_BACK_TO_BACK, (
        f"{100 * share:.1f} % of back-to-back steps: {task / 1e3:.1f} us a task over {count} tasks of {batch}, "
        f"{costs[precision, 'lstm'][batch] / 1e3:.1f} us a step (asked for: 97 %; the paper: 87 %)"
    )


def added(bench, precision, costs, overheads):
    scale = bench.scale
    batch = scale.small_batch
    task, count = makespan(bench, f"added-{precision}", precision, batch, batch * scale.full_rounds)
    us = (task - costs[precision, "lstm"][batch]) / 1e3
    rows = {name: overheads.get(name, {}).get(batch) for name in ("task", "gather")}
    rows = ", ".join(f"{name} {ns / 1e3:.2f} us" for name, ns in rows.items() if ns is not None)
    return us <= ADDED_US, (
        f"{us:.2f} us are added to a task at batch {batch}, over {count} tasks (in the profile: {rows}; asked for: at most 5; "
        "the paper: 65)"
    )


def torch_steps(bench, costs):
    scale = bench.scale
    asked = json.dumps({"hidden": scale.hidden, "batches": list(scale.batches), "precisions": list(scale.step_precisions)})
    call = bench.call(TORCH, asked, program=sys.executable)
    if call.code != 0:
        raise Skip(call.last_words())
    found = json.loads(call.stdout)
    lines = []
    for precision, ways in found["steps"].items():
        for batch in scale.batches:
            own = costs[precision, "lstm"][batch] / 1e3
            lines.append((precision, batch, f"{own:.1f}", *(f"{ways[way][str(batch)]:.1f}" for way in sorted(ways))))
    ways = sorted(next(iter(found["steps"].values())))
    bench.write("torch.txt", table(("format", "batch", "batchlab us", *(f"{way} us" for way in ways)), lines))
    ahead = sum(float(line[2]) <= min(map(float, line[3:])) for line in lines)
    return True, f"{found['about']}; in {ahead} of {len(lines)} steps batchlab is the fastest (torch.txt has all)"


def run(bench):
    scale = bench.scale
    costs, overheads = {}, {}

    def profiled(precision):
        # Trees and translation in one format are enough to see each kernel.
        cells = ["lstm"] + (["gru", "encoder", "decoder", "leaf", "internal"] if precision == "f32" else [])
        words = [word for cell in cells for word in ("--cell", f"{cell}:{scale.hidden}")]
        table = profile(bench, precision, *words, "--precision", precision, "--vocabulary", scale.vocabulary)
        costs.update({(precision, cell): table[cell] for cell in cells})
        overheads[precision] = {name: rows for name, rows in table.items() if name in ("task", "gather", "launch")}
        steps = ", ".join(f"{batch}: {ns / 1e3:.1f}" for batch, ns in sorted(table["lstm"].items()))
        return True, f"us an LSTM step of {scale.hidden} by batch: {steps}"

    for precision in scale.step_precisions:
        bench.item(f"profile in {precision}", lambda: profiled(precision))
    bench.item("steps against their floors", lambda: against_floors(bench, bench.floors(), costs))
    for precision in scale.step_precisions:
        bench.item(f"full batches of {scale.full_batch} in {precision}", lambda: full_batches(bench, precision, costs))
        bench.item(f"scheduling and gathering in {precision}", lambda: added(bench, precision, costs, overheads[precision]))
    bench.item("PyTorch beside it", lambda: torch_steps(bench, costs))
