//! The simulated backend: a virtual clock, and workers whose tasks take what the cost model says.
