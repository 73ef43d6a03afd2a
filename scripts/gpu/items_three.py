"""Cellular batching, graph batching and DVABatch on one trace at equal loads."""

from bench import Skip, table
from read import behind, by_load, late_points, peaks

SCENARIO = """name = "three-ways"

[workload]
model      = "lstm"
hidden     = {hidden}
vocabulary = {vocabulary}
dataset    = "traces/europarl-en.csv"
max_length = 100
requests   = {requests}

[arrivals]
process = "poisson"
rates   = [1000]

[device]
precision = "{precision}"

[[policy]]
kind      = "cellular"
label     = "cellular"
max_batch = 512

[[policy]]
kind         = "padded"
label        = "padded"
bucket_width = 10
max_batch    = 512

[[policy]]
kind      = "dvabatch"
label     = "dvabatch"
policy    = "load"
steps     = 10
max_batch = 512

[output]
plots = []
"""

# Loads in percent of what the slowest of the three serves at most, so that all three settle.
LOADS = (30, 60, 90)


def judged(bench, precision):
    scale = bench.scale
    path = bench.folder / f"three-{precision}.toml"
    path.write_text(
        SCENARIO.format(hidden=scale.hidden, vocabulary=scale.vocabulary, requests=scale.three_requests, precision=precision)
    )
    rows, _ = bench.real(
        path, f"three-peak-{precision}", "arrivals={ process = 'offline' }", "metrics.warmup=none", *scale.settings
    )
    most = peaks(rows)
    rates = ", ".join(f"{percent / 100 * min(most.values()):.3g}" for percent in LOADS)
    rows, _ = bench.real(path, f"three-{precision}", f"arrivals.rates=[{rates}]", *scale.settings)
    figures = {name: by_load(rows, f"{name}_ms") for name in ("p50", "p90", "p99")}
    lines = [
        (f"{load:.0f}", policy, *(f"{figures[name].get(load, {}).get(policy, float('nan')):.3f}" for name in figures))
        for load, policies in figures["p90"].items()
        for policy in policies
    ]
    bench.write(f"three-{precision}.txt", table(("req/s", "policy", "p50 ms", "p90 ms", "p99 ms"), lines))
    compared = behind(figures["p90"], "cellular")
    if not compared:
        raise Skip("too few requests for a 90th percentile")
    ratios = ", ".join(f"{1 / ratio:.2f} at {load:.0f} req/s ({best})" for load, ratio, best in compared)
    served = ", ".join(f"{policy} {peak:.0f}" for policy, peak in most.items())
    late = late_points(rows)
    return all(ratio <= 1 for _, ratio, _ in compared), (
        f"p90 of the best other over that of cellular batching: {ratios}; requests/s at most: {served}"
        + (f"; not valid: {', '.join(late)}" if late else "")
    )


def run(bench):
    for precision in bench.scale.step_precisions[:2]:
        bench.item(f"three ways in {precision}", lambda: judged(bench, precision))
