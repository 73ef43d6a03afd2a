//! What the tests of the real backends share.

pub mod listed_networks;
pub mod policy_mistakes;
