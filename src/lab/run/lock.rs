//! The lock on an output folder, which a run holds alone and shards share, and the folder's unfinished files.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::shard::Shard;
use crate::base::error::{Error, Result};
use crate::base::files::PARTIAL;

/// A lock on a folder, which is held until it is dropped or the process ends. While it is held, unfinished files have a
/// folder of their own.
#[derive(Debug)]
pub struct Lock {
    file: File,
    /// Whether the file system has locks, so that no other process can write to the folder.
    pub held: bool,
    partial: PathBuf,
}

/// The start of the name of an empty file among the unfinished ones, before the number of shards.
const SHARDS: &str = "shards-";

impl Lock {
    /// Locks a folder, which is created if needed.
    ///
    /// # Errors
    /// Fails if the folder can't be written, or if another process holds a lock that excludes this one.
    pub fn take(folder: &Path, shard: Option<Shard>) -> Result<Lock> {
        let path = folder.join(".lock");
        let partial = folder.join(PARTIAL);
        fs::create_dir_all(folder).map_err(|cause| Error::unwritable(folder, &cause))?;
        // Network file systems lock only files that are open for writing.
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(|cause| Error::unwritable(&path, &cause))?;
        let locked = if shard.is_some() {
            file.try_lock_shared()
        } else {
            file.try_lock()
        };
        if let Err(TryLockError::WouldBlock) = locked {
            return Err(Error::input(format!(
                "{}: another run is writing to this folder; wait until it has ended, or give another --out",
                folder.display()
            )));
        }
        if partial.is_symlink() {
            // The link would lead out of the results folder.
            let _ = fs::remove_file(&partial);
        }
        let made = fs::create_dir_all(&partial).and_then(|()| match shard {
            None => Ok(()),
            Some(shard) => File::create(partial.join(format!("{SHARDS}{}", shard.count))).map(drop),
        });
        made.map_err(|cause| Error::unwritable(&partial, &cause))?;
        Ok(Lock {
            file,
            held: locked.is_ok(),
            partial,
        })
    }

    /// Removes the files that killed processes have left. All points must be finished, and the lock must not be a
    /// shard's.
    pub fn complete(&self) {
        if self.held {
            // Files that can't be removed change no result.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.partial); // Only if it is empty.
        // Closing the file would also free the lock, unless a child process that was started meanwhile has it open.
        let _ = self.file.unlock();
    }
}

/// The numbers of shards into which an incomplete run was divided: each number that was tried, in any order.
pub fn shards(folder: &Path) -> impl Iterator<Item = u32> {
    let files = fs::read_dir(folder.join(PARTIAL))
        .into_iter()
        .flatten()
        .flatten();
    files.filter_map(|file| {
        file.file_name()
            .to_str()?
            .strip_prefix(SHARDS)?
            .parse()
            .ok()
    })
}
