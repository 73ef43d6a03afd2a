//! Errors, by who can fix them.
//!
//! A message goes from the outside in (`file: line: key: what, what is allowed`), in lower case and without a full
//! stop. Each level that knows more adds its part with [`Context::within`].

use std::borrow::Cow;
use std::fmt::Display;
use std::path::Path;

/// An error of batchlab. The variant determines the exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's mistake: a bad file, key, value or option. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// A failure of the machine or of a check: a full disk, a folder that can't be written. Exit code 1.
    #[error("{0}")]
    Failed(String),
    /// Points of a run are missing that other shards have to compute. Exit code 3.
    #[error("{0}")]
    Incomplete(String),
    /// A measurement is too inaccurate to be used (`--strict`). Exit code 4.
    #[error("{0}")]
    Unusable(String),
    /// The user stopped the run. Exit code 1.
    #[error("interrupted")]
    Interrupted,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn input(message: impl Display) -> Self {
        Error::Input(message.to_string())
    }

    pub fn failure(message: impl Display) -> Self {
        Error::Failed(message.to_string())
    }

    /// An error that lists several mistakes of the user, one per line and each once.
    pub fn all(errors: Vec<Error>) -> Self {
        let mut lines: Vec<String> = Vec::new();
        for error in errors {
            for line in error.to_string().lines() {
                if !lines.iter().any(|known| known == line) {
                    lines.push(line.to_string());
                }
            }
        }
        Error::Input(lines.join("\n"))
    }

    /// A mistake in a file or folder, or in something in it.
    pub fn mistake(path: &Path, what: impl Display) -> Self {
        Error::Input(format!("{}: {what}", path.display()))
    }

    pub fn unreadable(path: &Path, cause: &std::io::Error) -> Self {
        Error::mistake(path, format_args!("cannot be read: {cause}"))
    }

    pub fn unwritable(path: &Path, cause: &std::io::Error) -> Self {
        Error::Failed(format!("{}: cannot be written: {cause}", path.display()))
    }

    /// The error with another message, made of the present one.
    fn rewrite(mut self, words: impl FnOnce(&str) -> String) -> Error {
        if let Error::Input(message)
        | Error::Failed(message)
        | Error::Incomplete(message)
        | Error::Unusable(message) = &mut self
        {
            *message = words(message);
        }
        self
    }

    /// The exit code of a program that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Input(_) => 2,
            Error::Failed(_) | Error::Interrupted => 1,
            Error::Incomplete(_) => 3,
            Error::Unusable(_) => 4,
        }
    }
}

/// Returns an error if something is wrong: `refuse_if(a > b, || format!("a: {a} is more than b ({b})"))?`.
pub fn refuse_if<E>(wrong: bool, error: impl FnOnce() -> E) -> Result<(), E> {
    if wrong { Err(error()) } else { Ok(()) }
}

/// The question `; did you mean workers?` if a known name is similar, otherwise an empty text.
pub fn nearest(name: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .min();
    let similar = nearest.filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    match similar {
        Some((_, candidate)) => format!("; did you mean {candidate}?"),
        None => String::new(),
    }
}

/// A count with its noun, such as `1 worker` or `2 workers`.
pub fn plural(count: usize, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

/// A text for a terminal or a figure: each control character, which texts of files may have, becomes a replacement
/// character. Line breaks and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(is_harmful) {
        text.replace(is_harmful, "\u{fffd}").into()
    } else {
        text.into()
    }
}

fn is_harmful(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// Adds context to an error.
pub trait Context<T> {
    /// Puts `place: ` before the message.
    fn within(self, place: impl Display) -> Result<T>;

    /// Puts `, or way out` after the message.
    fn or_way_out(self, way: impl Display) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn within(self, place: impl Display) -> Result<T> {
        self.map_err(|error| error.rewrite(|message| format!("{place}: {message}")))
    }

    fn or_way_out(self, way: impl Display) -> Result<T> {
        self.map_err(|error| error.rewrite(|message| format!("{message}, or {way}")))
    }
}
