"""Simulated runs, on the GPU's own profile, against real ones."""

import shutil

from bench import Skip, rows_of


def judged(bench, name):
    scale = bench.scale
    if name not in scale.validated:
        raise Skip("only in the full form")
    out = bench.folder / name
    settings = [word for setting in scale.settings for word in ("--set", setting)]
    scenario, costs = f"scenarios/validate/gpu/{name}.toml", bench.folder / f"costs-{name}.csv"
    sizes = ("--batches", ",".join(map(str, scale.profiled))) if scale.profiled else ()
    bench.needed(
        "profile", "--scenario", scenario, "--backend", "cuda", "--repeats", scale.repeats, "-o", costs, *sizes, *settings
    )
    call = bench.call(
        "validate", scenario, "--backend", "cuda", "--costs", costs, "--noise", bench.folder / "noise.csv", "--out", out,
        "--loads", ",".join(map(str, scale.loads)), "--repeats", scale.validation_repeats, "--seconds", scale.seconds, *settings,
    )
    bench.write(f"{name}.txt", call.stdout)
    # Logs of all requests are large, and the tables and pictures tell what came of them.
    for folder in ("cuda", "sim"):
        shutil.rmtree(out / folder, ignore_errors=True)
    path = out / "validation.csv"
    if not path.is_file():
        if call.code == 124:
            raise Skip(f"took longer than {call.seconds:.0f} s")
        raise AssertionError(call.last_words())
    rows = rows_of(path)
    bounded = [row for row in rows if row["verdict"]]
    count = lambda word: sum(word in row["verdict"].split(", ") for row in bounded)
    runs, covered = (sum(int(row[column]) for row in bounded) for column in ("real_runs", "real_runs_inside"))
    same = all(row["same_decisions"] == "true" for row in rows)
    off = [
        f"{row['policy']} at {row['load_percent']} %: {row['figure']} {float(row['difference_percent']):+.1f} %"
        for row in bounded
        if row["verdict"] == "outside; off"
    ]
    policies = len({(row["scenario"], row["policy"]) for row in rows})
    figures = (
        f"of {len(bounded)} figures of {policies} policies, {count('agree')} are within 3 % (mean) and 5 % (p99), {count('off')} are not; "
        f"{covered} of {runs} figures of real runs are in their intervals; replay {'100 % equal' if same else 'DIFFERENT'}"
    )
    if call.code == 124:
        figures += f"; given up after {call.seconds:.0f} s, so that not all policies have a row"
    elif call.code != 0:
        figures += f"; {call.last_words()}"
    if off:
        figures += f"; off: {', '.join(off[:6])}"
    return call.code == 0 and same and not off, figures


def of(name):
    """The part that validates one scenario."""

    def run(bench):
        bench.item(f"simulated against real, {name}", lambda: judged(bench, name))

    return run
