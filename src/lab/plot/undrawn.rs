//! Why a figure could not be drawn.

use std::fmt::Display;

use super::canvas::Canvas;
use crate::base::error::{Error, Result};

/// A drawn figure, or the reason why there is none.
pub type Drawing = Result<Canvas, Undrawn>;

/// The reason why a figure could not be drawn.
#[derive(Debug)]
pub enum Undrawn {
    /// Well-formed inputs lack the data. The text has the reason and, if possible, what the user can do.
    Nothing(String),
    /// Inputs are broken, or a policy or a point is unknown.
    Broken(Error),
}

impl From<Error> for Undrawn {
    fn from(error: Error) -> Undrawn {
        Undrawn::Broken(error)
    }
}

impl Undrawn {
    /// The error for a user who asked for this kind of figure.
    pub fn error(self, kind: impl Display) -> Error {
        match self {
            Undrawn::Nothing(why) => Error::input(format!("{kind}: {why}")),
            Undrawn::Broken(error) => error,
        }
    }
}

/// Inputs that lack the data, for this reason.
pub fn nothing(why: impl Into<String>) -> Undrawn {
    Undrawn::Nothing(why.into())
}
