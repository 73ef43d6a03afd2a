"""Persistent kernels (GRNN): the best mapping of each size, the model's regret, and cuDNN beside them."""

import json
import pathlib
import sys

from bench import Skip, table

TORCH = pathlib.Path(__file__).parent / "torch_sequences.py"

# The best of the first five may be so much slower than the best of a sample (GRNN, section 8.3: 1.02 in the mean of nine).
WITHIN_OF_SAMPLE = 1.02
# What the paper has over the better of cuDNN's ways, at hidden 64 and 256 and batches of 10 and 20 (Table 1, LSTM).
OF_PAPER = {(64, 10): 1.14 / 0.23, (64, 20): 1.80 / 0.24, (256, 10): 1.28 / 0.38, (256, 20): 1.98 / 0.49}


def tuned(bench, cell, hidden, batch, steps, *words):
    """What `grnn tune` measures, with how many launches such a batch takes: as many as it needs to fit."""
    for launches in range(1, batch + 1):
        size = ("--cell", cell, "--hidden", hidden, "--batch", -(-batch // launches), "--steps", steps)
        call = bench.call("grnn", "tune", *size, "--again", "--format", "json", *words)
        if call.code == 0:
            return json.loads(call.stdout), launches
        if call.code == 124:
            raise Skip(f"took longer than {call.seconds:.0f} s")
        if "is valid on" not in call.stderr:
            raise AssertionError(call.last_words())
    raise AssertionError(f"no mapping of {cell} with hidden {hidden} is valid for any batch")


def first_five(bench, cell, hidden, batch, found):
    scale = bench.scale
    measured, launches = tuned(bench, cell, hidden, batch, scale.sequence, "--top", 5)
    best = measured["best"]
    found[cell, hidden, batch] = best["ms"] * launches
    mapping = best["mapping"]
    return True, (
        f"{best['ms'] * launches:.3f} ms for {scale.sequence} steps, rank {best['rank']} of {measured['valid']}: {best['kernel']}, tiles of "
        f"{mapping['tile_width']} by {mapping['tile_height']}, {mapping['groups']} groups of {mapping['group_size']}; states as the CPU's"
        + (f"; {launches} launches" if launches > 1 else "")
    )


def fitted(bench):
    """A device file of this GPU, which ranks."""
    path = bench.folder / "fitted.toml"
    call = bench.needed("grnn", "fit", "--device-name", "fitted", "--out", path)
    bench.needed("grnn", "rank", "--cell", "lstm", "--hidden", 256, "--batch", 20, "--device", path)
    (misses,) = [line for line in call.stdout.splitlines() if line.startswith("The fits miss")]
    return True, f"{misses} {path.name} ranks"


def regret(bench, cell, hidden, batch, count, device=()):
    measured, _ = tuned(bench, cell, hidden, batch, bench.scale.sequence, "--top", 5, "--all", count, *device)
    one, five = (1 + measured["regret"][key] for key in ("top_1", "top"))
    return five <= WITHIN_OF_SAMPLE, (
        f"rank 1 takes {one:.3f} and the best of the first five {five:.3f} of the best of {len(measured['measured'])} mappings "
        f"(asked for: {WITHIN_OF_SAMPLE}; the paper: 1.03 and 1.02)"
    )


def beside_cudnn(bench, found):
    scale = bench.scale
    asked = json.dumps({"sizes": list(found), "steps": scale.sequence})
    call = bench.call(TORCH, asked, program=sys.executable)
    if call.code != 0:
        raise Skip(call.last_words())
    theirs = json.loads(call.stdout)
    lines, behind = [], []
    for (cell, hidden, batch), own in found.items():
        ways = theirs["ms"][f"{cell} {hidden} {batch}"]
        ratio = min(ways.values()) / own
        asked_for = max(1.0, OF_PAPER.get((hidden, batch), 1.0) if cell == "lstm" else 1.0)
        if ratio < asked_for:
            behind.append(f"{cell} {hidden}/{batch}")
        figures = (f"{ways[way]:.3f}" for way in sorted(ways))
        lines.append((cell, hidden, batch, f"{own:.3f}", *figures, f"{ratio:.2f}", f"{asked_for:.2f}"))
    ways = sorted(next(iter(theirs["ms"].values())))
    bench.write("cudnn.txt", table(("cell", "hidden", "batch", "batchlab ms", *(f"{way} ms" for way in ways), "times", "asked for"), lines))
    return not behind, (
        f"{theirs['about']}; {len(lines) - len(behind)} of {len(lines)} sizes are as far ahead as the paper's"
        + (f", behind are {', '.join(behind)}" if behind else "") + " (cudnn.txt has all)"
    )


def sequences(bench):
    """Table 1's sizes, and cuDNN beside them."""
    found = {}
    for cell, hidden, batch in bench.scale.persistent:
        bench.item(f"{cell} of {hidden} at batch {batch}", lambda: first_five(bench, cell, hidden, batch, found), of_times=False)
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
            bench.item(f"{name} by its own constants", lambda: regret(bench, cell, hidden, batch, count, ("--device", own)))
