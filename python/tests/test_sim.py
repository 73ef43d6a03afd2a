"""Studies: arguments, tables, points, files, mistakes, interruptions."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import batchlab as bl
import pytest

SMALL = {"workload.requests": 500, "output.plots": []}

MINE: dict[str, Any] = {
    "name": "mine",
    "workload": {"model": "lstm", "dataset": "constant:3", "requests": 200},
    "arrivals": {"process": "poisson", "rates": [1000, 2000]},
    "device": {"costs": {"cell": ["lstm", "lstm"], "batch": [1, 64], "ns": [1000, 2000]}},
    "policy": [{"kind": "cellular", "label": "A"}, {"kind": "padded", "label": "B"}],
}


@pytest.fixture(scope="module")
def run() -> bl.Run:
    return bl.sim("quickstart", set=SMALL)


def test_the_summary_has_the_columns_of_the_file(tmp_path: pathlib.Path) -> None:
    run = bl.sim("quickstart", set=SMALL, sweep={"device.workers": [1, 2]}, seed=3, replications=2, out=tmp_path)
    summary = run.summary()
    assert summary.columns[:3] == ["policy", "point", "device.workers"]
    file = pathlib.Path(run.path) / "summary.csv"
    header = file.read_text().splitlines()[0].split(",")
    assert sorted(summary.columns) == sorted(header)
    assert len(summary) == 3 * 5 * 2
    assert summary.types["p99_ms"] == "float" and summary.types["completed"] == "int"
    assert summary.types["saturated"] == "bool" and summary.types["device.workers"] == "int"
    assert json.loads((pathlib.Path(run.path) / "run.json").read_text())["seed"] == 3


def test_tables_in_memory_equal_those_of_files(tmp_path: pathlib.Path) -> None:
    memory = bl.sim("quickstart", set=SMALL)
    files = bl.sim("quickstart", set=SMALL, out=tmp_path)
    for table in ("requests", "tasks", "batches"):
        own = getattr(memory, table)("Padded batching", 8000)
        read = getattr(files, table)("Padded batching", 8000)
        assert own.types == read.types
        assert own.rows() == read.rows()
    assert memory.summary().rows() == files.summary().rows()
    written = sorted(str(file.relative_to(memory.path)) for file in pathlib.Path(memory.path).rglob("*.csv"))
    assert written == sorted(str(file.relative_to(files.path)) for file in pathlib.Path(files.path).rglob("*.csv"))
    for name in written:
        assert (pathlib.Path(memory.path) / name).read_bytes() == (pathlib.Path(files.path) / name).read_bytes()


def test_nothing_is_written_before_it_is_asked_for(run: bl.Run) -> None:
    fresh = bl.sim("quickstart", set=SMALL)
    assert fresh._path == ""
    path = fresh.path
    assert (pathlib.Path(path) / "summary.csv").exists()
    del fresh
    assert not pathlib.Path(path).exists()


def test_results_in_memory_need_no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: str) -> str:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    run = bl.sim("quickstart", set=SMALL)
    assert len(run.summary()) == 15 and len(run.requests("Padded batching", 8000)) == 500
    with pytest.raises(FileNotFoundError):
        run.path  # noqa: B018


def test_the_slowest_request_is_explained_by_its_rank(run: bl.Run) -> None:
    assert str(run.explain("Padded batching", 8000, request="worst")).startswith("request ")
    with pytest.raises(bl.InputError, match="neither a number"):
        run.explain("Padded batching", 8000, request="slow")


def test_points_are_found_or_listed(run: bl.Run) -> None:
    assert len(run.requests("Padded batching", 8000)) == 500
    assert len(run.requests("Padded batching", "8000")) == 500
    with pytest.raises(KeyError, match="no such point") as caught:
        run.requests("Padded batching", 8001)
    assert "'Padded batching', 8000" in str(caught.value)
    with pytest.raises(KeyError, match="several points are meant"):
        run.requests("Padded batching")
    with pytest.raises(KeyError, match="the replications are 0 to 0"):
        run.requests("Padded batching", 8000, replication=1)
    swept = bl.sim("quickstart", set=SMALL, sweep={"device.workers": [1, 2]}, replications=2)
    with pytest.raises(KeyError, match="device.workers=2"):
        swept.requests("Padded batching", 8000)
    one = swept.requests("Padded batching", 8000, sweep={"device.workers": 2})
    other = swept.requests("Padded batching", 8000, replication=1, sweep={"device.workers": 2})
    assert one["arrival_ns"] != other["arrival_ns"]
    assert len(swept.tasks("Padded batching", 8000, replication=1, sweep={"device.workers": 2})) > 0


def test_files_lack_later_replications_which_are_run_again(tmp_path: pathlib.Path) -> None:
    options: Any = {"set": SMALL, "sweep": {"device.workers": [1, 2]}, "replications": 2}
    written = bl.sim("quickstart", out=tmp_path, **options)
    kept = bl.sim("quickstart", **options)
    for name in ("requests", "tasks", "batches"):
        for replication in (0, 1):
            rows = [
                getattr(run, name)(
                    "Cellular batching", 8000, replication=replication, sweep={"device.workers": 2}
                ).rows()
                for run in (written, kept)
            ]
            assert rows[0] == rows[1] and rows[0]


def test_logs_that_the_scenario_does_not_keep() -> None:
    run = bl.sim("quickstart", set={**SMALL, "output.tasks": False})
    with pytest.raises(KeyError, match="logs no tasks"):
        run.tasks("Padded batching", 8000)


def test_a_dict_is_a_scenario() -> None:
    run = bl.sim(MINE)
    assert run.name == "mine" and len(run.summary()) == 4
    assert run.requests("A", 1000)["length"] == [3] * 200
    resolved = bl.scenario(MINE)
    assert resolved["workload"]["requests"] == 200 and resolved["device"]["workers"] == 1
    # The resolved scenario is one again.
    resolved["device"]["costs"] = MINE["device"]["costs"]
    for policy in resolved["policy"]:
        policy.pop("costs")
    assert bl.sim(resolved).summary()["p99_ms"] == run.summary()["p99_ms"]


def test_mistakes_name_the_key_and_no_line() -> None:
    def message(scenario: Any, **options: Any) -> str:
        with pytest.raises(bl.InputError) as caught:
            bl.sim(scenario, **options)
        assert isinstance(caught.value, ValueError)
        return str(caught.value)

    wrong = {**MINE, "device": {**MINE["device"], "wrkers": 2}}
    assert message(wrong).startswith("scenario: device.wrkers: unknown key; did you mean workers?")
    assert "--set device.workers=0" in message("quickstart", set={"device.workers": 0})
    assert "nothing built in has that name" in message("quickstrt")
    assert "policies" in message({**MINE, "policy": []}) or "policy" in message({**MINE, "policy": []})
    with pytest.raises(TypeError, match="must be a list of values"):
        bl.sim("quickstart", sweep={"device.workers": 2})  # type: ignore[dict-item]
    with pytest.raises(bl.InputError, match="the seed is swept"):
        bl.sim("quickstart", sweep={"seed": [1, 2]}, seed=1)
    assert message("quickstart", threads=0) == "threads: 0 is not a whole number from 1 to 1024"
    assert message("quickstart", seed=-1).startswith("seed: -1 is not a whole number from 0")
    assert message("quickstart", replications=True).startswith("replications: True is not")
    assert message("quickstart", replications=1.5).startswith("replications: 1.5 is not")


def test_costs_may_be_a_function_or_a_frame() -> None:
    asked: list[tuple[str, int, int]] = []

    def costs(cell: str, batch: int, length: int) -> float:
        asked.append((cell, batch, length))
        return 1000 + 10 * batch

    policies = {"A": {"kind": "cellular", "max_batch": 16}}
    scenario = {**MINE, "device": {}}
    run = bl.sim(scenario, set={"device.costs": costs}, policies=policies)
    assert sorted(asked) == [("lstm", batch, 0) for batch in range(1, 17)]
    tasks = run.tasks("A", 2000)
    assert len(tasks) > 0
    import pandas

    frame = pandas.DataFrame(
        {"cell": "lstm", "batch": range(1, 17), "ns": [1000 + 10 * batch for batch in range(1, 17)]}
    )
    same = bl.sim(scenario, set={"device.costs": frame}, policies=policies)
    assert same.requests("A", 2000).rows() == run.requests("A", 2000).rows()
    rows = frame.to_dict("records")
    same = bl.sim(scenario, set={"device.costs": rows}, policies=policies)
    assert same.requests("A", 2000).rows() == run.requests("A", 2000).rows()


@pytest.mark.parametrize(
    ("costs", "problem"),
    [
        ({"cell": ["lstm"]}, "has no column batch"),
        ({"cell": ["lstm"] * 2, "batch": [1, 64], "ns": [1000]}, "cell has 2, batch has 2, ns has 1"),
        ([{"cell": "lstm", "batch": 1, "ns": 9}, {"cell": "lstm", "batch": 64}], "row 1 has the keys"),
        (lambda cell, batch, length: -1, "the function gives -1 for lstm, 1, 0"),
    ],
)
def test_wrong_costs_are_refused_with_their_key(costs: Any, problem: str) -> None:
    with pytest.raises(bl.InputError, match=f"^device.costs: .*{problem}"):
        bl.sim(MINE, set={"device.costs": costs})
    policies = {"A": {"kind": "cellular", "max_batch": 16, "costs": costs}}
    with pytest.raises(bl.InputError, match=f"^policy.0.costs: .*{problem}"):
        bl.sim(MINE, policies=policies)


def test_a_text_is_no_list_of_its_letters() -> None:
    with pytest.raises(TypeError, match="^sweep: policy.B.pad_to: must be a list of values"):
        bl.sim(MINE, sweep={"policy.B.pad_to": "longest"})
    with pytest.raises(TypeError, match="^over: pad_to: must be a list of values"):
        bl.tune(MINE, policy="B", slo="50ms", over={"pad_to": "longest"})
    with pytest.raises(TypeError, match="^device.costs: cell: must be a list of values"):
        bl.sim(MINE, set={"device.costs": {"cell": "lstm", "batch": [1], "ns": [1]}})


def test_numbers_and_arrays_of_numpy_are_values() -> None:
    import numpy

    rates: Any = numpy.array([1000, 2000])
    seed: Any = numpy.int64(3)
    run = bl.sim(MINE, set={"arrivals.rates": rates}, sweep={"device.workers": rates // 1000}, seed=seed)
    same = bl.sim(MINE, set={"arrivals.rates": [1000, 2000]}, sweep={"device.workers": [1, 2]}, seed=3)
    assert run.summary().rows() == same.summary().rows()


def test_missing_lengths_of_pandas_are_no_lengths() -> None:
    import pandas

    frame = pandas.DataFrame({"cell": "lstm", "input": [None, float("nan")], "batch": [1, 64], "ns": [1000, 2000]})
    assert bl.sim(MINE, set={"device.costs": frame}).summary().rows() == bl.sim(MINE).summary().rows()


def test_tables_go_to_other_libraries(run: bl.Run) -> None:
    import polars

    table = run.requests("Padded batching", 8000)
    frame = table.to_polars()
    assert frame.shape == table.shape and frame["finish_ns"].to_list() == table["finish_ns"]
    pandas = table.to_pandas()
    assert list(pandas.columns) == table.columns
    assert pandas["arrival_ns"].dtype == "int64" and pandas["outcome"].dtype == "category"
    assert pandas["finish_ns"].tolist() == table["finish_ns"]
    assert polars.DataFrame(run.summary()).height == 15
    text = repr(table)
    assert text.splitlines()[0].split() == table.columns and "[500 rows, 8 columns]" in text
    assert run.summary()._repr_html_().startswith("<table>")
    with pytest.raises(KeyError, match="the columns are id, arrival_ns"):
        table["start"]


def test_missing_values_are_none(run: bl.Run) -> None:
    rejects = bl.sim("quickstart", set={**SMALL, "device.max_waiting": 3})
    table = rejects.requests("No batching", 16000)
    assert None in table["finish_ns"] and set(table["outcome"]) == {"served", "rejected"}
    frame = table.to_pandas()
    assert str(frame["finish_ns"].dtype) == "Int64" and frame["finish_ns"].isna().sum() == table["finish_ns"].count(
        None
    )


def test_lists() -> None:
    assert "quickstart" in bl.scenarios()["name"]
    assert "cellular" in bl.policies()["kind"]
    assert bl.time_ns("2ms") == 2_000_000
    with pytest.raises(ValueError):
        bl.time_ns("2")


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    run = bl.sim("quickstart", set=SMALL)
    run.plot("latency-throughput")
    run.explain("Padded batching", 8000, request=17)
    bl.find_knee("quickstart", slo="50ms", tolerance=0.1, replications=2, max_requests=5000)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("slow", ["requests", "policy"])
def test_ctrl_c_interrupts_at_any_time(slow: str) -> None:
    class Loops(bl.Policy):
        def schedule(self, dispatch: bl.Dispatch) -> None:
            while True:
                pass

    policies = {"mine": Loops} if slow == "policy" else None
    set = {"workload.requests": 3_000_000, "output.plots": []} if slow == "requests" else SMALL
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.4, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bl.sim("quickstart", set=set, policies=policies)
    # The target is 0.2 s on a machine that does nothing else.
    assert time.monotonic() - sent[0] < 2
    # The next call works.
    assert len(bl.sim("quickstart", set=SMALL).summary()) == 15


def test_the_command_is_the_program(tmp_path: pathlib.Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "batchlab", *arguments], capture_output=True, text=True, cwd=tmp_path
        )

    version = command("--version")
    assert version.returncode == 0 and version.stdout.startswith("batchlab 0.1.0")
    help = command("sim", "--help")
    assert help.returncode == 0 and "--replications" in help.stdout
    wrong = command("sim", "quickstrt")
    assert wrong.returncode == 2 and wrong.stderr.startswith("batchlab: quickstrt: cannot be read")
    done = command("sim", "quickstart", "--set", "workload.requests=200", "--quiet")
    assert done.returncode == 0 and (tmp_path / "results/sim/quickstart/summary.csv").exists()


def test_import_is_fast_and_imports_little() -> None:
    code = (
        "import sys, batchlab; print(sorted(m for m in sys.modules if m in ('numpy', 'pandas', 'inspect', 'tempfile')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
