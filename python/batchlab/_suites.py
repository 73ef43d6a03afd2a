"""The suites that `score` judges by."""

from __future__ import annotations

from typing import Any, NamedTuple


class Suite(NamedTuple):
    """A question, and how it is asked."""

    # What a policy has to be good at.
    question: str
    # The scenario, as `sim` takes it, without policies.
    scenario: dict[str, Any]
    # The built-in policies that a judged one is compared with.
    against: dict[str, dict[str, Any]]
    # Loads in requests per second: what the best built-in policy carries, and what is hard and too much for it.
    rates: list[int]
    # The latency within which a request counts; classes may have their own.
    slo: str
    # Whether policies see the lengths of requests.
    sees_lengths: bool = True

    def document(self, name: str) -> dict[str, Any]:
        """The scenario with its loads and its objective."""
        return {
            **self.scenario,
            "name": f"suite-{name}",
            "arrivals": {**self.scenario["arrivals"], "rates": self.rates},
            "metrics": {"slo": self.slo},
            "output": {"plots": []},
        }


NO_TASK_TIME = {"task_ns": 0}
CELLULAR = {"kind": "cellular", "max_batch": 512}
PADDED = {"kind": "padded", "bucket_width": 10, "overhead": NO_TASK_TIME}
ONE_BUCKET = {"kind": "padded", "bucket_width": 1000, "pad_to": "longest", "overhead": NO_TASK_TIME}
DEVICE = {"costs": "scenarios/costs/v100.csv"}
SENTENCES = {"model": "lstm", "dataset": "traces/europarl-en.csv", "requests": 8000}


def _scenario(
    workload: dict[str, Any],
    process: dict[str, Any] | None = None,
    *,
    workers: int = 1,
    classes: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    scenario: dict[str, Any] = {
        "workload": workload,
        "arrivals": {"process": "poisson", **(process or {})},
        "device": {**DEVICE, "workers": workers},
    }
    if classes:
        scenario["class"] = classes
    return scenario


SUITES = {
    "lengths": Suite(
        "Which sentences, or which steps of them, belong together, if all lengths are known?",
        _scenario(SENTENCES),
        {"cellular": CELLULAR, "padded": PADDED},
        [16000, 21000, 25000],
        "50ms",
    ),
    "blind": Suite(
        "When does a batch start, and with whom, if no length is known?",
        _scenario(SENTENCES),
        {"padded": ONE_BUCKET, "triton": {"kind": "triton", "max_batch": 512, "max_queue_delay": "2ms"}},
        [4000, 6000, 8000],
        "100ms",
        sees_lengths=False,
    ),
    "bursts": Suite(
        "What is served first when four times as many requests arrive for a while?",
        _scenario(SENTENCES, {"process": "mmpp", "ratio": 4.0, "low": "100ms", "high": "25ms"}),
        {"cellular": CELLULAR, "padded": PADDED},
        [12000, 16000, 20000],
        "40ms",
    ),
    "diurnal": Suite(
        "Does one policy serve quiet hours at low latency and busy ones at high throughput?",
        _scenario(SENTENCES, {"process": "periodic", "period": "200ms", "pattern": [0.25, 1.0, 1.75, 1.0]}),
        {"cellular": CELLULAR, "padded": PADDED},
        [10000, 14000, 18000],
        "40ms",
    ),
    "deadlines": Suite(
        "Which requests go first if a third is urgent, and which are given up?",
        _scenario(
            SENTENCES,
            classes=[
                {"name": "urgent", "share": 1, "slo": "20ms", "deadline": "20ms", "priority": 1},
                {"name": "patient", "share": 2, "slo": "200ms", "deadline": "200ms"},
            ],
        ),
        {
            "cellular": CELLULAR,
            "symphony": {"kind": "symphony", "max_batch": 512, "target_batch": 128, "overhead": NO_TASK_TIME},
            "clockwork": {"kind": "clockwork", "overhead": NO_TASK_TIME},
        },
        [12000, 18000, 24000],
        "200ms",
    ),
    "trees": Suite(
        "Which nodes of which parse trees belong together?",
        _scenario({"model": "tree-lstm", "dataset": "generator:treebank", "requests": 2000}),
        {
            "cellular": {"kind": "cellular", "max_batch": 64},
            "fold": {"kind": "fold", "max_batch": 64, "overhead": NO_TASK_TIME},
        },
        [6000, 9000, 12000],
        "50ms",
    ),
    "translation": Suite(
        "How do two kinds of cells share the device: the steps of the source, and those of the result?",
        _scenario({"model": "seq2seq", "dataset": "traces/europarl-de-en.csv", "requests": 4000}),
        {
            "cellular": {"kind": "cellular", "max_batch": {"encoder": 512, "decoder": 256}},
            "padded": {**PADDED, "max_batch": 256},
        },
        [2000, 3000, 4000],
        "400ms",
    ),
    "workers": Suite(
        "Which of four workers gets which requests?",
        _scenario({**SENTENCES, "requests": 16000}, workers=4),
        {"cellular": CELLULAR, "padded": PADDED},
        [60000, 80000, 100000],
        "40ms",
    ),
}
