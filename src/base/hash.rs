//! A hash that is the same on every platform.

use std::fmt;
use std::io::{self, Read};

/// The hash of the bytes that were added (FNV-1a). Its text is the number in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a(u64);

impl Fnv1a {
    pub fn new() -> Fnv1a {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }

    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl fmt::Display for Fnv1a {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

pub fn hash_bytes(bytes: &[u8]) -> Fnv1a {
    let mut hash = Fnv1a::new();
    hash.add(bytes);
    hash
}

/// The hash of bytes as a number.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    hash_bytes(bytes).0
}

/// A reader that hashes what is read through it.
pub struct HashedReader<R> {
    input: R,
    hash: Fnv1a,
}

impl<R: Read> HashedReader<R> {
    pub fn new(input: R) -> HashedReader<R> {
        HashedReader {
            input,
            hash: Fnv1a::new(),
        }
    }

    /// The hash of all that the input has, of which the rest is read.
    pub fn into_hash(mut self) -> io::Result<Fnv1a> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hash)
    }
}

impl<R: Read> Read for HashedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        self.hash.add(&to[..read]);
        Ok(read)
    }
}
