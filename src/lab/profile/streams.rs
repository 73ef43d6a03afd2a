//! Steps of chains on several streams of each worker at once, for the share of the device that a step uses.
//!
//! Streams that run the same tasks side by side have equal parts of the device. If each of four streams needs four
//! times as long for a step as a stream alone, a step uses the whole device; if it needs the same time, at most a
//! fourth. The times on two streams are a check. A task has several steps, so that the host queues them faster than the
//! device runs them.

use super::samples::TaskKind;
use super::steady::{NodeSupply, ROWS, SteadyBench, Trains};
use super::{NetworkProfile, ProfileSubject, build_requests, id_of};
use crate::base::error::Result;
use crate::core::task::{MemberList, Step};
use crate::lab::run::executor::Preparation;

/// The numbers of streams of a worker that run at the same time.
const STREAMS: [u16; 3] = [1, 2, 4];
/// The kinds of tasks whose times can be doubtful.
pub const KINDS: [TaskKind; 2] = [TaskKind::Streams(1), TaskKind::Streams(4)];

/// The steps of a task.
const STEPS: u32 = 8;

/// The tasks of a stream in a row.
const TRAIN: usize = 12;

/// The most trains of a batch size. Each already has many steps.
const MOST_TRAINS: u32 = 2;

/// Visits each batch size once, with the same members in all tasks.
pub fn measure(
    bench: &SteadyBench,
    subject: &mut ProfileSubject<'_>,
    batches: &[u32],
    profile: &mut NetworkProfile,
) -> Result<()> {
    let ProfileSubject {
        wanted,
        settings,
        steps,
        ..
    } = *subject;
    let Some((cell, shape)) = bench.chain() else {
        return Ok(());
    };
    let most = batches.iter().max().copied().unwrap_or(1);
    let lanes = STREAMS.into_iter().max().unwrap_or(1);
    let requests = vec![shape.clone(); settings.workers * usize::from(lanes) * most as usize];
    let requests = build_requests(requests, &wanted.model)?;
    let preparation = Preparation {
        streams: lanes,
        runs_several_steps: true,
        batch_sizes: batches.to_vec(),
        ..subject.preparation(most)?
    };
    let mut trains = Trains::with_preparation(subject, &requests, &preparation)?;
    let members = |(worker, stream): (usize, u16), batch: u32| {
        let first = (worker * usize::from(lanes) + usize::from(stream)) * most as usize;
        first..first + batch as usize
    };
    if cell == "decoder" {
        let step = Step {
            cell: id_of(&wanted.model, "encoder"),
            batch: most,
            times: 1,
            input: 0,
        };
        let first = |_, lane, supply: &mut NodeSupply| {
            (step, MemberList::Nodes(supply.nodes(members(lane, most))))
        };
        trains.run_side_by_side(lanes, 1, first)?;
    }
    let id = id_of(&wanted.model, cell);
    let mut run = |streams: u16, batch: u32| {
        trains.run_side_by_side(streams, TRAIN, |_, lane, supply| {
            let parts = supply.parts(members(lane, batch), STEPS).collect();
            (
                Step {
                    cell: id,
                    batch,
                    times: STEPS,
                    input: 0,
                },
                MemberList::Parts(parts),
            )
        })
    };
    // Warm up.
    run(lanes, most)?;
    for &batch in batches {
        for _ in 0..(ROWS / batch).clamp(1, MOST_TRAINS) {
            for streams in STREAMS {
                let durations = run(streams, batch)?.durations();
                profile
                    .times
                    .samples(TaskKind::Streams(streams), cell, 0, batch)
                    .extend(durations);
            }
        }
        steps.count()?;
    }
    Ok(())
}
