//! Steps of chains on several streams of each worker at once, for the share of the device that a step uses.
//!
//! Streams that run the same tasks side by side have equal parts of the device. If four of them each do a step in four
//! times its time alone, a step needs the whole device; if in the same time, at most a fourth. Two streams are a check.
//! A task has several steps, so that the host queues them faster than the device runs them.

use super::samples::Kind;
use super::steady::{Bench, ROWS, Supply, Trains};
use super::{Profile, Subject, id_of, unfolded};
use crate::base::error::Result;
use crate::core::task::{MemberList, Step};
use crate::lab::run::executor::Preparation;

/// Streams of a worker that run at the same time.
const STREAMS: [u16; 3] = [1, 2, 4];
pub const KINDS: [Kind; 2] = [Kind::Streams(1), Kind::Streams(4)];

/// The steps of a task.
const STEPS: u32 = 8;

/// The tasks of a stream in a row.
const TRAIN: usize = 12;

/// Each already has many steps.
const MOST_TRAINS: u32 = 2;

/// Visits each batch size once. Members stay.
pub fn measure(
    bench: &Bench,
    subject: &mut Subject<'_>,
    batches: &[u32],
    profile: &mut Profile,
) -> Result<()> {
    let Subject {
        wanted,
        settings,
        steps,
        ..
    } = *subject;
    let Some((cell, shape)) = bench.chain() else {
        return Ok(());
    };
    let (most, lanes) = (
        batches.iter().max().copied().unwrap_or(1),
        STREAMS.into_iter().max().unwrap_or(1),
    );
    let requests = vec![shape.clone(); settings.workers * usize::from(lanes) * most as usize];
    let requests = unfolded(requests, &wanted.model)?;
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
        let first = |_, lane, supply: &mut Supply| {
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
    run(lanes, most)?; // Warms up.
    for &batch in batches {
        for _ in 0..(ROWS / batch).clamp(1, MOST_TRAINS) {
            for streams in STREAMS {
                let durations = run(streams, batch)?.durations();
                profile
                    .times
                    .at(Kind::Streams(streams), cell, 0, batch)
                    .extend(durations);
            }
        }
        steps.done()?;
    }
    Ok(())
}
