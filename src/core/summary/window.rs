use crate::base::units::{Nanos, Rate};
use crate::core::record::tally::Tally;

/// The window contains at least this fraction of the requests that finished after its start.
const WINDOW_SHARE: (usize, usize) = (9, 10);

/// The window in which requests that finish count for the throughput; both ends are included. It begins with the first
/// measured arrival and ends with the last arrival, so that stragglers don't count as idle capacity. It is longer if
/// nine tenths of the requests have not finished by then, so that an overloaded run is measured while it works. If all
/// requests arrive at once, it is the whole run.
#[derive(Clone, Copy)]
pub(super) struct Window {
    from: Nanos,
    to: Nanos,
}

impl Window {
    /// The window of a run, or `None` without a measured arrival.
    pub fn new(run: &Tally) -> Option<Window> {
        let (from, last) = run.period?;
        let inside = run.inside.all as usize;
        let all = inside + run.late.iter().map(Vec::len).sum::<usize>();
        let needed = if from == last {
            all
        } else {
            (all * WINDOW_SHARE.0).div_ceil(WINDOW_SHARE.1)
        };
        let Some(place) = needed.checked_sub(inside + 1) else {
            return Some(Window { from, to: last });
        };
        let mut late = run.late.concat();
        let (_, to, _) = late.select_nth_unstable(place);
        Some(Window { from, to: *to })
    }

    /// The rates at which all requests finished and at which those within the objective did, or `None` without time.
    pub fn rates(self, tally: &Tally) -> Option<[Rate; 2]> {
        let seconds = (self.to - self.from).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let [missed, good] = tally
            .late
            .each_ref()
            .map(|times| times.iter().filter(|at| **at <= self.to).count() as u64);
        let counts = [tally.inside.all + missed + good, tally.inside.good + good];
        Some(counts.map(|count| Rate(count as f64 / seconds)))
    }
}
