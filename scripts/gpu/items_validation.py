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
        "validate", scenario, "--backend", "cuda", "--costs", costs, "--out", out, "--loads",
        ",".join(map(str, scale.loads)), "--repeats", scale.validation_repeats, "--seconds", scale.seconds, *settings,
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
    bounded = [row for row in rows if row["judgement"]]
    count = lambda word: sum(row["judgement"] == word for row in bounded)
    same = all(row["same_decisions"] == "true" for row in rows)
    off = [
        f"{row['policy']} at {row['load_percent']} %: {row['figure']} {float(row['difference_percent']):+.1f} %"
        for row in bounded
        if row["judgement"] == "off"
    ]
    policies = len({(row["scenario"], row["policy"]) for row in rows})
    figures = (
        f"{count('ok')} of {len(bounded)} figures of {policies} policies are within 3 % (mean) and 5 % (p99), {count('unclear')} "
        f"within the spread of real runs, {count('off')} outside both; replay {'100 % equal' if same else 'DIFFERENT'}"
    )
    if call.code == 124:
        figures += f"; given up after {call.seconds:.0f} s, so that not all policies have a row"
    elif call.code not in (0, 4):
        figures += f"; {call.last_words()}"
    if off:
        figures += f"; off: {', '.join(off[:6])}"
    # 4: real runs differ so much that some figures are unclear.
    return call.code in (0, 4) and same and not off, figures


def of(name):
    """The part that validates one scenario."""

    def run(bench):
        bench.item(f"simulated against real, {name}", lambda: judged(bench, name))

    return run
