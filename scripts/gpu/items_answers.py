"""The GPUs that are found, and right answers: every cell under four policies, compared with the CPU."""

import json
import shutil

from bench import Skip
from read import describe_verified, missing_answers, verified

# Model, dataset, and the policies that take it.
MODELS = [
    ("lstm", "generator:europarl-en", True),
    ("gru", "generator:europarl-en", True),
    ("seq2seq", "constant:11>13", True),
    ("tree-lstm", "generator:treebank", False),
    ("childsum-tree-lstm", "generator:treebank", False),
]

SCENARIO = """name = "answers"

[workload]
model      = "{model}"
hidden     = {hidden}
vocabulary = {vocabulary}
dataset    = "{dataset}"
requests   = {requests}
{max_length}

[arrivals]
process = "offline"

[device]
workers   = {workers}
precision = "{precision}"
{device}

[[policy]]
kind      = "cellular"
max_batch = 64

[[policy]]
kind      = "cellular"
label     = "cellular, small batches"
max_batch = 3
max_tasks = 2

[[policy]]
kind      = "merged"
max_batch = 16

[[policy]]
kind = "immediate"
"""

PADDED = """
[[policy]]
kind         = "padded"
bucket_width = 10
max_batch    = 16
"""

CHUNKS = """
[[policy]]
kind      = "cellular"
label     = "cellular, chunks"
max_batch = 64
max_tasks = 1
chunk     = 4
"""

# By which model persistent kernels are chosen.
PERSISTENT = 'grnn = "scenarios/devices/h200.toml"'


def answers(bench, model, dataset, sequences, precision, workers=1, persistent=False):
    scale = bench.scale
    short = scale.verified_requests < 50
    text = SCENARIO.format(
        model=model, hidden=scale.verified_hidden, vocabulary=scale.verified_vocabulary, requests=scale.verified_requests,
        dataset=dataset, precision=precision, workers=workers,
        max_length="max_length = 9" if short and dataset != "constant:11>13" else "", device=PERSISTENT if persistent else "",
    ) + (PADDED if sequences else "") + (CHUNKS if persistent else "")
    name = f"{model}-{precision}-{workers}" + ("-persistent" if persistent else "")
    path = bench.folder / f"{name}.toml"
    path.write_text(text)

    def judge():
        rows, _ = bench.real(path, name, verify="all" if short else "sample")
        found = verified(bench.host(name))
        missing = missing_answers(rows, found, scale.verified_requests)
        if missing:
            return False, missing
        replay = bench.call("replay", bench.folder / "runs" / name / "answers")
        same = "decided the same again" if replay.code == 0 else f"replay: {replay.last_words()}"
        return replay.code == 0, f"{len(rows)} policies: {describe_verified(found)}; {same}"

    return judge


def devices(bench):
    call = bench.needed("devices")
    bench.write("devices.txt", call.stdout)
    first = next((line for line in call.stdout.splitlines()[1:] if line.strip()), "nothing")
    return True, " ".join(first.split()) + clocks(bench)


def clocks(bench):
    """What the driver's own tool says, where it is there."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    fields = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"
    call = bench.call(f"--query-gpu={fields}", "--format=csv,noheader", program=tool)
    return f"; {fields}: {call.stdout.splitlines()[0]}" if call.code == 0 and call.stdout else ""


def count_of_gpus(bench):
    return len(json.loads(bench.needed("devices", "--format", "json").stdout)[0]["gpus"])


def too_many(bench):
    """One worker more than there are GPUs is a clear mistake."""
    gpus = count_of_gpus(bench)
    path = bench.folder / "too-many.toml"
    path.write_text(
        SCENARIO.format(
            model="lstm", hidden=8, vocabulary=9, requests=4, dataset="constant:2", precision="f32",
            workers=gpus + 1, max_length="", device="",
        )
    )
    call = bench.call("real", path, "--backend", "cuda", "--out", bench.folder / "runs" / "too-many")
    return call.code == 2 and str(gpus) in call.last_words(), call.last_words()


def device_tests(bench):
    """The tests of the device, which otherwise run on stand-ins for its libraries."""
    if bench.tests is None:
        raise Skip("the tests were not brought along; see --tests")
    call = bench.call("--test-threads=1", program=bench.tests, environment={"REAL_GPU": "1"})
    results = [line for line in call.stdout.splitlines() if line.startswith("test result")]
    failed = [line for line in call.stdout.splitlines() if line.endswith("... FAILED")]
    return call.code == 0 and bool(results), "; ".join(failed + results) or call.last_words()


def run(bench):
    bench.item("devices", lambda: devices(bench), of_times=False)
    bench.item("tests of the device", lambda: device_tests(bench), of_times=False)
    for precision in bench.scale.precisions:
        for model, dataset, sequences in MODELS:
            bench.item(f"answers of {model} in {precision}", answers(bench, model, dataset, sequences, precision), of_times=False)
        for model, dataset, sequences in MODELS[:2]:
            judge = answers(bench, model, dataset, sequences, precision, persistent=True)
            bench.item(f"answers of {model} in {precision}, persistent kernels", judge, of_times=False)

    def several():
        gpus = count_of_gpus(bench)
        if gpus < 2:
            raise Skip(f"{gpus} GPU")
        return answers(bench, *MODELS[2], "f32", workers=2)()

    bench.item("answers on two GPUs", several, of_times=False)
    bench.item("more workers than GPUs are refused", lambda: too_many(bench), of_times=False)
