"""Real runs and profiles."""

from __future__ import annotations

import pathlib
import threading
import time
from typing import Any

import batchlab as bl
import pytest
from policies import Padded

SCENARIO: dict[str, Any] = {
    "name": "mine",
    "workload": {"model": "lstm", "dataset": "constant:3", "requests": 60},
    "arrivals": {"process": "poisson", "rates": [500]},
    "device": {"workers": 2},
    "policy": [{"kind": "padded", "label": "padded", "max_batch": 8}],
}


def test_a_function_serves_the_requests() -> None:
    seen: list[int] = []
    threads = set()
    lock = threading.Lock()

    def serve(batch: list[bl.ServedRequest]) -> None:
        time.sleep(0.001)
        with lock:
            threads.add(threading.get_ident())
            seen.extend(request.id for request in batch)
        assert all(request.length == 3 and request.payload == -request.id for request in batch)

    run = bl.real(
        SCENARIO, run=serve, payload=lambda id: -id, policies={"padded": SCENARIO["policy"][0], "mine": Padded}
    )
    assert run.failed == 0, run.notes
    assert sorted(seen) == sorted(2 * list(range(60)))
    requests = run.requests("mine", 500)
    assert all(start < finish for start, finish in zip(requests["start_ns"], requests["finish_ns"]))
    assert "valid" in run.summary().columns
    assert pathlib.Path(run.path).exists()
    assert run.notes[-1].startswith("the runs are ")
    # One real run has no spread to compare a difference with.
    compared = bl.compare(
        run, bl.sim(SCENARIO, set={"device.costs": {"cell": ["lstm"], "batch": [1], "ns": [300_000]}})
    )
    assert compared.notes[-1].startswith("the comparison is not usable: ")
    assert set(compared["verdict"]) <= {"unknown", "inside"}


def test_a_function_that_fails_fails_its_requests() -> None:
    def serve(batch: list[bl.ServedRequest]) -> None:
        if any(request.id == 7 for request in batch):
            raise OSError("no network")

    run = bl.real(SCENARIO, run=serve)
    assert run.failed >= 1 and any("no network" in note for note in run.notes)
    assert "failed" in run.requests()["outcome"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"run": 5}, "^run: must be a function, not 5"),
        ({"run": print, "payload": 5}, "^payload: must be a function, not 5"),
        ({"payload": print}, "^payload: .* give one as run=f"),
    ],
)
def test_what_is_no_function_is_refused(wrong: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        bl.real(SCENARIO, **wrong)


@pytest.mark.parametrize("backend", ["python", "sim"])
def test_a_backend_without_function_is_one_of_two(backend: str) -> None:
    with pytest.raises(bl.InputError, match=f'^backend: unknown backend "{backend}"; known: cpu, cuda$'):
        bl.real(SCENARIO, backend=backend)


def test_the_processor_serves_a_policy_in_python() -> None:
    run = bl.real(SCENARIO, policies={"mine": Padded}, set={"workload.hidden": 8, "workload.vocabulary": 50})
    assert run.failed == 0 and len(run.requests()) == 60
    assert any("verified" in note for note in run.notes)


def test_a_profile_is_a_cost_table(tmp_path: pathlib.Path) -> None:
    def work(batch: int) -> None:
        time.sleep(1e-4 * batch)

    costs = bl.profile(work, batches=[1, 4, 8], repeats=2)
    assert costs.columns == ["cell", "batch", "ns", "stddev_ns"] and costs["batch"] == [1, 4, 8]
    assert costs["ns"][0] < costs["ns"][2] and len(costs.noise) >= 3
    assert len(costs.notes) == 1 and costs.notes[0].startswith("the profile is ")
    costs.save(tmp_path / "costs.csv")
    assert (tmp_path / "noise.csv").read_text().startswith("time_ns,")
    run = bl.sim(SCENARIO, set={"device.costs": costs})
    assert run.summary()["completed"] == [60]
    assert bl.profile(work, batches=(size for size in (4, 1)), repeats=1)["batch"] == [1, 4]  # type: ignore[arg-type]
    found = bl.profile(work, repeats=1, largest=4)
    assert found["batch"][0] == 1 and found["batch"][-1] == 4

    wrongs: list[dict[str, Any]] = [{"batches": [1.5]}, {"lengths": [0]}, {"repeats": "x"}, {"largest": 0}]
    for wrong in wrongs:
        with pytest.raises(bl.InputError, match=f"^{next(iter(wrong))}: .* is not a whole number from 1"):
            bl.profile(work, **wrong)

    def fails(batch: int, length: int) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError) as caught:
        bl.profile(fails, batches=[2], lengths=[3])
    assert "batch 2" in caught.value.__notes__[0]


def test_runs_of_two_threads_call_their_own_functions() -> None:
    seen: dict[str, set[str]] = {"one": set(), "two": set()}

    def serve(name: str) -> None:
        def run(batch: list[bl.ServedRequest]) -> None:
            seen[name].update(str(request.payload) for request in batch)

        bl.real(SCENARIO, run=run, payload=lambda id: f"{name} {id}")

    threads = [threading.Thread(target=serve, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {name: {f"{name} {id}" for id in range(60)} for name in seen}
