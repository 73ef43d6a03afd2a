"""The tables of a folder as text."""

from common import read_csv


def figures(values):
    """Numbers with three digits, words as they are."""

    def text(value):
        try:
            return f"{float(value):,.4g}" if float(value) < 1000 else f"{float(value):,.0f}"
        except ValueError:
            return str(value)

    return " ".join(text(value) for value in values)


def aligned(title, header, rows):
    """Prints a table whose first column is words and whose others are numbers."""
    cells = [header] + [[row[0], *(figures([value]) for value in row[1:])] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    print(f"\n{title}\n")
    for row in cells:
        print("  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]))


def steps(out):
    rows = read_csv(out / "steps.csv")
    batches = list(dict.fromkeys(row["batch"] for row in rows))
    times = {}
    for row in rows:
        times.setdefault((row["system"], row["what"]), {})[row["batch"]] = float(row["median_us"])
    lines = [[f"{system} {what}", *(of.get(batch, "") for batch in batches)] for (system, what), of in times.items()]
    own = [of for (system, _), of in times.items() if system == "batchlab"]
    peers = [of for (system, _), of in times.items() if system != "batchlab"]
    if own:
        best = {batch: min(of[batch] for of in peers) for batch in batches}
        lines.append(["best peer / batchlab", *(best[batch] / own[0][batch] for batch in batches)])
    aligned("One LSTM step, median µs by batch size", ["", *batches], lines)


def knees(out, workload, title):
    rows = read_csv(out / f"{workload}-knees.csv")
    best = {}
    for row in rows:
        key = row["target_ms"], row["system"]
        if key not in best or float(row["rate"]) > float(best[key]["rate"]):
            best[key] = row
    columns = ["max_batch", "rate", "p50_ms", "p90_ms", "p99_ms"]
    for target in dict.fromkeys(row["target_ms"] for row in rows):
        lines = [[system, *(row[key] for key in columns)] for (at, system), row in best.items() if at == target]
        aligned(f"{title}: the highest rate with p99 within {target} ms", ["", "batch", "requests/s", "p50 ms", "p90 ms", "p99 ms"], lines)


def rates(out, workload, title):
    """Latencies at the rates at which all systems ran."""
    rows = [row for row in read_csv(out / f"{workload}-runs.csv") if row["rate"] != "all at once"]
    variants = {(row["system"], row["max_batch"]) for row in rows}
    by_rate = {}
    for row in rows:
        by_rate.setdefault(row["rate"], {})[row["system"], row["max_batch"]] = row
    for rate, of in by_rate.items():
        if set(of) == variants:
            lines = [[f"{system}, batches of {size}", *(row[key] for key in ("p50_ms", "p90_ms", "p99_ms"))] for (system, size), row in of.items()]
            aligned(f"{title}: latency at {rate} requests per second", ["", "p50 ms", "p90 ms", "p99 ms"], lines)


def throughput(out, workload, title):
    rows = read_csv(out / f"{workload}-throughput.csv")
    if rows:
        lines = [[row["system"], row["batch"], row["trees_per_s"], row["trees_per_s_with_building"]] for row in rows]
        aligned(title, ["", "batch", "trees/s", "with building in Python"], lines)


def show(out):
    """Prints what there is."""
    if (out / "steps.csv").exists():
        steps(out)
    for workload, title in (("chains", "Sentences through an LSTM"), ("trees", "Trees through a binary tree-LSTM")):
        knees(out, workload, title)
        rates(out, workload, title)
    throughput(out, "trees", "Trees through a binary tree-LSTM, all there from the start")
    throughput(out, "childsum", "Trees through a child-sum tree-LSTM, all there from the start")
