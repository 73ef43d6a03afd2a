//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tempfile::{Builder, NamedTempFile};

use crate::base::error::{Error, Result, refuse_if};
use crate::base::memory::limit_input;

/// The folder within results for what is still being written, and the prefix of such files elsewhere. What a killed run
/// leaves there can be deleted.
pub const PARTIAL: &str = ".partial";

/// The contents of a file, unpacked if it is compressed with gzip.
pub fn unpack<'a>(input: impl Read + 'a) -> Box<dyn Read + 'a> {
    let mut input = BufReader::with_capacity(1 << 16, input);
    // An error occurs again when the rest is read.
    if input.fill_buf().is_ok_and(is_packed) {
        Box::new(limit_input(MultiGzDecoder::new(input)))
    } else {
        Box::new(limit_input(input))
    }
}

/// Whether a file that starts like this is compressed with gzip.
pub fn is_packed(start: &[u8]) -> bool {
    start.starts_with(&[0x1f, 0x8b])
}

/// Writes a temporary file and renames it, so that readers see either the old file or the new one. Creates the folder
/// if needed. A link of this name is replaced, because it may come from the stranger who made the folder.
///
/// # Errors
/// Names the file that can't be written; the old file stays.
pub fn write_whole(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let partial = create_partial(folder_of(path)?);
    let written = partial.and_then(|mut partial| {
        fill_file(partial.as_file_mut(), fill)?;
        partial
            .persist(path)
            .map(drop)
            .map_err(|failed| failed.error)
    });
    written.map_err(|cause| Error::unwritable(path, &cause))
}

/// Writes a file, as [`write_whole`], at a path that the user has typed: follows links, and writes directly to pipes
/// and the like.
pub fn write_typed(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if !is_no_file(path) {
        return write_whole(&place_of(path)?, fill);
    }
    let opened = File::options().write(true).open(path);
    opened
        .and_then(|mut file| fill_file(&mut file, fill))
        .map_err(|cause| Error::unwritable(path, &cause))
}

fn fill_file(
    file: &mut File,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    fill(&mut out)?;
    out.flush()
}

/// The file, or the target of a link; a folder is an error.
fn place_of(path: &Path) -> Result<PathBuf> {
    let place = match path {
        folder if folder.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        link if link.is_symlink() => fs::canonicalize(link),
        file => Ok(file.to_path_buf()),
    };
    place.map_err(|cause| Error::unwritable(path, &cause))
}

/// Refuses to write to the file that is read, also where a link or another path leads to it.
pub fn refuse_overwrite(input: &Path, out: &Path) -> Result<()> {
    // An output that does not exist yet is no input.
    let same = !is_no_file(out)
        && match (fs::canonicalize(input), fs::canonicalize(out)) {
            (Ok(input), Ok(out)) => input == out,
            _ => false,
        };
    refuse_if(same, || {
        Error::mistake(
            out,
            "is the file that is read, which would be lost; write to another with --out",
        )
    })
}

/// Whether the path is a terminal, a pipe or the like, which a file must not replace.
fn is_no_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Tests whether a file can be written later, so that no work is lost.
pub fn can_write(path: &Path) -> Result<()> {
    if is_no_file(path) {
        // Opening and closing a pipe would end it for its reader.
        return Ok(());
    }
    let place = place_of(path)?;
    let created = create_partial(folder_of(&place)?);
    created
        .and_then(NamedTempFile::close)
        .map_err(|cause| Error::unwritable(path, &cause))
}

/// The folder of a file, created if needed.
fn folder_of(path: &Path) -> Result<&Path> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|cause| Error::unwritable(folder, &cause))?;
    Ok(folder)
}

/// A new file for the contents of one in `folder`: in the results' folder for such files, or else in the same folder.
/// It is removed unless it is renamed.
fn create_partial(folder: &Path) -> io::Result<NamedTempFile> {
    // A point's folder lies two levels below the results.
    let within = folder
        .ancestors()
        .take(3)
        .map(|above| above.join(PARTIAL))
        .find(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()));
    // The file gets the usual permissions; temporary files are by default readable by the user only.
    Builder::new()
        .prefix(PARTIAL)
        .make_in(within.as_deref().unwrap_or(folder), |path| {
            File::options().write(true).create_new(true).open(path)
        })
}

/// A folder's name for any text: letters, digits, space and `. _ - + ( ) = ,` stay, all else becomes `_`, and so do
/// names of dots only, which are other folders' names.
pub fn folder_name(name: &str) -> String {
    let only_dots = name.chars().all(|c| c == '.');
    let mut folder = String::with_capacity(name.len());
    for c in name.chars() {
        let stays = c.is_ascii_alphanumeric() || (" ._-+()=,".contains(c) && !only_dots);
        folder.push(if stays { c } else { '_' });
    }
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_are_followed_only_where_the_user_typed_them() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, null) = (
            dir.path().join("file"),
            dir.path().join("link"),
            dir.path().join("null"),
        );
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        for path in [&link, &null] {
            can_write(path).unwrap();
            write_typed(path, |out| out.write_all(b"new")).unwrap();
            assert!(path.is_symlink(), "{path:?}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(is_no_file(Path::new("/dev/null")));
        // A broken link is reported beforehand.
        fs::remove_file(&file).unwrap();
        let errors = [
            can_write(&link).unwrap_err(),
            write_typed(&link, |_| Ok(())).unwrap_err(),
        ];
        assert!(
            errors
                .iter()
                .all(|error| error.to_string().contains("link: cannot be written: ")),
            "{errors:?}"
        );
        // A link is replaced if the program chose the name.
        for path in [&link, &null] {
            write_whole(path, |out| out.write_all(b"ours")).unwrap();
            assert!(!path.is_symlink() && !file.exists(), "{path:?}");
        }
    }

    #[test]
    fn whether_a_file_can_be_written_shows_beforehand_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("new/file.csv");
        can_write(&file).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 0);
        fs::write(&file, "there").unwrap();
        can_write(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "there");
        for bad in [dir.path().to_path_buf(), file.join("below.csv")] {
            let error = can_write(&bad).unwrap_err().to_string();
            assert!(error.contains("cannot be written"), "{error}");
        }
    }

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
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "no partial file is left"
        );
    }

    #[test]
    fn unfinished_files_of_a_point_lie_in_the_folder_of_the_results() {
        let dir = tempfile::tempdir().unwrap();
        let files_in = |folder: &str| fs::read_dir(dir.path().join(folder)).unwrap().count();
        fs::create_dir_all(dir.path().join("t/.partial")).unwrap();
        fs::create_dir_all(dir.path().join("t/A/200")).unwrap();
        for point in ["t", "t/A", "t/A/200"] {
            write_whole(&dir.path().join(point).join("point.json"), |_| {
                assert_eq!((files_in("t/.partial"), files_in("t/A/200")), (1, 0));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!((files_in("t/.partial"), files_in("t/A/200")), (0, 1));
    }

    #[test]
    fn a_name_becomes_that_of_a_folder() {
        assert_eq!(folder_name("bw=10, 64/128 (é)"), "bw=10, 64_128 (_)");
        assert_eq!(
            (folder_name(".."), folder_name("v1..2")),
            ("__".to_string(), "v1..2".to_string())
        );
    }
}
