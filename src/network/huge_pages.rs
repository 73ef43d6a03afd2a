//! Memory for weights that are read over and over, from end to end.
//!
//! With pages of the usual 4 KiB a pass over some tens of megabytes spends a good part of its time on looking up where
//! they are. Huge pages do away with that.

use std::cell::RefCell;
use std::ops::Range;

use rten_tensor::storage::Alloc;

/// The size of a huge page on x86-64, and on 64-bit ARM with ordinary pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// An allocator that remembers what it gave away, so that it can be moved to huge pages once it is filled.
#[derive(Debug, Default)]
pub struct HugePages {
    given: RefCell<Vec<Range<usize>>>,
}

impl Alloc for HugePages {
    fn alloc<T>(&self, capacity: usize) -> Vec<T> {
        let memory = Vec::with_capacity(capacity);
        let from = memory.as_ptr() as usize;
        self.given.borrow_mut().push(from..from + capacity * size_of::<T>());
        memory
    }

    fn dealloc<T>(&self, memory: Vec<T>) {
        drop(memory);
    }
}

impl HugePages {
    /// Asks the system to move what was given away to huge pages. Where it has none, or has none left, or is too old to be
    /// asked (Linux before 6.1), everything stays where it is.
    ///
    /// Asking before the memory is filled would be less work for the system, but leave out the ends of every piece: only a
    /// page all of which is mapped can become a huge one, and pieces that are given away later come to lie next to it.
    pub fn move_there(self) {
        for piece in self.given.into_inner() {
            // Less than half of a huge page is not worth the rest of it.
            if piece.len() >= HUGE / 2 {
                advise(piece.start / HUGE * HUGE..piece.end.next_multiple_of(HUGE));
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn advise(pages: Range<usize>) {
    use nix::libc::{c_int, c_void, madvise};

    // The number of the system's interface; not every C library has a name for it.
    const MADV_COLLAPSE: c_int = 25;

    let start = std::ptr::without_provenance_mut::<c_void>(pages.start);
    // SAFETY: this advice changes which physical pages stand behind addresses, and nothing that a program reads or writes
    // there, so that it is sound for every range, whoever owns it and whether it is mapped or not. The system itself checks
    // what it is given, and refuses what it can't do: an error means that nothing has changed.
    let _refused = unsafe { madvise(start, pages.len(), MADV_COLLAPSE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: Range<usize>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_what_is_in_it() {
        let pages = HugePages::default();
        let mut pieces: Vec<Vec<u32>> = [7, HUGE / 8, HUGE, 3 * HUGE / 4].map(|capacity| pages.alloc(capacity)).into();
        for piece in &mut pieces {
            piece.extend(0..piece.capacity() as u32);
        }
        pages.move_there();
        for piece in pieces {
            assert!(piece.iter().copied().eq(0..piece.capacity() as u32));
        }
    }
}
