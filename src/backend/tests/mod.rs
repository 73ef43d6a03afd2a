pub mod listed_networks;
pub mod policy_mistakes;
