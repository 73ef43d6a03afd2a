//! Delivered throughput against the offered rate, and the line on which all that is offered is delivered.

use super::by_rate::ByRate;
use super::{Drawing, Inputs, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let throughput = or_nothing!(ByRate::read(inputs, options, "throughput_rps", "")?);
    throughput.requests(options, "Throughput (requests/s)", "all that is offered")
}
