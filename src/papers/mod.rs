//! The papers' figures and claims.
//!
//! An [`Exhibit`] is a figure or table of a paper, a [`Claim`](paper::Claim) a value that its text states; both are
//! data in a TOML file for each paper. A [`ReproductionPlan`] reproduces exhibits: each kind of exhibit is a
//! [`Reproduction`](reproduction::Reproduction), with points and a run. A claim's check compares the paper's value with
//! this project's results; a claim that does not hold is shown with its reason. No cost table is fitted to make a claim
//! hold: a claim that a table's row was made from is [derived](verdict::ClaimOutcome::Derived) and not counted.

mod batchmaker;
mod claims;
mod continuous;
mod dvabatch;
mod findings;
mod grnn;
pub mod jit;
mod kinds;
mod late;
mod numbers;
pub mod paper;
mod plan;
pub mod report;
pub mod reproduction;
mod study;
mod study_runner;
mod value;
mod verdict;

pub use claims::{CheckedClaim, check_claims};
pub use findings::Findings;
pub use grnn::measured;
pub use paper::{Exhibit, Paper};
pub use plan::ReproductionPlan;
