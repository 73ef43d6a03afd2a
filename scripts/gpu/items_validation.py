"""Simulated runs, on the GPU's own profile, against real ones, in a given time."""

import shutil

from bench import Skip
from read import rows_of, validation

# The share of real figures that are to be within 5 % of the simulated ones or in their intervals.
AGREE = 0.9


def judged(bench, precision, formats):
    scale = bench.scale
    out = bench.folder / precision
    settings = [word for setting in (f"device.precision={precision}", *scale.settings) for word in ("--set", setting)]
    scenarios = [f"scenarios/validate/gpu/{name}.toml" for name in scale.validated]
    # A little is left for the start of the program and the files.
    minutes = scale.validation_minutes or max(0.1, 0.9 * bench.left() / formats / 60)
    call = bench.call("validate", *scenarios, "--backend", "cuda", "--minutes", f"{minutes:.2f}", "--out", out, *settings)
    bench.write(f"{precision}.txt", call.stdout)
    # Logs of all requests are large, and the tables and pictures tell what came of them.
    for folder in ("cuda", "sim"):
        shutil.rmtree(out / folder, ignore_errors=True)
    path = out / "validation.csv"
    if not path.is_file():
        if call.code == 124:
            raise Skip(f"took longer than {call.seconds:.0f} s")
        raise AssertionError(call.last_words())
    found = validation(rows_of(path))
    figures = (
        f"{found['agree']} of {found['figures']} figures are within 5 % or in their interval (asked for: {AGREE:.0%}), {found['inside']} of "
        f"{found['real']} figures of real runs are in their intervals; replay {'100 % equal' if found['same_decisions'] else 'DIFFERENT'}"
    )
    if call.code == 124:
        figures += f"; given up after {call.seconds:.0f} s, so that not all policies have a row"
    elif call.code != 0:
        figures += f"; {call.last_words()}"
    if found["off"]:
        figures += f"; off: {', '.join(found['off'][:6])}"
    enough = found["agree"] >= AGREE * found["figures"]
    return call.code == 0 and found["same_decisions"] and enough, figures


def run(bench):
    precisions = bench.scale.step_precisions[:2]
    for at, precision in enumerate(precisions):
        bench.item(f"simulated against real in {precision}", lambda: judged(bench, precision, len(precisions) - at))
