//! Cellular batching: BatchMaker's Algorithm 1, line by line. Also Late Batching, which gives one task at a time to
//! workers that need not be idle, and chunks, tasks that run several steps of each chain.

use super::graph::Graph;
use super::{Batch, Case, Scheduler};

/// One released subgraph of one request.
struct Subgraph {
    request: usize,
    number: usize,
    cell: String,
    /// Its ready nodes that have not been submitted, in the order in which they became ready.
    ready: Vec<usize>,
    pinned: Option<usize>,
}

/// A submitted task that is not finished.
struct Running {
    worker: usize,
    cell: String,
    nodes: Vec<(usize, usize)>,
}

pub struct Cellular<'a> {
    case: &'a Case,
    graphs: &'a [Graph],
    max_tasks: u32,
    lookahead: usize,
    chunk: usize,
    sizes: &'a [usize],
    limits: Vec<(String, u32, u32)>,
    /// All subgraphs that were ever released, in the order of release. The queue of a cell type consists of its
    /// subgraphs in this list.
    released: Vec<Subgraph>,
    /// For each request, the nodes that were submitted and those that have completed.
    submitted: Vec<Vec<bool>>,
    completed: Vec<Vec<bool>>,
    running: Vec<Running>,
    /// For each worker, the (request, subgraph) of each node of its last task.
    last: Vec<Option<Vec<(usize, usize)>>>,
}

impl<'a> Cellular<'a> {
    pub fn new(
        case: &'a Case,
        graphs: &'a [Graph],
        max_tasks: u32,
        lookahead: usize,
        chunk: usize,
        sizes: &'a [usize],
        limits: Vec<(String, u32, u32)>,
    ) -> Self {
        let flags: Vec<Vec<bool>> = graphs
            .iter()
            .map(|graph| vec![false; graph.cells.len()])
            .collect();
        Cellular {
            case,
            graphs,
            max_tasks,
            lookahead,
            chunk,
            sizes,
            limits,
            released: Vec::new(),
            submitted: flags.clone(),
            completed: flags,
            running: Vec::new(),
            last: vec![None; case.workers],
        }
    }

    fn max_batch(&self, cell: &str) -> usize {
        self.limits
            .iter()
            .find(|limit| limit.0 == cell)
            .expect("each cell has limits")
            .1 as usize
    }

    fn min_batch(&self, cell: &str) -> usize {
        self.limits
            .iter()
            .find(|limit| limit.0 == cell)
            .expect("each cell has limits")
            .2 as usize
    }

    /// Releases the subgraphs of a request whose outer inputs have completed, in the order of their numbers.
    fn release(&mut self, request: usize) {
        let graph = &self.graphs[request];
        for (number, nodes) in graph.subgraphs.iter().enumerate() {
            let known = self
                .released
                .iter()
                .any(|s| (s.request, s.number) == (request, number));
            let outer = nodes
                .iter()
                .flat_map(|node| &graph.needs[*node])
                .filter(|input| !nodes.contains(input));
            if known || !outer.clone().all(|input| self.completed[request][*input]) {
                continue;
            }
            // At its release the nodes are ready that need no other node of the subgraph.
            let free = |node: &usize| {
                graph.needs[*node]
                    .iter()
                    .all(|input| !nodes.contains(input))
            };
            let ready = nodes.iter().copied().filter(free).collect();
            let cell = graph.cells[nodes[0]].clone();
            self.released.push(Subgraph {
                request,
                number,
                cell,
                ready,
                pinned: None,
            });
        }
    }

    /// The nodes of a cell type that a worker could take.
    fn ready_nodes(&self, cell: &str, worker: usize) -> usize {
        let open =
            |s: &&Subgraph| s.cell == cell && (s.pinned.is_none() || s.pinned == Some(worker));
        self.released
            .iter()
            .filter(open)
            .map(|s| s.ready.len())
            .sum()
    }

    /// `Schedule`, lines 5 to 10: the cell type that a worker runs next.
    fn choose(&self, worker: usize) -> Option<String> {
        let cells: Vec<&String> = self.limits.iter().map(|limit| &limit.0).collect();
        let ready = |cell: &str| self.ready_nodes(cell, worker);
        let runs = |cell: &str| self.running.iter().any(|task| task.cell == cell);
        let mut admitted: Vec<&String> = cells
            .iter()
            .copied()
            .filter(|c| ready(c) >= self.max_batch(c))
            .collect();
        if admitted.is_empty() {
            // Choice: tasks on any worker count.
            admitted = cells
                .iter()
                .copied()
                .filter(|c| !runs(c) && ready(c) > 0)
                .collect();
        }
        if admitted.is_empty() {
            admitted = cells.iter().copied().filter(|c| ready(c) > 0).collect();
        }
        let priority = |cell: &str| i32::from(cell == "decoder" || cell == "internal");
        admitted.sort_by(|a, b| priority(b).cmp(&priority(a)).then(a.cmp(b)));
        admitted.first().map(|cell| cell.to_string())
    }

    /// `FormBatchedTask`: (position in `released`, node) of each node.
    fn form(&self, cell: &str, worker: usize) -> Vec<(usize, usize)> {
        let mut batch = Vec::new();
        for (position, subgraph) in self.released.iter().enumerate() {
            if subgraph.cell != cell
                || (subgraph.pinned.is_some() && subgraph.pinned != Some(worker))
            {
                continue;
            }
            for &node in &subgraph.ready {
                batch.push((position, node));
                if batch.len() == self.max_batch(cell) {
                    return batch;
                }
            }
        }
        batch
    }

    /// Takes the nodes of a batch from their subgraphs, pins these, and makes nodes ready. In a chunk the nodes follow
    /// that the batch has made ready in its subgraphs, and so on.
    fn submit(&mut self, cell: &str, worker: usize, batch: &[(usize, usize)]) -> Batch {
        let list: Vec<(usize, usize)> = batch
            .iter()
            .map(|(position, _)| {
                (
                    self.released[*position].request,
                    self.released[*position].number,
                )
            })
            .collect();
        let mut nodes = Vec::new();
        let mut steps = 0;
        let mut next = batch.to_vec();
        while steps < self.chunk && !next.is_empty() {
            self.take(worker, &next, &mut nodes);
            steps += 1;
            let ready = next.iter().filter_map(|(position, _)| {
                Some((*position, *self.released[*position].ready.first()?))
            });
            next = ready.collect();
        }

        // A step costs what the smallest supported size costs that holds its nodes. Overheads go by the nodes.
        let holding = self
            .sizes
            .iter()
            .copied()
            .filter(|size| *size >= batch.len());
        let size = if self.sizes.is_empty() {
            batch.len()
        } else {
            holding.min().expect("a size holds max_batch")
        };
        let mut duration = steps as u64 * self.case.costs.time(cell, size)
            + self.case.overhead("task", batch.len());
        if self.last[worker].as_ref() != Some(&list) {
            duration += self.case.overhead("gather", batch.len());
        }
        self.last[worker] = Some(list);
        self.running.push(Running {
            worker,
            cell: cell.to_string(),
            nodes: nodes.clone(),
        });
        Batch {
            cells: vec![cell.to_string()],
            size: batch.len(),
            nodes,
            duration,
            ahead: 0,
        }
    }

    /// Takes these nodes from their subgraphs.
    fn take(&mut self, worker: usize, batch: &[(usize, usize)], nodes: &mut Vec<(usize, usize)>) {
        for &(position, node) in batch {
            let subgraph = &mut self.released[position];
            subgraph.ready.retain(|other| *other != node);
            subgraph.pinned = Some(worker);
            self.submitted[subgraph.request][node] = true;
            nodes.push((subgraph.request, node));
        }
        // Nodes that a task makes ready follow those that were ready before, in the order of their indices.
        for subgraph in &mut self.released {
            let graph = &self.graphs[subgraph.request];
            let members = &graph.subgraphs[subgraph.number];
            let submitted = &self.submitted[subgraph.request];
            for &node in members {
                let can = graph.needs[node]
                    .iter()
                    .all(|input| !members.contains(input) || submitted[*input]);
                if can && !submitted[node] && !subgraph.ready.contains(&node) {
                    subgraph.ready.push(node);
                }
            }
        }
    }
}

impl Scheduler for Cellular<'_> {
    fn arrive(&mut self, request: usize) {
        self.release(request);
    }

    fn complete(&mut self, nodes: &[(usize, usize)]) {
        let position = self
            .running
            .iter()
            .position(|task| task.nodes == nodes)
            .expect("a submitted task");
        let worker = self.running.remove(position).worker;
        for &(request, node) in nodes {
            self.completed[request][node] = true;
        }
        // A pin lasts while a submitted task with a node of the subgraph is unfinished.
        for subgraph in &mut self.released {
            let members = &self.graphs[subgraph.request].subgraphs[subgraph.number];
            let held = |(request, node): &(usize, usize)| {
                *request == subgraph.request && members.contains(node)
            };
            if subgraph.pinned == Some(worker)
                && !self.running.iter().any(|task| task.nodes.iter().any(held))
            {
                subgraph.pinned = None;
            }
        }
        // Requests release in the order of their places in the task; a second time releases nothing more.
        for &(request, _) in nodes {
            self.release(request);
        }
    }

    /// `Batch`, lines 12 to 23.
    fn offer(&mut self, worker: usize, _: u64, _: u64) -> Vec<Batch> {
        let mut tasks = Vec::new();
        let Some(cell) = self.choose(worker) else {
            return tasks;
        };
        while tasks.len() < self.max_tasks as usize {
            let batch = self.form(&cell, worker);
            let first = self.running.iter().all(|task| task.worker != worker);
            let enough = batch.len() >= self.min_batch(&cell) || first;
            if batch.is_empty() || !enough {
                break;
            }
            tasks.push(self.submit(&cell, worker, &batch));
        }
        tasks
    }

    fn wake_ups(&self) -> Vec<u64> {
        vec![]
    }

    fn lookahead(&self) -> usize {
        self.lookahead
    }
}
