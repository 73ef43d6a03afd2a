//! The requests in the system: how they come, what of them is released when, and how they go.

use std::sync::Arc;

use smallvec::SmallVec;

use super::chain_queue::{Chain, Seat};
use super::core::{Core, Handle, Queue};
use crate::policy::{Completed, Outcomes};
use crate::units::{NodeId, RequestId, TaskId};
use crate::workload::cell_graph::{CellGraph, Graph, Run};
use crate::workload::trace::Request;

/// A request in the system.
pub struct Live {
    pub request: RequestId,
    pub work: Work,
}

/// What is left of a request.
pub enum Work {
    /// Runs that follow each other: those that are left, the present one first, and the number of nodes before it.
    Runs {
        left: SmallVec<[Run; 2]>,
        before: u32,
    },
    Graph(LiveGraph),
}

/// What is missing of a request that is no chain.
pub struct LiveGraph {
    graph: Arc<Graph>,
    /// For each node, the inputs inside of its subgraph that have not been submitted.
    pub inner_missing: Vec<u32>,
    /// For each subgraph, the inputs from other subgraphs that have not completed.
    outer_missing: Vec<u32>,
    /// Nodes that have not completed.
    nodes_left: u32,
    /// The last task in which it was met, and where it stood in it.
    seen: (TaskId, usize),
}

impl Core {
    /// Puts a request's present run into the queue of its type.
    fn release_run(&mut self, handle: Handle) {
        let live = &self.live[handle as usize];
        let Work::Runs { left, before } = &live.work else { unreachable!() };
        let Run { cell, length, .. } = left[0];
        let chain = Chain {
            released: self.next_release,
            live: handle,
            last: NodeId(before + length - 1),
            left: length.div_ceil(self.chunk),
            begins: Some(live.request),
        };
        self.next_release += 1;
        let Queue::Chains(queue) = &mut self.types[cell.index()].queue else { unreachable!() };
        queue.push(chain);
    }

    /// Puts one subgraph of a request into the queue of its type.
    fn release_subgraph(&mut self, handle: Handle, subgraph: u32) {
        let Live { request, work } = &self.live[handle as usize];
        let Work::Graph(work) = work else { unreachable!() };
        let part = &work.graph.subgraphs()[subgraph as usize];
        match &mut self.types[part.cell.index()].queue {
            Queue::Graphs(queue) => queue.push(self.next_release, handle, *request, &work.graph, subgraph),
            Queue::Chains(queue) => {
                queue.push(Chain {
                    released: self.next_release,
                    live: handle,
                    last: NodeId(part.entries[0]),
                    left: 1,
                    begins: Some(*request),
                });
            }
        }
        self.next_release += 1;
    }

    fn enter(&mut self, live: Live) -> Handle {
        match self.vacant.pop() {
            Some(handle) => {
                self.live[handle as usize] = live;
                handle
            }
            None => {
                self.live.push(live);
                (self.live.len() - 1) as Handle
            }
        }
    }

    /// Empty vectors for a request's counters, with the memory of those of the request whose place it takes.
    fn counters(&mut self) -> (Vec<u32>, Vec<u32>) {
        let old = self.vacant.last().map(|handle| &mut self.live[*handle as usize].work);
        let Some(Work::Graph(LiveGraph { inner_missing, outer_missing, .. })) = old else { return Default::default() };
        inner_missing.clear();
        outer_missing.clear();
        (std::mem::take(inner_missing), std::mem::take(outer_missing))
    }

    /// A node has completed: counts down what waits for it outside of its subgraph.
    fn node_done(&mut self, handle: Handle, node: u32, task: TaskId, position: usize, outcomes: &mut Outcomes) {
        let live = &mut self.live[handle as usize];
        let Work::Graph(work) = &mut live.work else { unreachable!() };
        if work.seen.0 != task {
            work.seen = (task, position);
        }
        let home = work.graph.subgraph_of()[node as usize];
        for &next in work.graph.successors(node) {
            let subgraph = work.graph.subgraph_of()[next as usize];
            if subgraph != home {
                work.outer_missing[subgraph as usize] -= 1;
                if work.outer_missing[subgraph as usize] == 0 {
                    self.scratch.released.push((work.seen.1, subgraph, handle));
                }
            }
        }
        work.nodes_left -= 1;
        if work.nodes_left == 0 {
            outcomes.finish(live.request);
            self.vacant.push(handle);
        }
    }

    /// A chain has ended: its request goes on with its next run, or leaves.
    fn chain_done(&mut self, seat: &Seat, task: TaskId, position: usize, outcomes: &mut Outcomes) {
        let live = &mut self.live[seat.live as usize];
        match &mut live.work {
            Work::Graph(_) => self.node_done(seat.live, seat.last.0, task, position, outcomes),
            Work::Runs { left, before } => {
                *before += left.remove(0).length;
                if left.is_empty() {
                    outcomes.finish(live.request);
                    self.vacant.push(seat.live);
                } else {
                    self.scratch.released.push((position, 0, seat.live));
                }
            }
        }
    }

    /// Releases the subgraphs that a completed task has made free: requests in the order in which they stood in the
    /// task, subgraphs of one request by their number.
    fn release_all(&mut self) {
        let mut released = std::mem::take(&mut self.scratch.released);
        released.sort_unstable();
        for (_, subgraph, handle) in released.drain(..) {
            match self.live[handle as usize].work {
                Work::Runs { .. } => self.release_run(handle),
                Work::Graph(_) => self.release_subgraph(handle, subgraph),
            }
        }
        self.scratch.released = released;
    }

    /// A request has arrived: what of it needs nothing is released.
    pub fn arrive(&mut self, request: &Request<'_>) {
        match request.graph {
            CellGraph::Chains(runs) => {
                let work = Work::Runs { left: SmallVec::from_slice(runs), before: 0 };
                let handle = self.enter(Live { request: request.id, work });
                self.release_run(handle);
            }
            CellGraph::Graph(graph) => {
                let (mut inner_missing, mut outer_missing) = self.counters();
                inner_missing.extend_from_slice(graph.inner_inputs());
                outer_missing.extend(graph.subgraphs().iter().map(|part| part.outer_inputs));
                let released = (0..outer_missing.len()).filter(|s| outer_missing[*s] == 0);
                self.scratch.released.extend(released.map(|subgraph| (0, subgraph as u32, 0)));
                let handle = self.enter(Live {
                    request: request.id,
                    work: Work::Graph(LiveGraph {
                        graph: Arc::clone(graph),
                        inner_missing,
                        outer_missing,
                        nodes_left: graph.len() as u32,
                        seen: (TaskId(u64::MAX), 0),
                    }),
                });
                self.scratch.released.iter_mut().for_each(|entry| entry.2 = handle);
                self.release_all();
            }
        }
    }

    /// A task is done: what waited for it alone is released, and requests that are complete are finished.
    pub fn complete(&mut self, completed: &Completed<'_>, outcomes: &mut Outcomes) {
        let place = (completed.task.0 - self.first_running) as usize;
        let mut running = self.running[place].take().expect("each task completes once");
        while let Some(None) = self.running.front() {
            self.running.pop_front();
            self.first_running += 1;
        }
        let state = &mut self.types[running.cell];
        state.running_tasks -= 1;
        match &mut state.queue {
            Queue::Chains(queue) => {
                queue.release(completed.worker);
                for (position, seat) in running.ended.iter().enumerate() {
                    self.chain_done(seat, completed.task, position, outcomes);
                }
            }
            Queue::Graphs(queue) => {
                for share in &running.shares {
                    queue.completed(completed.worker, share);
                }
                for share in &running.shares {
                    for &node in &running.nodes[share.nodes.clone()] {
                        self.node_done(share.live, node, completed.task, share.nodes.start, outcomes);
                    }
                }
            }
        }
        self.release_all();
        running.clear();
        self.spare.push(running);
    }
}
