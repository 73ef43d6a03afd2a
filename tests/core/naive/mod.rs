//! A naive reference of the simulated semantics: plain lists, linear scans, and no code of the crate.
//!
//! It is written only from the text of the design and of the policies' documentation, for readability and not for
//! speed, and is compared with the crate to the nanosecond (`differential.rs`). Where the text leaves a choice, a
//! comment that begins with "Choice:" states it.

use std::collections::HashMap;

mod cellular;
pub mod continuous;
mod costs;
mod fold;
mod graph;
mod whole;

pub use costs::Costs;
pub use graph::Graph;

/// The complete description of a run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Arrival and shape of each request, in the order of arrival.
    pub trace: Vec<(u64, String)>,
    /// The model's cell types.
    pub cells: Vec<String>,
    pub costs: Costs,
    /// The overheads that are given as a number, by name.
    pub given: [(&'static str, Option<u64>); 3],
    pub workers: usize,
    pub policy: Policy,
}

impl Case {
    /// The cost of a batch besides its cells, by the name of the overhead. Choice: a given number replaces the rows of
    /// this name in the cost file.
    pub fn overhead(&self, name: &str, batch: usize) -> u64 {
        let given = self
            .given
            .iter()
            .find(|(overhead, _)| *overhead == name)
            .and_then(|(_, number)| *number);
        match given {
            Some(number) => number,
            None if self.costs.knows(name) => self.costs.time(name, batch),
            None => 0,
        }
    }

    fn transfer(&self, states: usize) -> u64 {
        if states > 0 && self.costs.knows("transfer") {
            self.costs.time("transfer", states)
        } else {
            0
        }
    }
}

/// A policy with its settings.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Limits by cell type: name, max_batch, min_batch. With a lookahead it is Late Batching.
    Cellular {
        max_tasks: u32,
        lookahead: usize,
        chunk: usize,
        /// The supported batch sizes; none if all are.
        sizes: Vec<usize>,
        limits: Vec<(String, u32, u32)>,
    },
    Padded {
        bucket_width: u32,
        max_batch: u32,
        pad_to_longest: bool,
        turn: String,
        window: u64,
        ahead: usize,
        /// Triton 21.10.
        closes: bool,
    },
    Merged {
        max_batch: u32,
    },
    Immediate,
    /// With the quarters of its work that the host does ahead.
    Fold {
        max_batch: u32,
        construct: u64,
        quarters: u64,
        copies: bool,
    },
    Ideal {
        max_batch: u32,
    },
    Jit {
        max_batch: u32,
        by_graph: bool,
        analysis: u64,
        cache: bool,
    },
}

/// A line of the request log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    pub id: usize,
    pub arrival: u64,
    pub start: u64,
    pub finish: u64,
}

/// A line of the task log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    pub task: usize,
    pub worker: usize,
    /// The cell types of the task, sorted by name.
    pub cells: Vec<String>,
    pub batch: usize,
    pub submit: u64,
    pub start: u64,
    pub finish: u64,
}

/// A task that a policy wants to run next on a worker.
struct Batch {
    cells: Vec<String>,
    /// The batch size in the task log.
    size: usize,
    /// The nodes of the task as (request, node), in batch order.
    nodes: Vec<(usize, usize)>,
    duration: u64,
    /// The host's work that delays the start; a launch comes in addition.
    ahead: u64,
}

/// The interface of a policy to the event loop.
trait Scheduler {
    fn arrive(&mut self, request: usize);
    fn complete(&mut self, nodes: &[(usize, usize)]);
    /// The tasks for a worker with room, in order; empty if there are none. The worker's earlier tasks end at `free`.
    fn offer(&mut self, worker: usize, now: u64, free: u64) -> Vec<Batch>;
    /// The instants at which the policy must be asked again even without events.
    fn wake_ups(&self) -> Vec<u64>;
    /// What it does at an instant after all workers with room were offered work.
    fn settle(&mut self, _now: u64) {}
    /// A worker has room with at most this number of unfinished tasks.
    fn lookahead(&self) -> usize {
        0
    }
}

struct Task {
    row: TaskRow,
    nodes: Vec<(usize, usize)>,
    done: bool,
}

/// Runs a case from its first arrival until no events are left.
pub fn simulate(case: &Case) -> (Vec<RequestRow>, Vec<TaskRow>) {
    let graphs: Vec<Graph> = case
        .trace
        .iter()
        .map(|(_, shape)| Graph::unfold(shape))
        .collect();
    let arrivals: Vec<u64> = case.trace.iter().map(|(at, _)| *at).collect();
    let mut policy: Box<dyn Scheduler> = match &case.policy {
        Policy::Cellular {
            max_tasks,
            lookahead,
            chunk,
            sizes,
            limits,
        } => Box::new(cellular::Cellular::new(
            case,
            &graphs,
            *max_tasks,
            *lookahead,
            *chunk,
            sizes,
            limits.clone(),
        )),
        Policy::Padded {
            bucket_width,
            max_batch,
            pad_to_longest,
            turn,
            window,
            ahead,
            closes,
        } => Box::new(whole::Padded {
            case,
            graphs: &graphs,
            width: *bucket_width as usize,
            max_batch: *max_batch as usize,
            pad_to_longest: *pad_to_longest,
            turn,
            window: *window,
            ahead: *ahead,
            closes: *closes,
            waiting: Vec::new(),
            covered: Vec::new(),
            closed: Vec::new(),
            pointer: 0,
        }),
        Policy::Merged { max_batch } => Box::new(whole::Merged {
            case,
            graphs: &graphs,
            max_batch: *max_batch as usize,
            waiting: Vec::new(),
        }),
        // A single request takes the sum of its cells at batch 1; nothing is merged, not even within the request.
        Policy::Immediate => Box::new(whole::Immediate {
            case,
            graphs: &graphs,
            waiting: Vec::new(),
        }),
        Policy::Fold {
            max_batch,
            construct,
            quarters,
            copies,
        } => Box::new(fold::Fold {
            case,
            graphs: &graphs,
            max_batch: *max_batch as usize,
            construct: *construct,
            quarters: *quarters,
            copies: *copies,
            waiting: Vec::new(),
            host: vec![0; case.workers],
        }),
        Policy::Ideal { max_batch } => Box::new(whole::Ideal {
            case,
            graphs: &graphs,
            max_batch: *max_batch as usize,
            waiting: Vec::new(),
        }),
        Policy::Jit {
            max_batch,
            by_graph,
            analysis,
            cache,
        } => Box::new(whole::Jit {
            case,
            graphs: &graphs,
            max_batch: *max_batch as usize,
            by_graph: *by_graph,
            analysis: *analysis,
            cache: *cache,
            known: Vec::new(),
            waiting: Vec::new(),
        }),
    };

    let mut tasks: Vec<Task> = Vec::new();
    let mut ran_on: HashMap<(usize, usize), usize> = HashMap::new();
    let mut arrived = 0;
    let mut now = 0;
    loop {
        // The next instant with an event; past wake-ups are ignored. Choice: a task of no duration ends at the instant
        // of its submission, which is then processed again, from its completions on.
        let ends = tasks
            .iter()
            .filter(|task| !task.done)
            .map(|task| task.row.finish);
        let arrival = arrivals.get(arrived).copied();
        let wakes = policy.wake_ups().into_iter().filter(|at| *at > now);
        let Some(next) = ends.chain(arrival).chain(wakes).min() else {
            break;
        };
        now = next;

        // First completions, in the order of submission; then arrivals, in trace order.
        for task in &mut tasks {
            if !task.done && task.row.finish == now {
                task.done = true;
                policy.complete(&task.nodes);
            }
        }
        while arrived < arrivals.len() && arrivals[arrived] == now {
            policy.arrive(arrived);
            arrived += 1;
        }

        // Then idle workers are offered work in the order of their numbers, then workers with one unfinished task, with
        // two, and so on.
        for (room, worker) in
            (0..=policy.lookahead()).flat_map(|room| (0..case.workers).map(move |w| (room, w)))
        {
            let own = || {
                tasks
                    .iter()
                    .filter(|task| task.row.worker == worker && !task.done)
            };
            if own().count() != room {
                continue;
            }
            let mut free = own().map(|task| task.row.finish).fold(now, u64::max);
            for batch in policy.offer(worker, now, free) {
                let start = free.max(now + batch.ahead + case.overhead("launch", batch.size));
                for node in &batch.nodes {
                    ran_on.insert(*node, worker);
                }
                // Every state that a node takes from another worker is copied.
                let inputs = batch
                    .nodes
                    .iter()
                    .flat_map(|(r, node)| graphs[*r].needs[*node].iter().map(|n| (*r, *n)));
                let finish = start
                    + batch.duration
                    + case.transfer(inputs.filter(|n| ran_on[n] != worker).count());
                let mut cells = batch.cells;
                cells.sort();
                cells.dedup();
                let row = TaskRow {
                    task: tasks.len(),
                    worker,
                    cells,
                    batch: batch.size,
                    submit: now,
                    start,
                    finish,
                };
                tasks.push(Task {
                    row,
                    nodes: batch.nodes,
                    done: false,
                });
                free = finish;
            }
        }
        policy.settle(now);
    }

    let requests = (0..graphs.len())
        .map(|id| request_row(id, arrivals[id], &graphs[id], &tasks))
        .collect();
    (requests, tasks.into_iter().map(|task| task.row).collect())
}

/// From the first start to the last end of the tasks that hold a node of the request.
fn request_row(id: usize, arrival: u64, graph: &Graph, tasks: &[Task]) -> RequestRow {
    let mine = |task: &Task| {
        task.nodes
            .iter()
            .filter(|(request, _)| *request == id)
            .count()
    };
    let holders: Vec<&Task> = tasks.iter().filter(|task| mine(task) > 0).collect();
    let nodes: usize = holders.iter().map(|task| mine(task)).sum();
    assert_eq!(
        nodes,
        graph.cells.len(),
        "the reference computes each node of request {id} once"
    );
    RequestRow {
        id,
        arrival,
        start: holders
            .iter()
            .map(|task| task.row.start)
            .min()
            .expect("a request has a node"),
        finish: holders
            .iter()
            .map(|task| task.row.finish)
            .max()
            .expect("a request has a node"),
    }
}
