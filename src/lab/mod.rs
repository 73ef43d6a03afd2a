//! What asks: scenarios, their runs and searches, results, figures, and the tools around them.

pub mod usability;

pub mod results;

pub mod plot;
pub mod scenario;

pub mod figures;
pub mod run;

pub mod search;

pub mod validate;

pub mod explain;
pub mod import;
pub mod page;
pub mod profile;
