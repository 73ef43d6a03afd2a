//! What the tests of the real backends share.

pub mod listed_networks;
