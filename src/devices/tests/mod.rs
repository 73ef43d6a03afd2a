pub mod listed_networks;
pub mod policies;
pub mod policy_mistakes;
