//! The machine's memory: what needs more than is free is refused before it is allocated, since an allocation that fails
//! ends the process.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read};

use crate::error::{Error, Result};

/// In bytes, without swapping; `None` if unknown.
pub fn free() -> Option<u128> {
    let said = fs::read_to_string("/proc/meminfo").ok()?;
    let line = said.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Fails if that many bytes are not free. `what` has the need, as in `requests = 9`; `instead` is the way out.
pub fn require(bytes: u128, what: impl Display, instead: &str) -> Result<()> {
    match free() {
        Some(free) if free < bytes => {
            let [bytes, free] = [bytes, free].map(gibibytes);
            Err(Error::input(format!("{what} needs about {bytes} of memory, and {free} are free; {instead}")))
        }
        _ => Ok(()),
    }
}

pub fn gibibytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

/// Input that is read to its end, which a device such as /dev/zero does not have: fails beyond a quarter of the free
/// memory.
pub fn bounded(input: impl Read) -> impl Read {
    let limit = free().map_or(u64::MAX, |free| (free / 4).try_into().unwrap_or(u64::MAX));
    Bounded { input, left: limit }
}

struct Bounded<R> {
    input: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| io::Error::other("is longer than a quarter of the free memory"))?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_more_than_is_free_is_refused() {
        let error = require(1 << 60, "requests = 9", "draw fewer").unwrap_err().to_string();
        let start = "requests = 9 needs about 1073741824.0 GiB of memory, and ";
        assert!(error.starts_with(start) && error.ends_with(" GiB are free; draw fewer"), "{error}");
        require(1, "a byte", "").unwrap();
    }

    #[test]
    fn endless_input_ends_in_an_error() {
        let read = |left| io::copy(&mut Bounded { input: io::repeat(7).take(1000), left }, &mut io::sink());
        assert_eq!(read(1000).unwrap(), 1000);
        assert_eq!(read(999).unwrap_err().to_string(), "is longer than a quarter of the free memory");
    }
}
