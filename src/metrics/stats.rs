//! Statistics: quantiles, intervals, warm-up.
