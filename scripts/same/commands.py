"""The commands that same-results.sh runs with both builds."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
JSON = ["--format", "json"]
KINDS = ("latency-throughput p50-throughput p99-throughput throughput-rate latency-rate goodput queue-cdf compute-cdf latency-cdf length-cdf "
         "batch-histogram bars").split()  # latency-steps and gantt want results of their own

SAMPLES = {  # small files in the formats that `trace import` reads
    "azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n",
    "burstgpt.csv": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
                    "45,ChatGPT,1087,230,1317,Conversation log\n",
    "plain.csv": "arrival_s,length_in,length_out\n0.5,10,4\n0.75,3,8\n1.5,20,1\n",
    "sentences.txt": "one two three\na much longer sentence of eight words here\nshort\n",
    "parents.txt": "3 3 0\n2 0 2\n5 4 5 5 0\n0\n",
    "treebank.txt": "(3 (2 It) (4 (2 's) (4 good)))\n(1 (1 (2 Not) (3 really)) (2 .))\n",
    "conllu.txt": "1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tworks\twork\tVERB\t_\t_\t0\troot\t_\t_\n\n1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\t_\n\n",
}


def simulate(side):
    """All scenarios that the simulator takes. Those for real time get measured costs."""
    requests = 1000 if side.quick else 2000
    for file in sorted((ROOT / "scenarios").rglob("*.toml")):
        name = file.relative_to(ROOT)
        if "devices" in name.parts or "llms" in name.parts:
            continue
        sets = [] if re.search(r"(?m)^trace\s*=", file.read_text()) else ["--set", f"workload.requests={requests}"]
        out = "out/sim"
        if "validate" in name.parts:
            sets += ["--set", f"device.costs=results/reference/validation/costs-{file.stem}.csv"]
            out = "out/sim-gpu" if "gpu" in name.parts else out
        elif name.name == "real.toml":
            sets += ["--set", "device.roofline=scenarios/devices/titan-rtx.toml"]
        side.run("sim", name, *sets, "--out", out, *(JSON if len(file.stem) % 2 else []))


def variants(side):
    """The first scenario with other arrivals, devices and outputs; replications, and going on with a run."""
    few = ["--set", "workload.requests=1500"]

    def quickstart(name, *sets, more=()):
        options = [word for key in sets for word in ("--set", key)]
        side.both("sim", "scenarios/quickstart.toml", *few, *options, *more, "--out", f"out/{name}")

    rates = "arrivals.rates=[2000, 9000]"
    quickstart("seed", rates, more=["--seed", "7"])
    quickstart("replications", rates, more=["--replications", "3"])
    quickstart("workers", rates, "device.workers=2", "output.timeline=true", "metrics.warmup=100")
    quickstart("waiting", rates, "device.max_waiting=50", "overhead.task_ns=20000")
    quickstart("gamma", rates, 'arrivals.process="gamma"', "arrivals.cv=3")
    quickstart("uniform", rates, 'arrivals.process="uniform"', "metrics.warmup=0")
    costs = "scenarios/costs/v100.csv"
    for name, arrivals, dataset in [
        ("mmpp", 'process = "mmpp"\nrates = [3000]\nratio = 5\nlow = "200ms"\nhigh = "50ms"', "traces/europarl-en.csv"),
        ("steps", 'process = "stepping"\nfrom = 1000\nto = 12000\nsteps = 6', "traces/europarl-en.csv"),
        ("offline", 'process = "offline"', "constant:24"),
        ("closed", 'process = "closed"\nclients = [8, 64]', "generator:paper-lstm"),
    ]:
        policies = "".join(f'[[policy]]\nkind = "{kind}"\n' for kind in ("cellular", "late", "padded", "merged", "immediate", "lazy"))
        (side.folder / f"in/{name}.toml").write_text(
            f'name = "{name}"\n[workload]\nmodel = "lstm"\ndataset = "{dataset}"\nrequests = 2000\n[arrivals]\n{arrivals}\n[device]\ncosts = "{costs}"\n'
            f'[metrics]\nslo = "50ms"\n{policies}')
        side.both("sim", f"in/{name}.toml", "--out", "out/variants")
    part = ["sim", "scenarios/quickstart.toml", *few, "--out", "out/resumed"]
    side.run(*part, "--set", "arrivals.rates=[1000]")
    side.run(*part, "--set", rates, "--resume")
    side.run(*part, "--set", "arrivals.rates=[1000, 2000]", "--resume", "--threads", "1")


def results(side):
    """plot, compare and explain on what the simulator left."""
    for kind in KINDS:
        side.run("plot", "out/sim/quickstart", "--kind", kind, "--format", "both", "-o", f"out/plots/{kind}")
    side.run("plot", "out/variants/steps", "--kind", "latency-steps", "-o", "out/plots/latency-steps")
    side.run("plot", "out/sim/fig5", "--kind", "gantt", "-o", "out/plots/gantt")
    side.run("plot", "out/sim/quickstart", "--kind", "gantt", "--first", "40", "--point", "4000", "-o", "out/plots/first")
    side.run("plot", "out/sim/quickstart", "out/workers/quickstart", "--slo", "50ms", "--y-scale", "linear", "-o", "out/plots/two")
    side.run("plot", "out/sim/three-ways", "--bars", "true", "--title", "Three", "--format", "png", "-o", "out/plots/bars-on")
    side.run("plot", "out/sim/fig9", "--kind", "queue-cdf", "--tail", "-o", "out/plots/tail")
    side.run("plot", "traces/europarl-en.csv", "traces/europarl-en-1k.csv", "--kind", "length-cdf", "-o", "out/plots/lengths")
    side.both("compare", "out/replications/quickstart", "out/workers/quickstart", "--out", "out/compare/a")
    side.both("compare", "out/sim/quickstart", "out/sim/quickstart", "--out", "out/compare/b")
    for n, point in enumerate(side.points("out/sim/*/*/*") + side.points("out/variants/*/*/*")):
        if n % 2 == 0 or not side.quick:
            side.run("explain", point, "request", 2, *(JSON if n % 3 == 0 else []))
        if n % 2 == 1 or not side.quick:
            side.run("explain", point, "task", 1, *(JSON if n % 3 == 0 else []))


def traces(side):
    gen = ["trace", "gen", "--requests", "500", "--rate", "800"]
    side.run(*gen, "--dataset", "traces/europarl-en.csv", "-o", "out/lstm.csv")
    side.run(*gen, "--dataset", "traces/europarl-de-en.csv", "--model", "seq2seq", "--process", "gamma", "--cv", "2", "-o", "out/seq2seq.csv")
    side.run(*gen, "--dataset", "generator:treebank", "--model", "tree-lstm", "--max-length", "30", "-o", "out/trees.csv")
    side.run(*gen, "--dataset", "generator:treebank", "--model", "childsum-tree-lstm", "--seed", "3", "-o", "out/childsum.csv")
    side.run(*gen, "--dataset", "traces/glue-rte.csv", "--model", "dnn:scenarios/networks/bert-base.csv", "-o", "out/dnn.csv")
    side.run(*gen, "--dataset", "constant:5", "--process", "mmpp", "--ratio", "4", "--low", "200ms", "--high", "50ms")
    for name in ["out/lstm.csv", "out/seq2seq.csv", "out/trees.csv", "out/childsum.csv", "out/dnn.csv", "traces/europarl-en-1k.csv", "traces/figure5.csv"]:
        side.both("trace", "info", name)
    side.run("trace", "info", "out/lstm.csv", "--window", "100ms")
    for name in SAMPLES:
        stem, ending = name.split(".")
        options = ["--rate", "50", "--format", stem] if ending == "txt" else []
        side.run("trace", "import", f"in/{name}", *options)
        side.run("trace", "import", f"in/{name}", *options, "-o", f"out/imported-{stem}.csv")
    side.run("trace", "import", "in/azure.csv", "--as", "chain")
    for options in (["--rate", "100"], ["--time-scale", "0.5"], ["--skip", "10", "--take", "100", "--max-length", "20"]):
        side.run("trace", "convert", "out/lstm.csv", *options)
    for trees in ("out/childsum.csv", "in/parents.txt"):
        for options in ([], ["--pairs"], ["--batch", "64", "--orders", "5", "--seed", "2"]):
            side.both("jit", "count", trees, *options)


def networks(side):
    devices = sorted(f"scenarios/devices/{f.name}" for f in (ROOT / "scenarios/devices").glob("*.toml"))
    files = sorted(f"scenarios/networks/{f.name}" for f in (ROOT / "scenarios/networks").glob("*.csv"))
    for file in files:
        side.run("network", file)
        for device in devices:
            side.both("network", file, "--roofline", device)
    for options in (["--stages", "4"], ["--preferred", "8"], ["--precision", "f16", "--batch", "3"]):
        side.both("network", files[-1], "--roofline", devices[0], *options)
    side.both("network", "scenarios/networks/bert-base.csv", "--roofline", devices[0], "--tokens", "64")
    for cell in ("lstm", "gru"):
        for hidden, batch in ((256, 1), (256, 20), (1024, 4)):
            for device in ("titan-v", "v100", "titan-rtx", "h200"):
                side.both("grnn", "rank", "--cell", cell, "--hidden", hidden, "--batch", batch, "--device", device)
    side.run("grnn", "rank", "--cell", "gru", "--hidden", 512, "--batch", 10, "--loose", "--top", 30, "--max-tile-width", 128, "--out", "out/rank.csv")
    side.run("policies")


def papers(side):
    """The claims and figures; --quick takes those that are done in a second or two, and others with fewer requests."""
    reproduce = ["reproduce", "-q", "--out", "out/reproduce"]
    side.both(*reproduce, "list")
    for paper in ("jit", "grnn") if side.quick else ("jit", "grnn", "late", "batchmaker"):
        side.run(*reproduce, paper, "claims")
    side.run(*reproduce, "jit", "claims", *JSON)
    side.run("reproduce", "-q", "--out", "out/measured", "grnn", "all", "--measured", "tests/data/grnn-made-up.csv", *JSON)
    if not side.quick:
        side.run(*reproduce, "all", *JSON)
        return
    for figure in ("batchmaker fig3", "batchmaker fig5", "batchmaker fig9", "late fig3", "dvabatch fig3", "dvabatch fig6", "dvabatch fig21"):
        side.both(*reproduce, *figure.split())
    for figure in ("7a", "7b", "8", "10", "11a", "11b", "11c", "13a", "13b", "14", "15"):
        side.run(*reproduce, "batchmaker", f"fig{figure}", "--set", "workload.requests=2000")
    for figure in ("late fig3", "late fig6", "dvabatch fig18"):
        side.run(*reproduce, *figure.split(), "--set", "workload.requests=2500")


def searches(side):
    side.both("find-knee", "scenarios/quickstart.toml", "--set", "workload.requests=3000", "--replications", 2,
              "--max-requests", 20000, "--out", "out/knee")
    side.run("find-knee", "scenarios/graphs/tree.toml", "--slo", "50ms", "--quantile", "p90", "--set", "workload.requests=2000",
             "--max-requests", 4000, "--out", "out/knee")
    side.both("tune", "scenarios/dvabatch/linknet.toml", "--policy", "DelayBatch", "--over", "window=1ms,5ms", "--tolerance", "0.05",
              "--replications", 3, "--set", "workload.requests=3000", "--out", "out/window")
    side.both("find-workers", "scenarios/quickstart.toml", "--rate", 20000, "--set", "workload.requests=3000", "--replications", 2,
              "--max-requests", 20000, "--out", "out/workers")


def real(side):
    """Tiny runs in real time, of which only the shape can be the same; afterwards their files are reduced to that."""
    tiny = ["--set", "workload.requests=120", "--set", "arrivals.rates=[400]", "--set", "output.tasks=true", "--out", "real"]
    small = ["--set", "workload.hidden=32", "--set", "workload.vocabulary=100"]
    side.run("real", "scenarios/validate/chains.toml", *tiny, *small, how="shape")
    side.run("real", "scenarios/validate/trees.toml", *tiny, *small, "--verify", "all", *JSON, how="shape")
    side.run("real", "scenarios/dvabatch/real.toml", *tiny, how="shape")
    for name in ("chains", "trees", "dvabatch-real"):
        side.both("replay", f"real/{name}", how="shape")
    for point in side.points("real/*/*/*"):
        side.run("explain", point, "request", 7, how="shape")
    side.run("compare", "real/chains", "real/chains", "--out", "real/compared", how="shape")
    side.run("profile", "--cell", "lstm:16", "--batches", "1,2", "--repeats", 1, "-q", "-o", "real/costs.csv", how="shape")
    side.both("devices", how="shape")
    for file in sorted((side.folder / "real").rglob("*")):
        if file.suffix == ".csv":
            lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
            rows = len(lines) - 1 if file.name in ("requests.csv", "summary.csv", "costs.csv") else "any"
            file.write_text(f"{lines[0]}\n{rows} rows\n")
        elif file.is_file() and file.name != "run.json":
            file.write_text("there\n")


def mistakes(side):
    """What users get wrong; and the help texts. Exit codes count, wording is reported."""
    good = "scenarios/quickstart.toml"
    texts = {"broken.toml": "name = \n", "unknown.toml": 'name = "x"\n[workload]\nmodle = "lstm"\n', "bad.csv": "id,arrival_ns,shape\n0,0,chain:x\n"}
    for name, text in texts.items():
        (side.folder / "in" / name).write_text(text)
    for args in (
        [], ["simulate"], ["sim"], ["sim", "nowhere.toml"], ["sim", "in/broken.toml"], ["sim", "in/unknown.toml"], ["sim", good, "--sett", "x=1"],
        *(["sim", good, "--out", "wrong", "--set", s] for s in (
            "workload.request=5", "workload.requests=-1", "workload.requests", "workload.model=\"lsmt\"", "device.costs=\"none.csv\"",
            "arrivals.rates=[]", "policy.Unknown.max_batch=2", "metrics.slo=100", "device.workers=0")),
        ["sim", "scenarios/validate/chains.toml", "--out", "wrong"], ["sim", good, "--threads", "0", "--out", "wrong"],
        ["sim", "scenarios/batchmaker/fig5.toml", "--set", "workload.requests=5", "--out", "wrong"], ["sim", "examples/policy-crate/edf.toml"],
        ["real", good, "--set", "device.precision=f16", "--out", "wrong"], ["find-knee", "scenarios/batchmaker/fig5.toml", "--slo", "5ms"],
        ["tune", good, "--policy", "Unknown"], ["find-window", good], ["plot", "nowhere"], ["plot", "out/sim/quickstart", "--kind", "pie"],
        ["plot", "out/sim/quickstart", "--kind", "gantt"], ["plot", "out/sim/quickstart", "--point", "7", "-o", "wrong/p"], ["compare", "out", "nowhere"],
        ["compare", "out/sim/quickstart", "out/sim/fig5", "--out", "wrong"], ["explain", "out/sim/quickstart", "request", "1"],
        ["explain", "out/sim/fig5/nowhere", "task", "1"], ["replay", "out/sim/quickstart"], ["trace", "info", "in/bad.csv"], ["trace", "info", "none.csv"],
        ["trace", "gen", "--dataset", "constant:x", "-n", "5"], ["trace", "import", "in/sentences.txt"], ["reproduce", "batchmaker", "fig99"],
        ["reproduce", "unknown-paper", "claims"], ["reproduce", "list", "--scenarios", "nowhere"], ["network", "none.csv"],
        ["network", "scenarios/networks/vgg19.csv", "--at", "nothing"], ["grnn", "rank", "--cell", "lstm", "--hidden", "7", "--batch", "0"],
        ["grnn", "rank", "--cell", "lstm", "--hidden", "256", "--batch", "4", "--device", "abacus"], ["jit", "count", "traces/europarl-en.csv"],
        ["profile", "--cell", "lstm:no"], ["profile"], ["--version"], ["--help"], *([c, "--help"] for c in (
            "sim real find-knee find-workers tune plot compare profile trace reproduce replay explain validate jit grnn network policies devices").split()),
        *(["trace", c, "--help"] for c in ("gen", "info", "import", "convert")), ["jit", "count", "--help"], ["grnn", "rank", "--help"],
    ):
        side.run(*args, how="wording")


PARTS = (simulate, variants, results, traces, networks, papers, searches, real, mistakes)
