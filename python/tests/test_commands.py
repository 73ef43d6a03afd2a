"""Figures, pages, explanations, searches and comparisons."""

from __future__ import annotations

import pathlib
from typing import Any

import batchlab as bl
import pytest
from policies import Padded

SMALL = {"workload.requests": 500, "output.plots": []}
FAST: dict[str, Any] = {"tolerance": 0.1, "replications": 2, "max_requests": 5000}


@pytest.fixture(scope="module")
def run() -> bl.Run:
    policies = {"mine": Padded, "cellular": {"kind": "cellular", "max_batch": 64}}
    return bl.sim("quickstart", set=SMALL, policies=policies)


def test_figures_show_themselves_and_are_saved(run: bl.Run, tmp_path: pathlib.Path) -> None:
    figure = run.plot("latency-cdf", point=8000, x_scale="log", title="Mine")
    assert figure._repr_svg_().lstrip().startswith(("<svg", "<?xml"))
    for ending, start in (("svg", b"<"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        file = figure.save(tmp_path / f"figure.{ending}")
        assert pathlib.Path(file).read_bytes().startswith(start)
    with pytest.raises(bl.InputError, match="ending"):
        figure.save(tmp_path / "figure.gif")
    with pytest.raises(bl.InputError, match='unknown kind of figure "pie"; known: latency-throughput'):
        run.plot("pie")
    with pytest.raises(bl.InputError, match="--colour"):
        run.plot("latency-cdf", colour="red")
    assert "-5 dB" in run.plot("latency-cdf", point=8000, title="-5 dB").svg


def test_a_page_is_written(run: bl.Run, tmp_path: pathlib.Path) -> None:
    file = run.report(tmp_path / "page.html", title="Mine")
    assert "<title>Mine" in pathlib.Path(file).read_text()


def test_requests_and_tasks_are_explained(run: bl.Run) -> None:
    text = run.explain("mine", 8000, request=17)
    assert "request 17" in text and repr(text) == str(text)
    assert "task 3" in run.explain("cellular", 8000, task=3)
    with pytest.raises(TypeError):
        run.explain("mine", 8000)
    with pytest.raises(bl.InputError, match="^request: -1 is not a whole number"):
        run.explain("mine", 8000, request=-1)


def test_searches_find_rates_workers_and_settings() -> None:
    policies = {"mine": {"class": Padded, "max_batch": 64}, "rust": {"kind": "padded", "max_batch": 64}}
    knee = bl.find_knee("quickstart", slo="50ms", policies=policies, **FAST)
    assert knee["policy"] == ["mine", "rust"] and all(rate > 100 for rate in knee["knee_rps"])
    assert knee["lowest_rps"] == [None, None] and knee["limiting_class"] == [None, None]
    workers = bl.find_workers("quickstart", rate=20_000, slo="50ms", policies=policies, **FAST)
    assert all(1 <= count <= 10 for count in workers["workers"])
    assert all(latency is None or latency > 50 for latency in workers["fewer_latency_ms"])
    tuned = bl.tune("quickstart", policy="mine", over={"max_batch": [4, 64]}, slo="50ms", policies=policies, **FAST)
    assert tuned["policy.mine.max_batch"][0] == 64 and tuned["chosen"] == [True, False]
    with pytest.raises(bl.InputError, match="no policy is labelled"):
        bl.tune("quickstart", policy="yours", slo="50ms", policies=policies)
    with pytest.raises(bl.InputError, match="^resume: runs with policies in Python"):
        bl.tune("quickstart", policy="mine", slo="50ms", policies=policies, resume=True)


def test_runs_are_compared(run: bl.Run) -> None:
    table = bl.compare(run, run)
    assert len(table) > 0 and "policy" in table.columns


def test_labels_are_texts_even_if_they_look_like_numbers_or_comments() -> None:
    policies = {"#2": {"kind": "padded"}, "7": {"kind": "cellular", "max_batch": 64}}
    run = bl.sim("quickstart", set={**SMALL, "arrivals.rates": [4000]}, policies=policies)
    table = bl.compare(run, run)
    assert set(table["policy"]) == {"#2", "7"}
    assert "policy" in table and "polcy" not in table
