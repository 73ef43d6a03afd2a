"""The paper's three workloads on one GPU: what each policy serves at most, and its latency at half load. And chunks of steps in persistent
kernels beside single steps."""

from bench import Skip, table
from read import late_points, peaks, rows_of

# Scenario, and the ratio by which the paper's cellular batching is ahead of the best other.
WORKLOADS = [("chains", 1.25), ("seq2seq", 1.6), ("trees", 1.8)]


def offline(bench, name, precision):
    rows, _ = bench.real(
        f"scenarios/validate/gpu/{name}.toml", f"{name}-peak-{precision}", "arrivals={ process = 'offline' }",
        f"workload.requests={bench.scale.requests}", f"device.precision={precision}", "metrics.warmup=none",
        *bench.scale.settings,
    )
    return peaks(rows)


def at_rate(bench, name, precision, rate):
    rows, _ = bench.real(
        f"scenarios/validate/gpu/{name}.toml", f"{name}-half-{precision}", f"arrivals.rates=[{rate:.3g}]",
        f"workload.requests={bench.scale.requests}", f"device.precision={precision}",
        "output.plots=['latency-cdf']" if bench.scale.requests > 100 else "output.plots=[]", *bench.scale.settings,
    )
    return rows


def compared(bench, name, ratio, precision):
    most = offline(bench, name, precision)
    others = {policy: peak for policy, peak in most.items() if policy != "cellular"}
    rival = max(others, key=others.get)
    ahead = most["cellular"] / others[rival]
    # Half of what the slower of the two bears, so that both settle.
    rate = 0.5 * min(most["cellular"], others[rival])
    rows = at_rate(bench, name, precision, rate)
    p90 = {row["policy"]: float(row["p90_ms"]) for row in rows if row["p90_ms"]}
    late = late_points(rows)
    if "cellular" not in p90 or rival not in p90:
        raise Skip(f"too few requests for a 90th percentile; peaks: {most}")
    sooner = min(p90[policy] for policy in others if policy in p90) / p90["cellular"]
    lines = [(policy, f"{most[policy]:.0f}", f"{p90.get(policy, float('nan')):.3f}") for policy in most]
    bench.write(f"{name}-{precision}.txt", table(("policy", "peak req/s", f"p90 ms at {rate:.3g} req/s"), lines))
    figures = (
        f"peak {ahead:.2f} times that of {rival} ({most['cellular']:.0f} and {others[rival]:.0f} req/s), p90 at half load "
        f"{sooner:.2f} times shorter ({p90['cellular']:.3f} ms); asked for: {ratio} in both"
    )
    if late:
        figures += f"; the generator was late: {', '.join(late)}"
    return ahead >= ratio and sooner >= ratio, figures


# The batches of a profile up to the 20 of the scenario; kernels are made for each.
UP_TO_20 = (1, 2, 4, 6, 8, 10, 12, 16, 20)


def chunks(bench):
    """Joining at every step, or keeping the weights on chip: on the GPU, and simulated with the times that were profiled there."""
    scenario = "scenarios/compare/cellular-vs-persistent.toml"
    sets = (f"workload.requests={bench.scale.requests}", "device.grnn=scenarios/devices/h200.toml", *bench.scale.settings)
    overridden = [word for setting in sets for word in ("--set", setting)]
    costs = bench.folder / "chunks.csv"
    batches = ",".join(map(str, UP_TO_20))
    bench.needed("profile", "--backend", "cuda", "--scenario", scenario, "--batches", batches, "-o", costs, *overridden)
    offline = ("arrivals={ process = 'offline' }", "metrics.warmup=none", "output.plots=[]")
    rows, _ = bench.real(scenario, "chunks-peak", *offline, *sets)
    most = peaks(rows)
    rates = ", ".join(f"{share * most['Each step']:.3g}" for share in (0.1, 0.5, 0.9))
    loads = (f"arrivals.rates=[{rates}]", "output.plots=[]")
    rows, _ = bench.real(scenario, "chunks", *loads, *sets)
    real = medians(rows)
    out = bench.folder / "runs" / "chunks-simulated"
    simulated = [word for setting in (*loads, f"device.costs={costs}") for word in ("--set", setting)]
    bench.needed("sim", scenario, "--out", out, *overridden, *simulated)
    (summary,) = out.glob("*/summary.csv")
    model = medians(rows_of(summary))
    offered = sorted({load for _, load in real})
    cells = lambda policy: (f"{real[policy, load]} ({model[policy, load]})" for load in offered)
    lines = [(policy, f"{most[policy]:.0f}", *cells(policy)) for policy in most]
    heads = (f"p50 ms at {load:.0f} req/s (simulated)" for load in offered)
    bench.write("chunks.txt", table(("policy", "peak req/s", *heads), lines))
    best = max(most, key=most.get)
    quick = [min(most, key=lambda policy: float(real[policy, load] or "inf")) for load in offered]
    return True, (
        f"the highest peak has {best} ({most[best]:.0f} req/s, each step {most['Each step']:.0f}); the shortest medians have {', '.join(quick)} "
        "(chunks.txt has all, real and simulated)"
    )


def medians(rows):
    return {(row["policy"], float(row["offered_rps"])): row["p50_ms"] for row in rows}


def run(bench):
    for name, ratio in WORKLOADS:
        for precision in bench.scale.step_precisions[:2]:
            bench.item(f"{name} in {precision}", lambda: compared(bench, name, ratio, precision))
    bench.item("chunks in persistent kernels", lambda: chunks(bench))
