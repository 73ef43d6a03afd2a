//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The beginning of the name of a file that is still being written. One that a killed run left behind can be deleted.
pub const PARTIAL_PREFIX: &str = ".partial-";

/// Writes a file beside its place and renames it into it, so that whoever looks sees the old file or the new one. The
/// folder is made if it is not there.
///
/// # Errors
/// Names the file that can't be written; what stood in its place before stays.
pub fn write_whole(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|cause| Error::unwritable(folder, &cause))?;
    let partial = partial_name(folder, path);
    let written = File::create(&partial).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 16, file);
        fill(&mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&partial, path)
    });
    written.map_err(|cause| {
        // The message about the write matters more than one about the clean-up.
        let _ = fs::remove_file(&partial);
        Error::unwritable(path, &cause)
    })
}

fn partial_name(folder: &Path, path: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = COUNT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{PARTIAL_PREFIX}{}-{unique}-{name}", std::process::id()))
}

/// The folder of a name: letters, digits, space and `. _ - + ( ) = ,` stay, all else becomes `_`.
pub fn folder_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || " ._-+()=,".contains(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.csv");
        write_whole(&path, |out| out.write_all(b"old")).unwrap();
        let error = write_whole(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("disk on fire"))
        });
        assert!(error.unwrap_err().to_string().contains("disk on fire"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no partial file is left");
    }

    #[test]
    fn a_name_becomes_that_of_a_folder() {
        assert_eq!(folder_name("bw=10, 64/128 (é)"), "bw=10, 64_128 (_)");
    }
}
