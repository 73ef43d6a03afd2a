//! Goodput against the offered rate: requests per second that finished within the SLO, and the line on which all do.

use super::by_rate::ByRate;
use super::{Drawing, Inputs, Options, or_nothing};

pub(super) fn figure(inputs: &Inputs, options: &Options) -> Drawing {
    let goodput = or_nothing!(ByRate::read(inputs, options, "goodput_rps", "; goodput needs an SLO in the scenario")?);
    goodput.requests(options, "Goodput (requests/s)", "all within the SLO")
}
