//! The policies that a scenario can name.
