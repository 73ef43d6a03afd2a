//! Bounds for all policies on a device, from the cost table only. Every cell has its best batch size, and overheads are
//! ignored. For the latency floor, each request runs its critical path alone; for the throughput ceiling, workers are
//! never idle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::times::Times;
use crate::base::units::{CellId, Nanos};
use crate::core::cost::curve::Best;
use crate::core::cost::table::TableCosts;
use crate::core::workload::cell_graph::tree::Tree;
use crate::core::workload::cell_graph::{CellGraph, Graph, SharedGraph};
use crate::core::workload::trace::Requests;

/// The contents of `bounds.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub workers: usize,
    /// The latency of each request alone. Its quantiles bound those of the measured latency.
    pub floor: Times,
    /// The highest throughput in requests per second, or `None` if cells take no time.
    pub ceiling_rps: Option<f64>,
    /// The times of batches, if requests are equal, arrivals are Poisson and there is one worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<AffineService>,
}

/// Times of batches on a line: a batch of b requests takes α b + τ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AffineService {
    pub alpha_ms: f64,
    pub tau_ms: f64,
}

/// The share by which a time may differ from the line.
const AFFINE: f64 = 1e-3;

impl AffineService {
    /// The line through the times of batches of 1, 2, …, or `None` if they are not on a line.
    pub fn fit(times: &[Nanos]) -> Option<AffineService> {
        let ms: Vec<f64> = times.iter().map(|time| time.as_millis_f64()).collect();
        let [first, second, ..] = ms[..] else {
            return None;
        };
        let alpha_ms = second - first;
        let tau_ms = 2.0 * first - second;
        if alpha_ms <= 0.0 || tau_ms < 0.0 {
            return None;
        }
        for (batch, ms) in (1u32..).zip(&ms) {
            if (alpha_ms * f64::from(batch) + tau_ms - ms).abs() > AFFINE * ms {
                return None;
            }
        }
        Some(AffineService { alpha_ms, tau_ms })
    }

    /// A bound of the mean latency in ms on a worker that takes all waiting requests (Inoue, arXiv 1912.06322), or
    /// `None` if no batch is large enough for the rate.
    pub fn mean_at_most(&self, rate_rps: f64) -> Option<f64> {
        let AffineService {
            alpha_ms: alpha,
            tau_ms: tau,
        } = self;
        let load = rate_rps * alpha / 1e3;
        let bound = 1.5 * tau / (1.0 - load) + alpha * (load + 2.0) / (2.0 * (1.0 - load * load));
        if load < 1.0 { Some(bound) } else { None }
    }
}

impl Bounds {
    pub fn new(requests: &Requests, fastest: &mut Fastest<'_>, workers: usize) -> Bounds {
        let least = requests.graphs.map(|graph| fastest.least(graph));
        let mut paths = Vec::with_capacity(requests.len());
        let mut all_work = 0.0;
        for (path, work) in least.iter() {
            paths.push(path.0);
            all_work += *work;
        }
        let ceiling = requests.len() as f64 * workers as f64 * 1e9 / all_work;
        let [floor] = Times::from_rows(paths.iter().map(|path| [*path]));
        Bounds {
            workers,
            floor,
            ceiling_rps: Some(ceiling).filter(|ceiling| ceiling.is_finite()),
            service: None,
        }
    }
}

/// The fastest executions on any of several devices: policies may have their own costs, and the best of all bounds
/// them.
pub struct Fastest<'a> {
    devices: Vec<&'a TableCosts>,
    /// The largest batch of each cell type. The sizes in the cost tables are tried in any case.
    largest: Vec<u32>,
    /// The largest number of streams of a worker.
    streams: u16,
    /// The results so far for each cell type and input size.
    known: BTreeMap<(CellId, u32), Best>,
    /// The last of them that was asked for, since most requests have the cells of the one before.
    latest: Option<((CellId, u32), Best)>,
}

impl<'a> Fastest<'a> {
    /// `streams` is the largest number of streams of a worker that a policy uses.
    pub fn new(
        devices: impl IntoIterator<Item = &'a TableCosts>,
        largest: Vec<u32>,
        streams: u16,
    ) -> Self {
        Fastest {
            devices: devices.into_iter().collect(),
            largest,
            streams,
            known: BTreeMap::new(),
            latest: None,
        }
    }

    #[inline]
    fn best(&mut self, cell: CellId, input: u32) -> Best {
        if let Some((latest, best)) = self.latest
            && latest == (cell, input)
        {
            return best;
        }
        let best = self.find_best(cell, input);
        self.latest = Some(((cell, input), best));
        best
    }

    fn find_best(&mut self, cell: CellId, input: u32) -> Best {
        let Fastest {
            devices,
            largest,
            streams,
            known,
            ..
        } = self;
        *known.entry((cell, input)).or_insert_with(|| {
            let of_each = devices.iter().map(|device| {
                let alone = device.best(cell, input, largest[cell.index()]);
                let share_ns = match device.least_demand(cell) {
                    Some(least) => alone.share_ns * least.max(1.0 / f64::from(*streams)),
                    None => shared_worker_time(
                        &alone,
                        device.preferred_batch(cell, input).unwrap_or(1),
                        *streams,
                    ),
                };
                Best { share_ns, ..alone }
            });
            of_each.reduce(Best::or).expect("a scenario has a policy")
        })
    }

    /// The time of the critical path, each cell in its fastest batch; and the work: each cell's share of the batch with
    /// the most cells per second, in nanoseconds.
    pub fn least(&mut self, graph: &CellGraph) -> (Nanos, f64) {
        match graph {
            CellGraph::Chains(runs) => runs.iter().fold((Nanos::ZERO, 0.0), |(time, work), run| {
                let best = self.best(run.cell, run.input);
                let length = u64::from(run.length);
                (
                    time + best.time.saturating_mul(length),
                    work + best.share_ns * f64::from(run.length),
                )
            }),
            CellGraph::Graph(SharedGraph::Tree(tree)) => self.least_of_tree(tree),
            CellGraph::Graph(graph) => {
                let time = self.longest(graph);
                (
                    time,
                    graph
                        .cells()
                        .iter()
                        .map(|cell| self.best(*cell, 0).share_ns)
                        .sum(),
                )
            }
        }
    }

    fn least_of_tree(&mut self, tree: &Tree) -> (Nanos, f64) {
        let leaf = self.best(Tree::LEAF, 0);
        if tree.len() == 1 {
            return (leaf.time, leaf.share_ns);
        }
        let inner = self.best(Tree::INNER, 0);
        let below = inner.time.saturating_mul(u64::from(tree.height()));
        let leaves = tree.leaves();
        let work = leaf.share_ns * leaves as f64 + inner.share_ns * (tree.len() - leaves) as f64;
        (leaf.time.saturating_add(below), work)
    }

    fn longest(&mut self, graph: &Graph) -> Nanos {
        let depths = graph.depths();
        let mut order: Vec<u32> = (0..graph.len() as u32).collect();
        order.sort_unstable_by_key(|node| depths[*node as usize]);
        // The end of each node. Until the node is reached, the end of its latest input.
        let mut ends = vec![Nanos::ZERO; graph.len()];
        for node in order {
            let end =
                ends[node as usize].saturating_add(self.best(graph.cells()[node as usize], 0).time);
            ends[node as usize] = end;
            for &next in graph.successors(node) {
                ends[next as usize] = end.max(ends[next as usize]);
            }
        }
        ends.into_iter().max().unwrap_or_default()
    }
}

/// The least worker time of one member of a batch, on a worker with several streams. A batch of b members occupies its
/// time multiplied by the fraction of the device that it can use: b over the preferred batch, at most 1, and at least 1
/// over the number of streams.
fn shared_worker_time(alone: &Best, preferred: u32, streams: u16) -> f64 {
    let below = alone.time.0 as f64 / f64::from(preferred);
    below
        .min(alone.share_ns)
        .max(alone.share_ns / f64::from(streams))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::cost::table::{CostTable, Overhead};
    use crate::core::workload::model::Model;

    fn bounds(
        model: &Model,
        tables: &[&str],
        shapes: &[&str],
        largest: u32,
        workers: usize,
    ) -> Bounds {
        let cells = model.cell_types();
        let overhead = Overhead {
            task: Some(Nanos(99)),
            gather: Some(Nanos(99)),
            launch: Some(Nanos(99)),
        };
        let device = |rows: &&str| {
            CostTable::parse(&format!("cell,batch,ns\n{rows}"), "t")
                .unwrap()
                .costs_for(&cells, overhead)
        };
        let devices: Vec<TableCosts> = tables.iter().map(|rows| device(rows).unwrap()).collect();
        let shapes = shapes.iter().map(|shape| shape.parse().unwrap()).collect();
        let requests = Requests::unfold(shapes, model).unwrap();
        Bounds::new(
            &requests,
            &mut Fastest::new(&devices, vec![largest; cells.len()], 1),
            workers,
        )
    }

    #[test]
    fn chains_take_the_shortest_step_and_the_fullest_batch() {
        // The shortest step takes 10; the best batch is 8, with 2 for each cell.
        let rows = "lstm,4,10\nlstm,8,16\n";
        let of = bounds(&Model::Lstm, &[rows], &["chain:2", "chain:6"], 8, 1);
        assert_eq!(
            (of.floor.mean_ms, of.floor.max_ms),
            (Some(40e-6), Some(60e-6))
        );
        assert_eq!(of.ceiling_rps, Some(2.0 * 1e9 / 16.0));
        assert_eq!(
            bounds(&Model::Lstm, &[rows], &["chain:2", "chain:6"], 8, 3).ceiling_rps,
            Some(6.0 * 1e9 / 16.0)
        );
        // Each cell beyond the table takes 1.5 more, so at 16 a cell takes 28 / 16.
        let larger = bounds(&Model::Lstm, &[rows], &["chain:1"], 16, 1);
        assert_eq!(larger.ceiling_rps, Some(1e9 / 1.75));
    }

    #[test]
    fn streams_serve_no_more_than_the_least_demand_lets_them() {
        let ceiling = |demand: &str, streams: u16| {
            let rows = format!("cell,batch,ns\nlstm,4,10\nlstm,8,16\n{demand}");
            let cells = Model::Lstm.cell_types();
            let device = CostTable::parse(&rows, "t")
                .unwrap()
                .costs_for(&cells, Overhead::default())
                .unwrap();
            let requests =
                Requests::unfold(vec!["chain:2".parse().unwrap()].into(), &Model::Lstm).unwrap();
            let of = Bounds::new(&requests, &mut Fastest::new([&device], vec![8], streams), 1);
            (of.ceiling_rps.unwrap() * 4e-9 * 100.0).round() / 100.0
        };
        // A cell takes 2 in batches of 8. If a batch needs half of the device, two batches run at the same time.
        let half = "lstm.demand,1,900000\nlstm.demand,8,500000\n";
        assert_eq!(
            ["lstm.demand,1,1000000\n", half].map(|rows| ceiling(rows, 4)),
            [1.0, 2.0]
        );
        assert_eq!(ceiling(half, 1), 1.0);
    }

    #[test]
    fn trees_take_their_longest_way() {
        // The critical path has a leaf and two inner cells.
        let of = bounds(
            &Model::TreeLstm,
            &["leaf,1,5\nleaf,2,6\ninternal,1,7\n"],
            &["tree:4 4 5 5 0"],
            2,
            1,
        );
        assert_eq!(of.floor.max_ms, Some(19e-6));
        assert_eq!(of.ceiling_rps, Some(1e9 / (3.0 * 3.0 + 2.0 * 7.0)));
    }

    #[test]
    fn the_best_of_several_tables_and_of_whole_requests_bounds_all() {
        let tables = [
            "lstm,1,10\nlstm,2,12\n",
            "lstm,1,9\nlstm,2,18\n",
            "lstm,1,30\nlstm.whole,1,8\nlstm.whole,2,16\n",
        ];
        let of = bounds(&Model::Lstm, &tables, &["chain:1"], 2, 1);
        assert_eq!(
            (of.floor.max_ms, of.ceiling_rps),
            (Some(8e-6), Some(1e9 / 6.0))
        );
    }

    #[test]
    fn a_straight_line_of_times_has_a_bound() {
        let times: Vec<Nanos> = (1..=32)
            .map(|batch| Nanos(143_800 * batch + 1_887_400))
            .collect();
        let service = AffineService::fit(&times).unwrap();
        for (load, bound) in [(0.1, 3.29818), (0.3, 4.22615), (0.5, 5.90187)] {
            assert!((service.mean_at_most(load / 0.1438e-3).unwrap() - bound).abs() < 1e-5);
        }
        assert_eq!(service.mean_at_most(1.01 / 0.1438e-3), None);
        let bent = [&times[..], &[Nanos(8_000_000)]].concat();
        assert_eq!(
            (
                AffineService::fit(&bent),
                AffineService::fit(&[Nanos(3); 9]),
                AffineService::fit(&times[..1])
            ),
            (None, None, None)
        );
    }

    #[test]
    fn cells_that_take_no_time_have_no_ceiling() {
        assert_eq!(
            bounds(&Model::Lstm, &["lstm,1,0\n"], &["chain:3"], 4, 1).ceiling_rps,
            None
        );
    }

    #[test]
    fn streams_use_what_small_batches_leave() {
        // Batches of one take 100 ns and an eighth of the device; four streams leave half of the device idle.
        let alone = Best {
            time: Nanos(100),
            share_ns: 25.0,
        };
        assert_eq!(
            [1, 2, 4].map(|streams| shared_worker_time(&alone, 8, streams)),
            [25.0, 12.5, 12.5]
        );
        assert_eq!(shared_worker_time(&alone, 1, 4), 25.0);
    }
}
