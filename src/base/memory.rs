//! The machine's memory: what needs more than is free is refused before it is allocated, since an allocation that fails
//! ends the process.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read};

use crate::base::error::{Error, Result};

/// The bytes that are free without swapping and within the limit of a container; `None` if unknown.
pub fn free() -> Option<u128> {
    let report = fs::read_to_string("/proc/meminfo").ok()?;
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    // The text "max" means that there is no limit.
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|limit| limit.trim().parse().ok());
    Some(limit.unwrap_or(u128::MAX).min(kibibytes * 1024))
}

/// Fails if these bytes are not free. `what` is what needs them, such as `requests = 9`; `instead` is the way out.
pub fn require(bytes: u128, what: impl Display, instead: &str) -> Result<()> {
    match free() {
        Some(free) if free < bytes => {
            let [bytes, free] = [bytes, free].map(gibibytes);
            Err(Error::input(format!(
                "{what} needs about {bytes} of memory, and {free} are free; {instead}"
            )))
        }
        _ => Ok(()),
    }
}

pub fn gibibytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Limits what is read of a text to a quarter of the free memory, and a line to 256 MiB: a device such as /dev/zero has
/// no end.
pub fn limit_input(input: impl Read) -> impl Read {
    let left = free().map_or(u64::MAX, |free| (free / 4).try_into().unwrap_or(u64::MAX));
    Bounded {
        input,
        left,
        line: 0,
        longest: 256 << 20,
    }
}

struct Bounded<R> {
    input: R,
    left: u64,
    /// The bytes of the last line so far.
    line: usize,
    longest: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        let left = self.left.checked_sub(read as u64);
        self.left =
            left.ok_or_else(|| io::Error::other("is longer than a quarter of the free memory"))?;
        let end = to[..read].iter().rposition(|byte| *byte == b'\n');
        self.line = end.map_or(self.line + read, |end| read - end - 1);
        if self.line > self.longest {
            Err(io::Error::other("a line is too long"))
        } else {
            Ok(read)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_more_than_is_free_is_refused() {
        let error = require(1 << 60, "requests = 9", "draw fewer")
            .unwrap_err()
            .to_string();
        let start = "requests = 9 needs about 1073741824.0 GiB of memory, and ";
        assert!(
            error.starts_with(start) && error.ends_with(" GiB are free; draw fewer"),
            "{error}"
        );
        require(1, "a byte", "").unwrap();
    }

    #[test]
    fn endless_input_ends_in_an_error() {
        let read = |left, longest| {
            let input = io::repeat(7)
                .take(600)
                .chain(&b"\n"[..])
                .chain(io::repeat(7).take(399));
            io::copy(
                &mut Bounded {
                    input,
                    left,
                    line: 0,
                    longest,
                },
                &mut io::sink(),
            )
            .map_err(|error| error.to_string())
        };
        assert_eq!(read(1000, 600), Ok(1000));
        assert_eq!(
            read(999, 600),
            Err("is longer than a quarter of the free memory".into())
        );
        assert_eq!(read(1000, 599), Err("a line is too long".into()));
    }
}
