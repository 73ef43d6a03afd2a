"""The parts' reading and judging, on results in recorded/ (of an H100; its floors are round numbers): `python3 -m unittest` in this folder."""

import json
import pathlib
import tempfile
import unittest

import check
import items_steps
import read
from bench import table
from scale import DEFAULT, FULL, TINY

RECORDED = pathlib.Path(__file__).parent / "recorded"
RUNS = read.host_of(RECORDED)
FLOORS = read.floors_of(RECORDED / "floors.csv")


class Verified(unittest.TestCase):
    def test_requests_of_all_runs_and_the_worst_of_their_errors(self):
        found = read.verified(RUNS)
        self.assertEqual(found.requests, sum(run["verified"] for run in RUNS))
        self.assertEqual(found.error, max(run["largest_error"] for run in RUNS))
        self.assertLess(found.percent, 100)
        self.assertIn(f"{found.requests} requests, largest relative error", read.describe_verified(found))

    def test_a_run_without_verified_requests_is_not_right(self):
        self.assertIsNone(read.verified([]))
        self.assertIsNone(read.verified([RUNS[0], RUNS[1] | {"verified": 0}]))
        self.assertIsNone(read.verified([{"policy": "simulated"}]))

    def test_missing_answers_have_a_reason(self):
        rows = [{"policy": "cellular", "completed": "9"}, {"policy": "padded", "completed": "8"}]
        found = read.verified(RUNS)
        self.assertEqual(read.missing_answers(rows, found, 9), "not all done: padded")
        self.assertEqual(read.missing_answers(rows[:1], None, 9), "nothing was verified")
        self.assertEqual(read.missing_answers(rows[:1], found, 9), "")

    def test_equal_bits_have_no_error(self):
        found = read.verified([{"verified": 12}, {"verified": 3}])
        self.assertEqual(found, (15, None, 0.0))
        self.assertEqual(read.describe_verified(found), "15 requests, all with the CPU's bits")


class Host(unittest.TestCase):
    def test_microseconds_of_a_task(self):
        times = read.host_times(RUNS)
        self.assertEqual([each.policy for each in times], [run["policy"] for run in RUNS])
        self.assertAlmostEqual(times[0].task_us, RUNS[0]["scheduler_ns_per_task"] / 1e3)

    def test_a_run_without_tasks_has_none(self):
        self.assertEqual(read.host_times([{"policy": "A", "point": "9", "decisions": 0, "scheduler_ns_per_decision": None}]), [])


class FloorsOfSteps(unittest.TestCase):
    def floor(self, precision, batch, fused=False, cell="lstm"):
        moved, operations = items_steps.step_of(cell, 1024, 30000, precision, batch)
        return read.floor_ns(FLOORS, precision, moved, operations, fused) / 1e3

    def test_weights_come_from_the_cache_as_far_as_they_fit_it(self):
        # 16.8 MB in bf16 fit: 3.1 us from L2 and a launch. Of the 41.9 MB of a tree's node in f32, 8.4 come from memory.
        self.assertAlmostEqual(self.floor("bf16", 1), 2 + 16.8 / 5.5, delta=0.1)
        self.assertAlmostEqual(self.floor("f32", 1, cell="internal"), 2 + 33.6 / 5.5 + 8.4 / 2.95, delta=0.1)

    def test_large_batches_are_bound_by_products_on_the_units_that_are_used(self):
        self.assertAlmostEqual(self.floor("f32", 512), 2 + 16.8 * 512 / 50e3 * 1e3, delta=1)
        self.assertAlmostEqual(self.floor("f32", 512, fused=True), 2 + 16.8 * 512 / 130e3 * 1e3, delta=1)
        self.assertEqual(self.floor("bf16", 512), self.floor("bf16", 512, fused=True))

    def test_a_step_that_no_cuda_core_computes_in_time_was_fused(self):
        moved, operations = items_steps.step_of("lstm", 1024, 30000, "f32", 512)
        share, fused = read.share_of_floor(FLOORS, "f32", moved, operations, 187e3)
        self.assertTrue(1 < share < 1.1 and not fused)
        share, fused = read.share_of_floor(FLOORS, "f32", moved, operations, 100e3)
        self.assertTrue(share > 1 and fused)


class ThreeWays(unittest.TestCase):
    def setUp(self):
        self.rows = read.rows_of(RECORDED / "three-ways.csv")

    def test_cellular_batching_is_ahead_at_every_load(self):
        latencies = read.by_load(self.rows, "p90_ms")
        self.assertEqual(list(latencies), [5000, 30000, 45000])
        found = read.behind(latencies, "Cellular batching")
        self.assertEqual([best for _, _, best in found], ["DVABatch"] * 3)
        self.assertTrue(all(ratio < 1 for _, ratio, _ in found))
        self.assertGreater(read.behind(latencies, "Graph batching")[0][1], 1)
        self.assertEqual(read.behind(latencies, "no such policy"), [])

    def test_points_that_came_late_are_named(self):
        late = read.late_points(self.rows)
        self.assertEqual(late, [f"{row['policy']} at {float(row['offered_rps']):.3g}" for row in self.rows if row["valid"] == "false"])
        self.assertTrue(late)


class Validation(unittest.TestCase):
    def test_figures_that_are_near_or_inside_agree(self):
        found = read.validation(read.rows_of(RECORDED / "validation.csv"))
        self.assertEqual((found["figures"], found["agree"], found["real"], found["inside"]), (4, 3, 12, 5))
        self.assertEqual(found["off"], ["gpu-chains cellular at 50 %: mean_ms -13.3 %"])
        self.assertTrue(found["same_decisions"])


class Parts(unittest.TestCase):
    def test_all_fit_one_run_of_under_ten_minutes(self):
        self.assertLess(sum(part.seconds for part in check.PARTS), 585)
        self.assertEqual(len(set(check.NAMES)), len(check.PARTS))

    def test_sizes_grow(self):
        for smaller, larger in ((TINY, DEFAULT), (DEFAULT, FULL)):
            self.assertLess(smaller.requests, larger.requests)
            self.assertLessEqual(set(smaller.step_precisions), set(larger.step_precisions))

    def test_comments_above_a_table_are_no_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "costs.csv"
            path.write_text("# measured\ncell,batch,ns\nlstm,1,10\nlstm,8,20\n")
            self.assertEqual(read.costs_of(path), {"lstm": {1: 10.0, 8: 20.0}})
        self.assertEqual(table(("a", "bc"), [(1, 2)]), "a  bc\n1   2\n")
        self.assertTrue(json.loads((RECORDED / "host.json").read_text())["device"])
