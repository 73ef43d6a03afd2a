"""Persistent kernels (GRNN): the best mapping of each size, the model's regret, cuDNN beside them, and the paper's figures with all of that.

What is measured is gathered in measured.csv, beside the parts' archives, for `batchlab reproduce grnn … --measured`; docs/GRNN.md has its columns.
"""

import csv
import json
import pathlib
import sys

from bench import MEASURED, Skip, last_line, table
from read import rows_of

TORCH = pathlib.Path(__file__).parent / "torch_sequences.py"

# The best of the first five may be so much slower than the best of a sample (GRNN, section 8.3: 1.02 in the mean of nine).
WITHIN_OF_SAMPLE = 1.02
# What the paper has over the better of cuDNN's ways, at hidden 64 and 256 and batches of 10 and 20 (Table 1, LSTM).
OF_PAPER = {(64, 10): 1.14 / 0.23, (64, 20): 1.80 / 0.24, (256, 10): 1.28 / 0.38, (256, 20): 1.98 / 0.49}


# Table 2: work groups and their threads, of tiles of 32 by 2, at a hidden size of 256 and a batch of 20.
TABLE_2 = ((128, 2), (64, 4), (32, 8), (16, 16), (8, 32))

# What `grnn tune` says of a batch, a kernel or a mapping that this GPU has no room for.
NO_ROOM = ("is valid on", "valid mappings on", "is not valid on")


def tuned(bench, cell, hidden, batch, steps, *words, file=None, whole=False):
    """What `grnn tune` measures and adds to a file; a batch that does not fit runs in as many launches as it needs, if it may."""
    parts = set()
    for launches in range(1, 2 if whole else batch + 1):
        part = -(-batch // launches)
        if part in parts:
            continue
        parts.add(part)
        size = ("--cell", cell, "--hidden", hidden, "--batch", batch, "--steps", steps, "--launches", launches)
        call = bench.call("grnn", "tune", *size, "--again", "--format", "json", "--out", file or bench.out / MEASURED, *words)
        if call.code == 0:
            return json.loads(call.stdout)[0]
        if call.code == 124:
            raise Skip(f"took longer than {call.seconds:.0f} s")
        if not any(words in call.stderr for words in NO_ROOM):
            raise AssertionError(call.last_words())
    raise Skip(f"this GPU has no room for it: {call.last_words()}")


def fastest_of(measured):
    best, launches = measured["best"], measured["launches"]
    mapping = best["mapping"]
    return (
        f"{best['ms']:.3f} ms for {measured['steps']} steps, rank {best['rank']} of {measured['valid']}: {best['kernel']}, tiles of "
        f"{mapping['tile_width']} by {mapping['tile_height']}, {mapping['groups']} groups of {mapping['group_size']}; states as the CPU's"
        + (f"; {launches} launches" if launches > 1 else "")
    )


def first_five(bench, size, *words):
    return True, fastest_of(tuned(bench, *size, "--top", 5, *words))


def fitted(bench):
    """A device file of this GPU, which ranks."""
    path = bench.folder / "fitted.toml"
    call = bench.needed("grnn", "fit", "--device-name", "fitted", "--out", path)
    bench.needed("grnn", "rank", "--cell", "lstm", "--hidden", 256, "--batch", 20, "--device", path)
    (misses,) = [line for line in call.stdout.splitlines() if line.startswith("The fits miss")]
    return True, f"{misses} {path.name} ranks"


def regret(bench, cell, hidden, batch, count, file=None, device=()):
    measured = tuned(bench, cell, hidden, batch, bench.scale.sequence, "--top", 5, "--all", count, *device, file=file)
    one, five = (1 + measured["regret"][key] for key in ("top_1", "top"))
    return five <= WITHIN_OF_SAMPLE, (
        f"rank 1 takes {one:.3f} and the best of the first five {five:.3f} of the best of {len(measured['measured'])} mappings "
        f"(asked for: {WITHIN_OF_SAMPLE}; the paper: 1.03 and 1.02)"
    )


def of_cudnn(bench, sizes):
    """What PyTorch takes, by size and way, and on what; added to the file of this GPU's times."""
    path = bench.out / MEASURED
    if not path.is_file():
        raise Skip("nothing of batchlab's was measured to stand beside")
    call = bench.call(TORCH, json.dumps({"sizes": sizes}), program=sys.executable)
    if call.code != 0:
        raise Skip(call.last_words())
    theirs = json.loads(call.stdout)
    own = rows_of(path)[0]
    ways = {}
    with open(path, "a", newline="") as file:
        rows = csv.DictWriter(file, own.keys(), restval="", lineterminator="\n")
        for cell, hidden, batch, steps, way, launches, ms in theirs["rows"]:
            row = {key: own[key] for key in ("gpu", "multiprocessors")}
            row |= {"way": way, "cell": cell, "hidden": hidden, "batch": batch, "steps": steps, "ms": f"{ms:.6f}"}
            rows.writerow(row | {"launches": "" if launches is None else launches})
            ways.setdefault((cell, hidden, batch), {})[way] = ms
    return ways, theirs["about"]


def beside_cudnn(bench, found):
    theirs, about = of_cudnn(bench, [[*size, bench.scale.sequence] for size in found])
    lines, behind = [], []
    for (cell, hidden, batch), own in found.items():
        ways = theirs[cell, hidden, batch]
        ratio = min(ways.values()) / own
        asked_for = max(1.0, OF_PAPER.get((hidden, batch), 1.0) if cell == "lstm" else 1.0)
        if ratio < asked_for:
            behind.append(f"{cell} {hidden}/{batch}")
        figures = (f"{ways[way]:.3f}" for way in sorted(ways))
        lines.append((cell, hidden, batch, f"{own:.3f}", *figures, f"{ratio:.2f}", f"{asked_for:.2f}"))
    ways = sorted(next(iter(theirs.values())))
    bench.write("cudnn.txt", table(("cell", "hidden", "batch", "batchlab ms", *(f"{way} ms" for way in ways), "times", "asked for"), lines))
    return not behind, (
        f"{about}; {len(lines) - len(behind)} of {len(lines)} sizes are as far ahead as the paper's"
        + (f", behind are {', '.join(behind)}" if behind else "") + " (cudnn.txt has all)"
    )


def sequences(bench):
    """Table 1's sizes and batch 5, and cuDNN beside them."""
    found = {}

    def fastest(size):
        measured = tuned(bench, *size, bench.scale.sequence, "--top", 5)
        found[size] = measured["best"]["ms"]
        return True, fastest_of(measured)

    for size in bench.scale.persistent:
        cell, hidden, batch = size
        bench.item(f"{cell} of {hidden} at batch {batch}", lambda: fastest(size), of_times=False)
    if found:
        bench.item("cuDNN beside it", lambda: beside_cudnn(bench, found))


def sampled(bench):
    """How good the model's first ones are among all valid mappings."""
    bench.item("constants of this GPU", lambda: fitted(bench), of_times=False)
    own = bench.folder / "fitted.toml"
    for (cell, hidden, batch), count in bench.scale.sampled:
        name = f"regret of {cell} of {hidden} at batch {batch}"
        bench.item(name, lambda: regret(bench, cell, hidden, batch, count))
        if own.is_file():
            # Another ranking, which can't stand in one list with the first.
            file = bench.folder / "by-own-constants.csv"
            bench.item(f"{name} by its own constants", lambda: regret(bench, cell, hidden, batch, count, file, ("--device", own)))


def table_2(bench):
    ranks = []
    for groups, threads in TABLE_2:
        try:
            measured = tuned(bench, "lstm", 256, 20, bench.scale.sequence, "--mapping", f"32,2,{groups},{threads}", whole=True)
        except Skip as skip:
            ranks.append((groups, threads, "-", skip))
        else:
            ranks.append((groups, threads, measured["best"]["rank"], f"{measured['best']['ms']:.3f} ms"))
    run = [row for row in ranks if row[2] != "-"]
    if not run:
        raise Skip(ranks[0][3])
    return True, f"{len(run)} of {len(ranks)} run: " + "; ".join(f"{groups}x{threads} {ms}, rank {rank}" for groups, threads, rank, ms in run)


def shown(bench):
    """All figures of the paper with what was measured, as a page."""
    path = bench.out / MEASURED
    if not path.is_file():
        raise Skip("nothing was measured")
    call = bench.needed("reproduce", "grnn", "all", "--measured", path, "--out", bench.folder / "reproduce", "--quiet")
    return True, f"{last_line(call.stdout)} (reproduce/index.html)"


def figures(bench):
    """What the paper's other tables and figures ask for, and all of them."""
    scale = bench.scale
    for cell, hidden, batch in scale.persistent:
        for kernel in ("gru-single", "gru-double") if cell == "gru" else ():
            size = (cell, hidden, batch, scale.sequence)
            bench.item(f"{kernel} of {hidden} at batch {batch}", lambda: first_five(bench, size, "--kernel", kernel), of_times=False)
    bench.item("mappings of Table 2", lambda: table_2(bench), of_times=False)
    for size in scale.layers:
        cell, hidden, batch, steps = size
        bench.item(f"{cell} of {hidden} at batch {batch}, {steps} steps", lambda: first_five(bench, size), of_times=False)
    if scale.layers:
        bench.item("cuDNN beside these layers", lambda: (True, of_cudnn(bench, scale.layers)[1]), of_times=False)
    bench.item("figures of the paper", lambda: shown(bench), of_times=False)
