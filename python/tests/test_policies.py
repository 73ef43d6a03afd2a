"""Policies in Python: the same results as in Rust, mistakes, exceptions, parameters."""

from __future__ import annotations

import pathlib
from typing import Any

import batchlab as bl
import pytest
from policies import Cellular, Padded

SET = {"workload.requests": 2000, "output.plots": []}
LOGS = ("requests.csv", "tasks.csv", "batches.csv")


def logs(folder: pathlib.Path) -> dict[str, bytes]:
    """The logs of all points below the folder of a policy."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.name in LOGS}


@pytest.mark.parametrize("workers", [1, 3])
def test_padded_is_the_same_as_in_rust(tmp_path: pathlib.Path, workers: int) -> None:
    rust = {"kind": "padded", "bucket_width": 1000, "pad_to": "longest", "max_batch": 64, "overhead": {"task_ns": 0}}
    python = {"class": Padded, "max_batch": 64, "overhead": {"task_ns": 0}}
    run = bl.sim(
        "quickstart", set={**SET, "device.workers": workers}, policies={"rust": rust, "python": python}, out=tmp_path
    )
    folder = pathlib.Path(run.path)
    assert len(logs(folder / "rust")) == 15
    assert logs(folder / "rust") == logs(folder / "python")


def test_cellular_is_the_same_as_in_rust(tmp_path: pathlib.Path) -> None:
    policies = {"rust": {"kind": "cellular", "max_batch": 512}, "python": Cellular}
    run = bl.sim("quickstart", set=SET, policies=policies, out=tmp_path)
    folder = pathlib.Path(run.path)
    assert len(logs(folder / "rust")) == 15
    assert logs(folder / "rust") == logs(folder / "python")


def simulate(policy: Any, **options: Any) -> bl.Run:
    return bl.sim("quickstart", set={**SET, "arrivals.rates": [4000]}, policies={"mine": policy}, **options)


class Base(bl.Policy):
    def __init__(self) -> None:
        self.waiting: list[bl.Request] = []

    def arrive(self, requests: list[bl.Request]) -> None:
        self.waiting += requests


def raised(policy: Any, kind: type[BaseException]) -> BaseException:
    with pytest.raises(kind) as caught:
        simulate(policy)
    return caught.value


def test_an_exception_comes_out_with_one_note_and_its_line() -> None:
    class Broken(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            if len(self.waiting) > 5:
                raise LookupError("my own")

    exception = raised(Broken, LookupError)
    assert exception.args == ("my own",)
    (note,) = exception.__notes__
    assert note.startswith('policy "mine" at 4000: ') and note.endswith("s: in schedule")
    last = exception.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    assert last is not None and last.tb_frame.f_code.co_name == "schedule"


def test_even_sys_exit_comes_out() -> None:
    class Leaves(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            raise SystemExit(3)

    assert raised(Leaves, SystemExit).args == (3,)


def test_mistakes_are_found_at_the_line_of_submit() -> None:
    class Twice(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            if self.waiting:
                dispatch.submit(0, self.waiting[:1])
                dispatch.submit(0, self.waiting[:1])

    exception = raised(Twice, ValueError)
    assert str(exception) == "request 0 is submitted already"
    assert exception.__notes__[0].endswith("in schedule, request 0")

    class Unknown(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            dispatch.submit(99, self.waiting)

    assert str(raised(Unknown, ValueError)) == "there is no worker 99; the workers are 0 to 0"

    class Empty(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            dispatch.submit(0, [])

    assert "the batch is empty" in str(raised(Empty, ValueError))

    class TooLarge(Base):
        max_batch = 2

        def schedule(self, dispatch: bl.Dispatch) -> None:
            if len(self.waiting) > 2:
                dispatch.submit(0, self.waiting)

    assert "max_batch of the policy is 2" in str(raised(TooLarge, ValueError))

    class WrongOrder(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            long = [request for request in self.waiting if request.length > 2]
            if long:
                dispatch.submit_nodes(0, 0, [(long[0], 1)])

    assert "needs its node 0 before node 1" in str(raised(WrongOrder, ValueError))

    class SameBatch(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            long = [request for request in self.waiting if request.length > 2]
            if long:
                dispatch.submit_nodes(0, "lstm", [(long[0], 0), (long[0], 1)])

    assert "which is in the same batch" in str(raised(SameBatch, ValueError))

    class RejectedBefore(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            for request in self.waiting:
                dispatch.reject(request, "no")
                dispatch.submit(0, [request])

    assert "was rejected before" in str(raised(RejectedBefore, ValueError))


def test_a_mistake_that_the_policy_catches_ends_the_run() -> None:
    class Careless(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            for request in self.waiting:
                try:
                    dispatch.submit_nodes(0, 0, [(request, 7)])
                except ValueError:
                    pass

    raised(Careless, ValueError)


def test_a_kept_dispatch_raises() -> None:
    class Keeps(Base):
        kept: bl.Dispatch | None = None

        def schedule(self, dispatch: bl.Dispatch) -> None:
            if self.kept is not None:
                self.kept.submit(0, self.waiting)
            self.kept = dispatch

    assert "lasts for one call of schedule" in str(raised(Keeps, RuntimeError))


def test_simulations_within_a_policy_are_refused() -> None:
    class Nested(Base):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            bl.sim("quickstart")

    assert "can't run simulations" in str(raised(Nested, RuntimeError))


def test_methods_are_called_once_for_an_instant_in_their_order() -> None:
    calls: list[str] = []

    class Watches(Padded):
        def arrive(self, requests: list[bl.Request]) -> None:
            calls.append("arrive")
            super().arrive(requests)

        def complete(self, tasks: list[bl.Task]) -> None:
            calls.append("complete")
            for task in tasks:
                assert all(isinstance(request, bl.Request) for request in task.requests)
                assert task.start < task.finish and task.worker == 0

        def schedule(self, dispatch: bl.Dispatch) -> None:
            calls.append("schedule")
            assert dispatch.workers == 1 and dispatch.unfinished(0) in (0, 1)
            super().schedule(dispatch)

        def wake_at(self) -> int | None:
            calls.append("wake_at")
            return None

    run = simulate(Watches())
    assert run.failed == 0
    text = " ".join(calls)
    assert text.count("schedule wake_at") == text.count("schedule") == text.count("wake_at")
    assert "arrive complete" not in text and "arrive arrive" not in text and "complete complete" not in text


def test_a_policy_is_woken() -> None:
    class Waits(Base):
        """Sends batches every ten milliseconds."""

        next = 10_000_000

        def schedule(self, dispatch: bl.Dispatch) -> None:
            if dispatch.now >= self.next:
                self.next += 10_000_000
                if self.waiting:
                    dispatch.submit(0, self.waiting)
                    self.waiting = []

        def wake_at(self) -> int | None:
            return self.next if self.waiting else None

    tasks = simulate(Waits).tasks()
    assert all(at % 10_000_000 == 0 for at in tasks["submit_ns"][:10])


def test_requests_have_what_a_policy_needs() -> None:
    seen: list[bl.Request] = []

    class Looks(Padded):
        def arrive(self, requests: list[bl.Request]) -> None:
            seen.extend(requests)
            super().arrive(requests)

    run = simulate(Looks)
    first = seen[0]
    assert (first.id, first.priority, first.class_, first.deadline) == (0, 0, None, None)
    assert first.shape == f"chain:{first.length}" and first.nodes == first.length
    assert first.cell(0) == 0 and first.inputs(0) == [] and first.outputs(first.nodes - 1) == []
    with pytest.raises(IndexError):
        first.cell(first.nodes)
    assert run.requests()["arrival_ns"][0] == first.arrival


def test_parameters_are_keys_that_sweeps_reach() -> None:
    run = bl.sim(
        "quickstart",
        set={**SET, "arrivals.rates": [4000], "policy.mine.max_batch": 8},
        sweep={"policy.mine.max_batch": [4, 16]},
        policies={"mine": {"class": Padded, "max_batch": 2}},
    )
    assert max(run.batches("mine", 4000, sweep={"policy.mine.max_batch": 4})["batch"]) == 4
    assert max(run.batches("mine", 4000, sweep={"policy.mine.max_batch": 16})["batch"]) == 16
    with pytest.raises(TypeError, match="unexpected keyword"):
        bl.sim("quickstart", policies={"mine": {"class": Padded, "max_bath": 2}})
    with pytest.raises(TypeError, match="use a factory|through a factory"):
        bl.sim("quickstart", policies={"mine": {"class": Padded, "max_batch": object()}})


@pytest.mark.parametrize("name", ["costs", "kind", "label", "overhead", "source"])
def test_parameters_that_never_get_a_value_are_refused(name: str) -> None:
    space: dict[str, Any] = {"Padded": Padded}
    exec(f"class Mine(Padded):\n    def __init__(self, {name}=1): super().__init__()\n", space)
    exec(f"def make(*, {name}=1): return Padded()\n", space)
    for policy, owner in ((space["Mine"], "Mine"), ({"class": space["Mine"]}, "Mine"), (space["make"], "make")):
        with pytest.raises(bl.InputError, match=f"^{owner}: its parameter '{name}' never gets a value.*rename it$"):
            simulate(policy)
        with pytest.raises(bl.InputError, match=f"its parameter '{name}'"):
            bl.check(policy, cases=1)
    # An object has its parameters already.
    assert simulate(space["Mine"]()).failed == 0


def test_run_json_records_the_class_and_a_hash_and_equal_runs_leave_equal_files(tmp_path: pathlib.Path) -> None:
    import json

    texts = []
    for name in ("a", "b"):
        run = simulate({"class": Padded, "max_batch": 2}, out=tmp_path / name)
        texts.append((pathlib.Path(run.path) / "run.json").read_text())
    assert texts[0] == texts[1]
    (policy,) = json.loads(texts[0])["scenario"]["policy"]
    assert policy["kind"] == "python:Padded" and policy["max_batch"] == 2 and len(policy["source"]) == 16
    with pytest.raises(bl.InputError, match="^resume: runs with policies in Python"):
        simulate(Padded, out=tmp_path / "a", resume=True)


def test_each_point_has_a_fresh_object() -> None:
    made: list[Padded] = []

    def make() -> Padded:
        made.append(Padded())
        return made[-1]

    policies = {"factory": make, "object": Padded(max_batch=8)}
    run = bl.sim("quickstart", set={**SET, "arrivals.rates": [4000, 8000]}, policies=policies, replications=2)
    assert len(made) == 4
    assert max(run.batches("object", 8000)["batch"]) == 8


@pytest.mark.parametrize("threads", [1, 2])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    policies = {"python": Padded, "cellular": {"kind": "cellular", "max_batch": 512}, "other": Cellular}
    run = bl.sim("quickstart", set=SET, policies=policies, threads=threads, replications=2)
    sums = [sum(run.requests(label, 8000)["finish_ns"]) for label in policies]
    one = bl.sim("quickstart", set=SET, policies=policies, threads=1, replications=2)
    assert sums == [sum(one.requests(label, 8000)["finish_ns"]) for label in policies]


def test_two_threads_are_never_slower_by_much() -> None:
    import time

    def seconds(threads: int) -> float:
        best = float("inf")
        for _ in range(3):
            clock = time.perf_counter()
            bl.sim("quickstart", set={**SET, "workload.requests": 5000}, policies={"mine": Padded}, threads=threads)
            best = min(best, time.perf_counter() - clock)
        return best

    # Naively, two threads take twenty times as long.
    assert seconds(2) < 3 * seconds(1)


def test_language_models_and_other_graphs_are_refused() -> None:
    with pytest.raises(bl.InputError, match="serves no language models"):
        bl.sim("one-trace", policies={"mine": Padded})
    with pytest.raises(bl.InputError, match="takes sequences only"):
        bl.sim("batchmaker/fig14", policies={"mine": Padded})


def test_check_runs_the_laws() -> None:
    assert bl.check(Padded, cases=40) > 0

    class Loses(Padded):
        def arrive(self, requests: list[bl.Request]) -> None:
            super().arrive([request for request in requests if request.id % 7 != 6])

    with pytest.raises(bl.LawBroken, match="breaks a law on case"):
        bl.check(Loses, cases=40)

    class Breaks(Padded):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        bl.check(Breaks, cases=40)
    assert "id,arrival_ns,shape" in caught.value.__notes__[0]


@pytest.mark.parametrize("number", [0, -1, 1.5, True, 1 << 32])
def test_check_refuses_wrong_numbers(number: Any) -> None:
    with pytest.raises(bl.InputError, match=f"^cases: {number!r} is not a whole number from 1"):
        bl.check(Padded, cases=number)
    with pytest.raises(bl.InputError, match=f"^max_batch: {number!r} is not a whole number from 1"):
        bl.check(Padded, max_batch=number)


def test_nodes_of_any_graph_are_served_in_order() -> None:
    class Graphs(bl.Policy):
        """Submits each node alone, when its inputs are done."""

        models = "all"

        def __init__(self) -> None:
            self.ready: list[tuple[bl.Request, int]] = []
            self.missing: dict[tuple[int, int], int] = {}

        def arrive(self, requests: list[bl.Request]) -> None:
            for request in requests:
                for node in range(request.nodes):
                    inputs = len(request.inputs(node))
                    self.missing[request.id, node] = inputs
                    if not inputs:
                        self.ready.append((request, node))

        def complete(self, tasks: list[bl.Task]) -> None:
            for task in tasks:
                for request, node in task.members:
                    for after in request.outputs(node):
                        self.missing[request.id, after] -= 1
                        if not self.missing[request.id, after]:
                            self.ready.append((request, after))

        def schedule(self, dispatch: bl.Dispatch) -> None:
            for worker in dispatch.idle():
                if self.ready:
                    request, node = self.ready.pop(0)
                    dispatch.submit_nodes(worker, request.cell(node), [(request, node)])

    assert bl.check(Graphs, pins=False, cases=60) >= 50


def test_what_was_submitted_stays_although_the_policy_goes_on_to_use_its_list() -> None:
    seen: list[int] = []

    class Reuses(bl.Policy):
        def __init__(self) -> None:
            self.waiting: list[bl.Request] = []

        def arrive(self, requests: list[bl.Request]) -> None:
            self.waiting += requests

        def complete(self, tasks: list[bl.Task]) -> None:
            seen.extend(request.id for task in tasks for request in task.requests)

        def schedule(self, dispatch: bl.Dispatch) -> None:
            if dispatch.idle() and self.waiting:
                dispatch.submit(0, self.waiting)
                self.waiting.clear()

    bl.sim("quickstart", set={**SET, "arrivals.rates": [4000]}, policies={"mine": Reuses})
    assert sorted(seen) == list(range(2000))


def test_a_mistake_among_the_members_ends_the_run_although_it_is_caught() -> None:
    class Catches(bl.Policy):
        def arrive(self, requests: list[bl.Request]) -> None:
            self.waiting = requests

        def schedule(self, dispatch: bl.Dispatch) -> None:
            try:
                dispatch.submit(0, [*self.waiting, "no request"])  # type: ignore[list-item]
            except TypeError:
                dispatch.submit(0, self.waiting)

    with pytest.raises((TypeError, ValueError)) as caught:
        bl.sim("quickstart", set={**SET, "arrivals.rates": [4000]}, policies={"mine": Catches})
    assert "in schedule" in caught.value.__notes__[0]
