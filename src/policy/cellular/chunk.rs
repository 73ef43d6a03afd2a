//! What a task of chains runs: a step of each, or a chunk of steps.
//!
//! A chain is in a task for each chunk of it, and all of these but the last run a whole chunk of it. So what it runs in a task follows from its
//! length and from the number of tasks that it is still in.

use super::chain_queue::Seat;
use super::core::Queue;
use super::requests::{Live, Work};
use crate::task::Part;
use crate::units::{NodeId, WorkerId};

/// What a worker's next task of chains runs.
pub struct Extent {
    /// The steps of the chain that has the most left, up to a chunk of them.
    pub steps: u32,
    /// The input size that it is padded to.
    pub input: u32,
    /// The cells that are its members' own.
    pub useful: u64,
}

impl Extent {
    pub fn of(queue: &Queue, worker: WorkerId, chunk: u32, live: &[Live]) -> Extent {
        let Queue::Chains(queue) = queue else {
            unreachable!("cells with an input size stand alone, and chunks are of chains")
        };
        let mut extent = Extent { steps: 1, input: 0, useful: 0 };
        for (seat, tasks_left) in queue.seats(worker) {
            let live = &live[seat.live as usize];
            let part = part_of(seat, tasks_left, chunk, live);
            let steps = part.to.0 - part.from.0;
            let input = match &live.work {
                Work::Runs { left, .. } => left[0].input,
                Work::Graph(_) => 0,
            };
            extent.steps = steps.max(extent.steps);
            extent.input = input.max(extent.input);
            extent.useful += u64::from(steps) * u64::from(input.max(1));
        }
        extent
    }
}

/// What the next task runs of a chain that is in so many tasks more.
fn part_of(seat: &Seat, tasks_left: u32, chunk: u32, live: &Live) -> Part {
    let length = match &live.work {
        Work::Runs { left, .. } => left[0].length,
        Work::Graph(_) => 1,
    };
    let (behind, done) = (seat.last.0 + 1, length.div_ceil(chunk) - tasks_left);
    let from = behind - length + done * chunk;
    Part { request: live.request, from: NodeId(from), to: NodeId(behind.min(from.saturating_add(chunk))) }
}

/// The parts of chains that a task runs which has just been formed.
pub fn list_parts(queue: &Queue, worker: WorkerId, chunk: u32, live: &[Live], out: &mut Vec<Part>) {
    let Queue::Chains(queue) = queue else { unreachable!("chunks are of chains") };
    let mut seats: Vec<(&Seat, u32)> = queue.seats(worker).collect();
    seats.sort_unstable_by_key(|(seat, _)| seat.released());
    out.extend(seats.into_iter().map(|(seat, left)| part_of(seat, left, chunk, &live[seat.live as usize])));
}
