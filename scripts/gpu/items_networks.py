"""Networks that a file lists: right answers in stages, whole and operator by operator, and a stage's time beside the roofline."""

import json

from bench import Skip, table
from items_steps import element
from read import describe_verified, missing_answers, peaks, verified

# A stage may take this multiple of the best time of memory and products on this GPU. Matrices of convolutions are written out and
# read again, which the roofline leaves out.
OF_ROOFLINE = 4.0

SCENARIO = """name = "networks"

[workload]
model    = "dnn:{network}"
dataset  = "{dataset}"
requests = {requests}
{max_length}

[arrivals]
process = "offline"

[device]
precision = "{precision}"
roofline  = "{roofline}"

[metrics]
warmup = "none"

[[policy]]
kind      = "dvabatch"
stages    = 4
max_batch = {batch}
comp_wait = "50ms"

[[policy]]
kind      = "lazy"
max_batch = {batch}
comp_wait = "50ms"

[[policy]]
kind         = "padded"
bucket_width = 32
max_batch    = {batch}
pad_to       = "longest"

[[policy]]
kind      = "cellular"
max_batch = {batch}
"""

ROOFLINE = """name = "this GPU, by its floors"
multiprocessors = 1
bandwidth_mb_s = {bandwidth}
launch_ns = 0
latency_ns = 1

[{precision}]
peak_gflops = {peak}
bytes = {bytes}
tiles = [{{ rows = 1, columns = 1, efficiency = 100 }}]
"""


def takes_tokens(network):
    with open(network) as file:
        return any(line.startswith("shape,tokens") for line in file)


def scenario(bench, name, network, precision, roofline):
    scale = bench.scale
    tokens = takes_tokens(network)
    text = SCENARIO.format(
        network=network, requests=scale.network_requests, precision=precision, roofline=roofline, batch=scale.network_batch,
        dataset="traces/glue-rte.csv" if tokens else "constant:fixed",
        max_length=f"max_length = {scale.network_tokens}" if tokens else "",
    )
    path = bench.folder / f"{name}.toml"
    path.write_text(text)
    return path


def answers(bench, network, precision):
    name = f"{network.split('/')[-1].removesuffix('.csv')}-{precision}"
    path = scenario(bench, name, network, precision, "scenarios/devices/h200.toml")
    rows, _ = bench.real(path, name, verify="sample")
    found = verified(bench.host(name))
    missing = missing_answers(rows, found, bench.scale.network_requests)
    if missing:
        return False, missing
    served = ", ".join(f"{policy} {peak:.0f}" for policy, peak in peaks(rows).items())
    return True, f"{len(rows)} policies: {describe_verified(found)}; requests a second: {served}"


def own_roofline(bench, precision):
    """A device file of this GPU's memory and products as they were measured."""
    path = bench.folder / f"roofline-{precision}.toml"
    floors = bench.floors()[precision]
    path.write_text(
        ROOFLINE.format(
            precision=precision, bandwidth=max(1, int(floors.bytes_per_s / 1e6)),
            peak=max(1, int(floors.operations_per_s / 1e9)), bytes=element(precision),
        )
    )
    return path


def stages(bench, network, precision):
    """The times of four stages at the largest batch, measured and by the roofline."""
    scale = bench.scale
    name = f"{network.split('/')[-1].removesuffix('.csv')}-stages-{precision}"
    roofline = own_roofline(bench, precision)
    path, costs = scenario(bench, name, network, precision, roofline), bench.folder / f"costs-{name}.csv"
    tokens = str(scale.network_tokens) if takes_tokens(network) else None
    batch = scale.network_batch
    inputs = ("--inputs", tokens) if tokens else ()
    bench.needed(
        "profile", "--scenario", path, "--backend", "cuda", "--batches", f"1,{batch}", "--repeats", scale.repeats, "-o", costs, *inputs
    )
    shown = ("--batches", f"1,{batch}", "--precision", precision, "--format", "json", *(("--tokens", tokens) if tokens else ()))
    network_of = lambda *words: json.loads(bench.needed("network", network, *shown, *words).stdout)[0]
    best = network_of("--roofline", roofline, "--stages", 4)["stages"]
    at = ",".join(stage["from"] for stage in best[1:])
    measured = network_of("--costs", costs, "--at", at)["stages"]
    us = lambda stage, size: stage["times_ns"][str(size)] / 1e3
    lines = [
        (stage["from"], stage["to"], size, f"{us(stage, size):.1f}", f"{us(floor, size):.1f}", f"{us(stage, size) / us(floor, size):.2f}")
        for size in (1, batch)
        for stage, floor in zip(measured, best)
    ]
    bench.write(f"{name}.txt", table(("from", "to", "batch", "us", "roofline us", "of the roofline"), lines))
    shares = [float(line[-1]) for line in lines if line[2] == batch]
    figures = ", ".join(f"{line[3]} us ({line[-1]} of the roofline)" for line in lines if line[2] == batch)
    return max(shares) <= OF_ROOFLINE, f"stages at batch {batch}: {figures}; asked for: at most {OF_ROOFLINE}"


def shipped(bench):
    """The scenario that is shipped for real stages."""
    rows, _ = bench.real("scenarios/dvabatch/real.toml", "real", f"workload.requests={bench.scale.network_requests}", verify="all")
    found = verified(bench.host("real"))
    done = all(int(row["completed"]) == bench.scale.network_requests for row in rows)
    return done and bool(found), f"{describe_verified(found) if found else 'nothing was verified'}; {len(rows)} runs"


def run(bench):
    scale = bench.scale
    if not scale.networks:
        raise Skip("no networks at this size")
    bench.item("scenarios/dvabatch/real.toml", lambda: shipped(bench), of_times=False)
    for precision in scale.step_precisions[:2]:
        for network in scale.networks:
            file = f"scenarios/networks/{network}.csv"
            bench.item(f"answers of {network} in stages in {precision}", lambda: answers(bench, file, precision), of_times=False)
    for network in scale.networks:
        file, precision = f"scenarios/networks/{network}.csv", scale.step_precisions[0]
        bench.item(f"stages of {network} in {precision}", lambda: stages(bench, file, precision))
