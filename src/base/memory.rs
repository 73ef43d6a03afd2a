//! The machine's memory: what needs more than is free is refused before it is allocated, since an allocation that fails
//! ends the process.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::base::error::{Error, Result, refuse_if};

/// The bytes that this process can still take without swapping, within the limits of its container and of its address
/// space (`ulimit -v`); `None` if unknown, as on systems without `/proc`.
pub fn free() -> Option<u128> {
    let mut free = kibibytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    for limit in [free_in_container(), free_address_space()] {
        free = limit.unwrap_or(u128::MAX).min(free);
    }
    Some(free)
}

/// The number of bytes in a line such as `MemAvailable: 1024 kB`.
fn kibibytes(report: &str, name: &str) -> Option<u128> {
    let line = report.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The bytes up to the limit of the address space, if it has one.
fn free_address_space() -> Option<u128> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u128 = line.split_whitespace().next()?.parse().ok()?;
    let used = kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(used))
}

/// The files of a version of control groups, in which Linux limits containers.
struct ControlGroupFiles {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The line of `memory.stat` with the cached files that the kernel drops first.
    cached: &'static str,
}

const CONTROL_GROUPS: ControlGroupFiles = ControlGroupFiles {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    cached: "inactive_file ",
};

const CONTROL_GROUPS_1: ControlGroupFiles = ControlGroupFiles {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: "total_inactive_file ",
};

/// The bytes up to the limit of the process's control groups; `None` without a limit.
fn free_in_container() -> Option<u128> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let files = match controllers {
            "" => CONTROL_GROUPS,
            _ if controllers.split(',').any(|name| name == "memory") => CONTROL_GROUPS_1,
            _ => continue,
        };
        // A container may see its own group as the root, so the groups above the named one count as well.
        for group in Path::new(group.trim_start_matches('/')).ancestors() {
            let free = files.free(&Path::new(files.root).join(group));
            least = least.into_iter().chain(free).min();
        }
    }
    least
}

impl ControlGroupFiles {
    /// The bytes up to the limit of a group; `None` without a limit, which version 2 calls "max".
    fn free(&self, group: &Path) -> Option<u128> {
        let number = |name| {
            fs::read_to_string(group.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let limit: u128 = number(self.limit)?;
        let used: u128 = number(self.used)?;
        let report = fs::read_to_string(group.join("memory.stat")).ok()?;
        let cached = report
            .lines()
            .find_map(|line| line.strip_prefix(self.cached));
        let cached: u128 = cached
            .and_then(|bytes| bytes.trim().parse().ok())
            .unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    }
}

/// Fails if these bytes are not free. `what` is what needs them, such as `requests = 9`; `instead` is the way out.
pub fn require(bytes: u128, what: impl Display, instead: &str) -> Result<()> {
    match free() {
        Some(free) if free < bytes => {
            let [bytes, free] = [bytes, free].map(binary_size);
            Err(Error::input(format!(
                "{what} needs about {bytes} of memory, and {free} are free; {instead}"
            )))
        }
        _ => Ok(()),
    }
}

/// A number of bytes in GiB, or in MiB if it is smaller.
pub fn binary_size(bytes: u128) -> String {
    let bytes = bytes as f64;
    let gibibyte = f64::from(1 << 30);
    if bytes < gibibyte {
        format!("{:.0} MiB", bytes / f64::from(1 << 20))
    } else {
        format!("{:.1} GiB", bytes / gibibyte)
    }
}

/// Limits what is read of a text to a quarter of the free memory, and a line to 256 MiB, to which the blank lines before
/// it count: a device such as /dev/zero has no end, and a small compressed file may hold gigabytes of blank lines.
pub fn limit_input(input: impl Read) -> impl Read {
    let left = free().map_or(u64::MAX, |free| (free / 4).try_into().unwrap_or(u64::MAX));
    Bounded {
        input,
        left,
        line: 0,
        is_blank: true,
        longest: 256 << 20,
    }
}

struct Bounded<R> {
    input: R,
    left: u64,
    /// The bytes of the last line so far, and of the blank lines before it.
    line: usize,
    /// Whether these bytes are all blank.
    is_blank: bool,
    longest: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        let left = self.left.checked_sub(read as u64);
        self.left =
            left.ok_or_else(|| io::Error::other("is longer than a quarter of the free memory"))?;
        let text = &to[..read];
        let is_blank = |bytes: &[u8]| bytes.trim_ascii_start().is_empty();
        match text.iter().rposition(|byte| *byte == b'\n') {
            Some(end) if !(self.is_blank && is_blank(&text[..end])) => {
                let next = &text[end + 1..];
                self.line = next.len();
                self.is_blank = is_blank(next);
            }
            _ => {
                self.line += read;
                self.is_blank = self.is_blank && is_blank(text);
            }
        }
        refuse_if(self.line > self.longest, || {
            let most = self.longest >> 20;
            io::Error::other(format!(
                "a line, or a run of blank lines, is longer than {most} MiB; shorten it"
            ))
        })?;
        Ok(read)
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
            error.starts_with(start) && error.ends_with("iB are free; draw fewer"),
            "{error}"
        );
        require(1, "a byte", "").unwrap();
    }

    #[test]
    fn a_container_has_its_limit_without_what_files_are_cached() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("memory.max", "1000\n");
        write("memory.current", "900\n");
        write(
            "memory.stat",
            "anon 500\ninactive_file 300\nactive_file 100\n",
        );
        assert_eq!(CONTROL_GROUPS.free(group.path()), Some(400));
        write("memory.max", "max\n");
        assert_eq!(CONTROL_GROUPS.free(group.path()), None);
        assert_eq!(CONTROL_GROUPS_1.free(group.path()), None, "it has no files");
        let report = "MemTotal: 9 kB\nMemAvailable:     2 kB\n";
        assert_eq!(kibibytes(report, "MemAvailable:"), Some(2048));
        assert_eq!(kibibytes(report, "SwapFree:"), None);
    }

    #[test]
    fn endless_input_ends_in_an_error() {
        // Two lines of these bytes.
        let read = |first: u8, second: u8, left| {
            let line = |byte, length| io::repeat(byte).take(length);
            let input = line(first, 1 << 20)
                .chain(&b"\n"[..])
                .chain(line(second, 1_000));
            let mut bounded = Bounded {
                input,
                left,
                line: 0,
                is_blank: true,
                longest: 1 << 20,
            };
            io::copy(&mut bounded, &mut io::sink()).map_err(|error| error.to_string())
        };
        let bytes = (1 << 20) + 1_001;
        let too_long = "a line, or a run of blank lines, is longer than 1 MiB; shorten it";
        assert_eq!(read(b'a', b'a', bytes), Ok(bytes));
        assert_eq!(read(b'a', b'\n', bytes), Ok(bytes));
        assert_eq!(read(b'\n', b'a', bytes), Err(too_long.into()));
        assert_eq!(read(b' ', b'\n', bytes), Err(too_long.into()));
        assert_eq!(
            read(b'a', b'a', bytes - 1),
            Err("is longer than a quarter of the free memory".into())
        );
    }
}
