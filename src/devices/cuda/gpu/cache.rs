//! The cache of compiled kernels and tuned mappings, in the user's folder for caches.

use std::ffi::OsString;
use std::path::PathBuf;
use std::{env, fs};

use crate::base::files;

/// The beginning of every entry.
const MAGIC: &[u8; 16] = b"batchlab kernel\n";

/// A cache on disk.
#[derive(Clone, Debug)]
pub(super) struct KernelCache {
    /// The folder of the entries, or `None` if nothing is kept.
    folder: Option<PathBuf>,
}

/// The key of an entry: a hash of everything that determines the compiler's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheKey(u128);

impl CacheKey {
    pub fn from_texts(texts: &[&str]) -> CacheKey {
        let lengths = texts
            .iter()
            .flat_map(|text| (text.len() as u64).to_le_bytes());
        CacheKey(hash(
            lengths.chain(texts.iter().flat_map(|text| text.bytes())),
        ))
    }
}

/// The FNV-1a hash with 128 bits.
fn hash(bytes: impl Iterator<Item = u8>) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.fold(BASIS, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    })
}

impl KernelCache {
    /// The user's cache, in the system's place for caches.
    pub fn user_cache() -> KernelCache {
        KernelCache {
            folder: user_folder(&|name| env::var_os(name)),
        }
    }

    #[cfg(test)]
    pub fn from_folder(folder: &std::path::Path) -> KernelCache {
        KernelCache {
            folder: Some(folder.to_path_buf()),
        }
    }

    /// An entry, if it exists and is undamaged.
    pub fn get(&self, name: &str, key: CacheKey) -> Option<Vec<u8>> {
        let entry = fs::read(self.path(name, key)?).ok()?;
        let rest = entry
            .strip_prefix(MAGIC)?
            .strip_prefix(&key.0.to_le_bytes())?;
        let (check, image) = rest.split_first_chunk::<16>()?;
        if hash(image.iter().copied()).to_le_bytes() == *check {
            Some(image.to_vec())
        } else {
            None
        }
    }

    /// Stores an entry. If the folder can't be written to, only time is lost.
    pub fn put(&self, name: &str, key: CacheKey, image: &[u8]) {
        let Some(path) = self.path(name, key) else {
            return;
        };
        let check = hash(image.iter().copied()).to_le_bytes();
        let parts: [&[u8]; 4] = [MAGIC, &key.0.to_le_bytes(), &check, image];
        let _ = files::write_whole(&path, |out| {
            parts.iter().try_for_each(|part| out.write_all(part))
        });
    }

    fn path(&self, name: &str, key: CacheKey) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{name}-{:032x}", key.0)))
    }
}

/// The program's folder among the user's caches, which the XDG base directories determine.
fn user_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let mut folders = [
        variable("XDG_CACHE_HOME").map(PathBuf::from),
        variable("HOME").map(|home| PathBuf::from(home).join(".cache")),
    ]
    .into_iter()
    .flatten();
    let caches = folders.find(|folder| folder.is_absolute())?;
    Some(caches.join("batchlab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_until_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = KernelCache {
            folder: Some(folder.path().join("new")),
        };
        let key = CacheKey::from_texts(&["source", "options"]);
        assert_eq!(cache.get("gates", key), None);
        cache.put("gates", key, b"image");
        assert_eq!(cache.get("gates", key).as_deref(), Some(&b"image"[..]));
        assert_eq!(
            cache.get("gates", CacheKey::from_texts(&["sourc", "eoptions"])),
            None
        );

        let path = cache.path("gates", key).unwrap();
        let whole = fs::read(&path).unwrap();
        for damaged in [
            &whole[..whole.len() - 1],
            &whole[1..],
            b"",
            b"something else of the same name",
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.get("gates", key), None);
        }
        // This is the entry of another key under this key's name.
        cache.put("gates", CacheKey::from_texts(&["other"]), b"other");
        fs::copy(
            cache
                .path("gates", CacheKey::from_texts(&["other"]))
                .unwrap(),
            &path,
        )
        .unwrap();
        assert_eq!(cache.get("gates", key), None);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_no_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for folder in [None, Some(file.path().join("below a file"))] {
            let cache = KernelCache { folder };
            let key = CacheKey::from_texts(&["source"]);
            cache.put("gates", key, b"image");
            assert_eq!(cache.get("gates", key), None);
        }
    }

    #[test]
    fn the_folder_is_the_users() {
        let with = |xdg: &str, home: &str| {
            let xdg = OsString::from(xdg);
            let home = OsString::from(home);
            user_folder(&move |name| {
                Some(if name == "HOME" {
                    home.clone()
                } else {
                    xdg.clone()
                })
            })
        };
        assert_eq!(with("/caches", "/home/me"), Some("/caches/batchlab".into()));
        assert_eq!(
            with("relative", "/home/me"),
            Some("/home/me/.cache/batchlab".into())
        );
        assert_eq!(with("", ""), None);
    }
}
