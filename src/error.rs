//! What can go wrong, and whose fault it is.
//!
//! A message is a chain from the outside in (`file: line: key: what, what is allowed`), in lower case and without
//! a full stop. Each level that knows more adds its part with [`Context::within`].

use std::fmt::Display;
use std::path::Path;

/// An error of batchlab. The variant decides the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's mistake: a bad file, key, value or option. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// The machine's: a disk that is full, a folder that can't be written, a check that failed. Exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The user stopped the run. Exit code 1.
    #[error("interrupted")]
    Interrupted,
}

/// `Result` with batchlab's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A user's mistake.
    pub fn input(message: impl Display) -> Self {
        Error::Input(message.to_string())
    }

    /// A failure that is not the user's mistake.
    pub fn failed(message: impl Display) -> Self {
        Error::Failed(message.to_string())
    }

    /// An input file that can't be read.
    pub fn unreadable(path: &Path, cause: &std::io::Error) -> Self {
        Error::Input(format!("{}: cannot be read: {cause}", path.display()))
    }

    /// An output file or folder that can't be written.
    pub fn unwritable(path: &Path, cause: &std::io::Error) -> Self {
        Error::Failed(format!("{}: cannot be written: {cause}", path.display()))
    }

    /// The same error in other words.
    fn rewritten(self, words: impl FnOnce(String) -> String) -> Error {
        match self {
            Error::Input(message) => Error::Input(words(message)),
            Error::Failed(message) => Error::Failed(words(message)),
            Error::Interrupted => Error::Interrupted,
        }
    }

    /// The process's exit code for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input(_) => 2,
            Error::Failed(_) | Error::Interrupted => 1,
        }
    }
}

/// Adds what is known of an error outside of where it happened.
pub trait Context<T> {
    /// Puts `place: ` before the message.
    fn within(self, place: impl Display) -> Result<T>;

    /// Puts `, or way out` behind the message.
    fn or_way_out(self, way: impl Display) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn within(self, place: impl Display) -> Result<T> {
        self.map_err(|error| error.rewritten(|message| format!("{place}: {message}")))
    }

    fn or_way_out(self, way: impl Display) -> Result<T> {
        self.map_err(|error| error.rewritten(|message| format!("{message}, or {way}")))
    }
}
