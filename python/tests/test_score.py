"""Scores: suites, what a search learns, and each way in which a policy could cheat."""

from __future__ import annotations

import pathlib
import textwrap
from typing import Any

import batchlab as bl
import pytest
from batchlab import _judged
from batchlab._judge import Failure, Source
from batchlab._suites import SUITES
from policies import Padded

GOOD = """
import batchlab as bl

class FirstCome(bl.Policy):
    max_batch = 512

    def __init__(self):
        self.waiting = []

    def arrive(self, requests):
        self.waiting += requests

    def schedule(self, dispatch):
        for worker in dispatch.idle():
            batch, self.waiting = self.waiting[:512], self.waiting[512:]
            if batch:
                dispatch.submit(worker, batch)
"""


def cheat(lines: str) -> str:
    """A policy that runs these lines first in `schedule`."""
    head = "    def schedule(self, dispatch):\n"
    return GOOD.replace(head, head + textwrap.indent(textwrap.dedent(lines).strip("\n") + "\n", " " * 8))


def simulate(source: str, *, sees_lengths: bool = True, limit_s: float = 30, **options: Any) -> bl.Run:
    judged = Source(source, None, sees_lengths=sees_lengths, limit_s=limit_s, memory=1 << 28)
    changed = {"workload.requests": 300, "arrivals.rates": [4000, 8000], "output.plots": []}
    return bl.sim("quickstart", set=changed, policies={"mine": judged.policy}, threads=1, **options)


def refused(lines: str, *, sees_lengths: bool = True) -> str:
    """The end of a policy that runs these lines."""
    judged = Source(cheat(lines), None, sees_lengths=sees_lengths, limit_s=30, memory=1 << 28)
    changed = {"workload.requests": 300, "arrivals.rates": [4000], "output.plots": []}
    with pytest.raises((Failure, ValueError)):
        bl.sim("quickstart", set=changed, policies={"mine": judged.policy}, threads=1)
    assert judged.failure is not None
    return f"{judged.failure.why}\n{judged.failure.trace}"


def test_a_judged_policy_decides_as_in_one_process() -> None:
    class FirstCome(bl.Policy):
        max_batch = 512

        def __init__(self) -> None:
            self.waiting: list[bl.Request] = []

        def arrive(self, requests: list[bl.Request]) -> None:
            self.waiting += requests

        def schedule(self, dispatch: bl.Dispatch) -> None:
            for worker in dispatch.idle():
                batch, self.waiting = self.waiting[:512], self.waiting[512:]
                if batch:
                    dispatch.submit(worker, batch)

    changed = {"workload.requests": 300, "arrivals.rates": [4000, 8000], "output.plots": []}
    own = bl.sim("quickstart", set=changed, policies={"mine": FirstCome}).requests("mine", 8000).rows()
    assert simulate(GOOD).requests("mine", 8000).rows() == own
    assert simulate(GOOD, sees_lengths=False).requests("mine", 8000).rows() == own


def test_a_score_repeats_and_explains(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.py"
    path.write_text(GOOD, encoding="utf-8")
    first = bl.score(path, "blind", seed=5)
    assert first == bl.score(str(path), "blind", seed=5)
    assert 0.5 < first["combined_score"] < 1.5
    metrics = first["metrics"]
    assert metrics["relative_4000"] == pytest.approx(metrics["goodput_rps_4000"] / metrics["best_built_in_rps_4000"])
    assert metrics["of_ceiling_4000"] == pytest.approx(metrics["goodput_rps_4000"] / 4000)
    assert metrics["ceiling_rps"] > 20000 and metrics["failed"] == 0
    assert "under 8000 requests/s" in first["artifacts"]["slowest"]
    assert "waited" in first["artifacts"]["explanation"]
    drawn = {bl.score("x = 1\n")["artifacts"]["seed"] for _ in range(3)}
    assert len(drawn) == 3


def test_the_example_of_deadlines_is_judged() -> None:
    example = pathlib.Path(__file__).parent.parent / "examples" / "edf.py"
    score = bl.score(example, "deadlines", seed=5)
    assert score["combined_score"] > 0 and "failure" not in score["artifacts"], score


@pytest.mark.parametrize(
    "text", ["1ms", " 2.5 ms", "0.0004us", "1.0005us", "7ns", "3µs", "0s", "18446744073.709551615s"]
)
def test_times_are_read_alike_in_the_process_of_a_judged_policy(text: str) -> None:
    assert _judged.time_ns(text) == bl.time_ns(text)


@pytest.mark.parametrize("text", ["1", "ms", "1min", "1e-3s", "-", ""])
def test_what_is_no_time_is_none_there_either(text: str) -> None:
    for read in (bl.time_ns, _judged.time_ns):
        with pytest.raises(ValueError):
            read(text)


def test_suites_are_listed_and_each_runs() -> None:
    rows = bl.suites().rows()
    assert {"lengths", "blind", "bursts", "deadlines", "trees", "workers"} <= {row["name"] for row in rows}
    assert all(row["question"].endswith("?") and row["slo"] and row["limit_s"] > 0 for row in rows)
    for name, suite in SUITES.items():
        run = bl.sim(suite.document(name), set={"workload.requests": 100}, policies=suite.against)
        assert len(run.summary()) == len(suite.rates) * len(suite.against)
        assert suite.sees_lengths or "class" not in suite.scenario, "a deadline could tell a length"
    with pytest.raises(bl.InputError, match="the suites are lengths, blind"):
        bl.score(GOOD, "nothing")


def test_nodes_of_trees_are_submitted_from_another_process() -> None:
    source = """
    import batchlab as bl

    class Nodes(bl.Policy):
        models = "all"
        max_batch = 64

        def __init__(self):
            self.ready = []
            self.missing = {}

        def arrive(self, requests):
            for request in requests:
                for node in range(request.nodes):
                    self.missing[request.id, node] = len(request.inputs(node))
                    if not request.inputs(node):
                        self.ready.append((request, node))

        def complete(self, tasks):
            for task in tasks:
                for request, node in task.members:
                    for follower in request.outputs(node):
                        self.missing[request.id, follower] -= 1
                        if not self.missing[request.id, follower]:
                            self.ready.append((request, follower))

        def schedule(self, dispatch):
            for worker in dispatch.idle():
                if self.ready:
                    request, node = self.ready[0]
                    cell = request.cell(node)
                    batch = [one for one in self.ready if one[0].cell(one[1]) == cell][:64]
                    self.ready = [one for one in self.ready if one not in batch]
                    dispatch.submit_nodes(worker, cell, batch)
    """
    judged = Source(textwrap.dedent(source), None, sees_lengths=True, limit_s=60, memory=1 << 28)
    assert bl.check(judged.policy, work_conserving=False, pins=False, bounded=False, cases=5) > 0
    run = bl.sim(
        "neighbours/trees.toml",
        set={"workload.requests": 50, "arrivals.rates": [1000], "output.plots": [], "output.requests": True},
        policies={"mine": judged.policy},
    )
    assert set(run.requests("mine", 1000)["outcome"]) == {"served"}


def test_classes_functions_and_texts_have_sources() -> None:
    from batchlab._score import source_text

    text, name = source_text(Padded)
    assert name == "Padded" and "from collections import deque" in text and "class Padded" in text
    assert source_text(GOOD) == (GOOD, None)
    with pytest.raises(bl.InputError, match="no source"):
        bl.score(Padded())
    with pytest.raises(bl.InputError, match="missing.py: No such file"):
        bl.score("missing.py")


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": "x"}, {"limit_s": 0}, {"limit_s": "x"}, {"memory": 1000}])
def test_wrong_arguments_are_mistakes_of_the_caller(wrong: Any) -> None:
    with pytest.raises(bl.InputError, match=f"{next(iter(wrong))}: "):
        bl.score(GOOD, **wrong)


def test_what_fails_is_told() -> None:
    broken = bl.score(cheat("raise LookupError('my own')"), seed=1)
    assert broken["combined_score"] == 0
    artifacts = broken["artifacts"]
    assert artifacts["stage"] == "laws" and "LookupError: my own" in artifacts["failure"]
    assert "raise LookupError('my own')" in artifacts["traceback"] and "_judged" not in artifacts["traceback"]
    assert "SyntaxError" in bl.score("class A\n", seed=1)["artifacts"]["failure"]
    assert "it has __future__, abc" in bl.score("import numpy\n", seed=1)["artifacts"]["failure"]
    assert "it defines none" in bl.score("x = 1\n", seed=1)["artifacts"]["failure"]
    assert "request 0 never left" in bl.score(cheat("return"), seed=1)["artifacts"]["failure"]


# Each of these lines reaches for something outside of the policy's process.
OUTSIDE = {
    "open": "open('/proc/self/environ').read()",
    "parent": "import sys; os = sys.modules['os']; open(f'/proc/{os.getppid()}/mem', 'rb')",
    "files": "import sys; sys.modules['os'].listdir('/')",
    "trace": "open('traces/europarl-en.csv')",
    "import": "import socket",
    "ctypes": "import sys; assert sys.modules['ctypes'].CDLL(None).fork() != -1, 'OSError'",
    "program": "import sys; sys.modules['os'].system('true') and 1 / 0",
    "fork": "import sys; sys.modules['os'].fork()",
    "signal": "import sys; sys.modules['os'].kill(1, 0)",
    "thread": "import sys; sys.modules['_thread'].start_new_thread(print, ())",
    "limits": "import sys; sys.modules['resource'].setrlimit(sys.modules['resource'].RLIMIT_NOFILE, (99, 99))",
    "sleep": "import sys; sys.modules['time'].sleep(100)",
    "subclasses": """
        loaders = [one for one in ().__class__.__base__.__subclasses__() if one.__name__ == 'BuiltinImporter']
        loaders[0].load_module('posix').listdir('/')
    """,
    "format": "open('{0.__class__.__mro__}'.format(self))",
    "generator": """
        generator = (one for one in [1])
        generator.gi_frame.f_builtins['open']('/etc/passwd')
    """,
    "traceback": """
        try:
            1 / 0
        except ZeroDivisionError as error:
            frame = error.__traceback__.tb_frame
        while frame.f_back:
            frame = frame.f_back
        frame.f_globals['os'].listdir('/')
    """,
}


@pytest.mark.parametrize("way", OUTSIDE)
def test_nothing_outside_of_the_process_is_reached(way: str) -> None:
    end = refused(OUTSIDE[way])
    expected = (
        "PermissionError",
        "OSError",
        "ModuleNotFoundError",
        "ImportError",
        "can't start new thread",
        "ZeroDivision",
    )
    assert any(kind in end for kind in (*expected, "ValueError: not allowed")), end


def test_the_process_knows_no_seed_and_no_request_to_come() -> None:
    end = refused(
        """
        import sys
        gc = sys.modules.get('gc') or __import__('gc')
        tables = [one for one in gc.get_objects() if isinstance(one, dict)]
        known = [one for one in gc.get_objects() if type(one).__name__ == 'Request']
        found = [key for table in tables for key in table if key in ('rates', 'slo', 'ceiling_rps')]
        found += [key for table in tables for key, value in table.items() if key == 'seed' and isinstance(value, int)]
        raise LookupError(f'{found} {len(known) == 1} {sys.argv[1:]} {"batchlab._batchlab" in sys.modules}')
        """
    )
    assert "LookupError: [] True [] False" in end


@pytest.mark.parametrize("what", ["length", "shape", "nodes", "cell(0)", "inputs(0)", "outputs(3)"])
def test_hidden_lengths_are_not_there(what: str) -> None:
    end = refused(f"self.waiting[0].{what}", sees_lengths=False)
    assert "the suite hides lengths" in end


def test_hidden_lengths_are_not_told_by_mistakes() -> None:
    lines = """
        told = []
        for node in (0, 3, 10_000):
            try:
                dispatch.submit_nodes(0, 0, [(self.waiting[0], node)])
            except ValueError as mistake:
                told.append(str(mistake))
        raise LookupError(f'{len(set(told))} {told[0]}')
    """
    assert "LookupError: 1 the suite hides lengths" in refused(lines, sees_lengths=False)


def test_copies_and_invented_requests_are_known() -> None:
    twice = """
        import copy
        if self.waiting:
            dispatch.submit(0, [copy.copy(self.waiting[0])])
            dispatch.submit(0, [copy.copy(self.waiting[0])])
    """
    assert "request 0 is submitted already" in refused(twice)
    invented = """
        import copy
        class Number(int):
            def __eq__(self, other): return True
            def __hash__(self): return 0
        other = copy.copy(self.waiting[0])
        other.id = Number(7)
        dispatch.submit(0, [other])
    """
    assert "request 7 has not arrived" in refused(invented)
    kept = """
        if hasattr(self, 'kept'):
            self.kept.submit(0, self.waiting)
        self.kept = dispatch
        return
    """
    assert "a dispatch lasts for one call" in refused(kept)


def test_a_caught_mistake_ends_the_run() -> None:
    lines = """
        if self.waiting:
            dispatch.submit(0, self.waiting[:1])
            try:
                dispatch.submit(0, self.waiting[:1])
            except ValueError:
                pass
            self.waiting.pop(0)
    """
    score = bl.score(cheat(lines), seed=1)
    assert score["combined_score"] == 0 and "submitted already" in score["artifacts"]["failure"]


def test_nothing_stays_from_case_to_case() -> None:
    source = GOOD.replace(
        "        self.waiting = []\n",
        """        self.waiting = []
        if hasattr(bl.Policy, 'seen') or len(CASES):
            raise LookupError('an earlier case')
        bl.Policy.seen = True
        CASES.append(1)
""",
    ).replace("class FirstCome", "CASES = []\n\nclass FirstCome")
    run = simulate(source, replications=2)
    assert run.failed == 0


def test_what_it_prints_goes_nowhere() -> None:
    lines = """
        print('{"combined_score": 99}', flush=True)
        import sys
        sys.modules['os'].write(1, b'{"combined_score": 99}\\n')
        sys.__stdout__.write('{"done": null}')
    """
    run = simulate(cheat(lines))
    assert run.requests("mine", 8000).rows() == simulate(GOOD).requests("mine", 8000).rows()


FORGED = [
    "",
    "99",
    "{",
    "[" * 100_000,
    '{"combined_score": 99}',
    '{"submit": [0, [0], 1]}',
    '{"raised": ""}',
    # Before the source is executed, this message ends the search.
    '{"unlimited": "no seccomp"}',
]


@pytest.mark.parametrize("text", FORGED)
def test_forged_messages_win_nothing(text: str) -> None:
    lines = f"""
        pipe = dispatch._pipe
        pipe.output.write({text!r}.encode() + b'\\n')
        pipe.output.flush()
        pipe.read()
        pipe.ask({{'graph': 10**9}})
    """
    score = bl.score(cheat(lines), seed=1)
    assert score["combined_score"] == 0 and score["metrics"] == {}


@pytest.mark.parametrize(
    "lines",
    ["import sys; sys.modules['os']._exit(0)", "raise SystemExit(0)", "import sys; sys.modules['os'].abort()"],
)
def test_a_process_that_ends_scores_nothing(lines: str) -> None:
    assert bl.score(cheat(lines), seed=1)["combined_score"] == 0


@pytest.mark.parametrize(
    "lines", ["while True: pass", "dispatch._pipe.read()", "bl.Policy.__init_subclass__ = 1; 10 ** 10 ** 9"]
)
def test_the_limit_of_time_covers_the_laws(lines: str) -> None:
    score = bl.score(cheat(lines), seed=1, limit_s=1)
    assert score["combined_score"] == 0
    assert "longer than 1 s" in score["artifacts"]["failure"] and score["artifacts"]["stage"] == "laws"


def test_memory_and_recursion_are_limited() -> None:
    assert "MemoryError" in refused("self.waste = bytearray(1 << 30)")
    assert "RecursionError" in refused("self.schedule(dispatch)")


def test_replaced_parts_change_nothing_outside() -> None:
    assert simulate(cheat("bl.Dispatch.submit = lambda *_: None")).failed == 600
    assert simulate(GOOD).failed == 0


def test_other_behaviour_than_under_the_laws_wins_nothing() -> None:
    lines = """
        if any(request.id > 500 for request in self.waiting):
            dispatch.submit(0, self.waiting[:1])
            dispatch.submit(0, self.waiting[:1])
    """
    score = bl.score(cheat(lines), seed=1)
    assert score["combined_score"] == 0 and score["artifacts"]["stage"] == "suite"
    assert 'policy "judged" at' in score["artifacts"]["where"]


def test_rejecting_wins_nothing() -> None:
    lines = """
        for request in self.waiting[10:]:
            dispatch.reject(request, 'too hard')
        self.waiting = self.waiting[:10]
    """
    metrics = bl.score(cheat(lines), "blind", seed=1)["metrics"]
    assert metrics["goodput_rps_4000"] < metrics["best_built_in_rps_4000"]
