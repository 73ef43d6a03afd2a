//! Compiled kernels on disk, so that they are compiled once.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

use crate::files;

/// What an entry begins with.
const MAGIC: &[u8; 16] = b"batchlab kernel\n";

/// The folder of entries.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

/// What decides an entry: all that decides what a compiler makes of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

impl Key {
    /// The key of these texts, in this order.
    pub fn of(texts: &[&str]) -> Key {
        let lengths = texts.iter().flat_map(|text| (text.len() as u64).to_le_bytes());
        Key(hash(lengths.chain(texts.iter().flat_map(|text| text.bytes()))))
    }
}

/// FNV-1a with 128 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

impl Cache {
    /// The user's cache, where the system has its place for it.
    pub fn of_user() -> Cache {
        Cache { folder: user_folder(&|name| env::var_os(name)) }
    }

    /// A cache of its own.
    #[cfg(test)]
    pub fn in_folder(folder: &std::path::Path) -> Cache {
        Cache { folder: Some(folder.to_path_buf()) }
    }

    /// An entry, if it is there and whole.
    pub fn get(&self, name: &str, key: Key) -> Option<Vec<u8>> {
        let entry = fs::read(self.path(name, key)?).ok()?;
        let rest = entry.strip_prefix(MAGIC)?.strip_prefix(&key.0.to_le_bytes())?;
        let (check, image) = rest.split_first_chunk::<16>()?;
        (hash(image.iter().copied()).to_le_bytes() == *check).then(|| image.to_vec())
    }

    /// Keeps an entry. Where nothing can be written there is no cache, which costs time alone.
    pub fn put(&self, name: &str, key: Key, image: &[u8]) {
        let Some(path) = self.path(name, key) else { return };
        let check = hash(image.iter().copied()).to_le_bytes();
        let parts: [&[u8]; 4] = [MAGIC, &key.0.to_le_bytes(), &check, image];
        let _ = files::write_whole(&path, |out| parts.iter().try_for_each(|part| out.write_all(part)));
    }

    fn path(&self, name: &str, key: Key) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{name}-{:032x}", key.0)))
    }
}

/// The folder for caches that the XDG base directories name, and in it that of the program.
fn user_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("batchlab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_until_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: Some(folder.path().join("new")) };
        let key = Key::of(&["source", "options"]);
        assert_eq!(cache.get("gates", key), None);
        cache.put("gates", key, b"image");
        assert_eq!(cache.get("gates", key).as_deref(), Some(&b"image"[..]));
        assert_eq!(cache.get("gates", Key::of(&["sourc", "eoptions"])), None);

        let path = cache.path("gates", key).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[1..], b"", b"something else of the same name"] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("gates", key), None);
        }
        // Of another key, under this one's name.
        cache.put("gates", Key::of(&["other"]), b"other");
        fs::copy(cache.path("gates", Key::of(&["other"])).unwrap(), &path).unwrap();
        assert_eq!(cache.get("gates", key), None);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_no_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for folder in [None, Some(file.path().join("below a file"))] {
            let (cache, key) = (Cache { folder }, Key::of(&["source"]));
            cache.put("gates", key, b"image");
            assert_eq!(cache.get("gates", key), None);
        }
    }

    #[test]
    fn the_folder_is_the_users() {
        let with = |xdg: &str, home: &str| {
            let (xdg, home) = (OsString::from(xdg), OsString::from(home));
            user_folder(&move |name| Some(if name == "HOME" { home.clone() } else { xdg.clone() }))
        };
        assert_eq!(with("/caches", "/home/me"), Some("/caches/batchlab".into()));
        assert_eq!(with("relative", "/home/me"), Some("/home/me/.cache/batchlab".into()));
        assert_eq!(with("", ""), None);
    }
}
