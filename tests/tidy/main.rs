//! The rules of the house that a program can check. CONTRIBUTING.md lists them; each failure names the file, the line and
//! the rule.

mod circles;
mod documents;
mod names;
mod rooms;
mod source;
mod wording;
