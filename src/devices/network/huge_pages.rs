//! Huge pages for weights: with 4 KiB pages, a pass over tens of megabytes spends much of its time on address
//! translation.

use std::cell::RefCell;
use std::ops::Range;

use rten_tensor::storage::Alloc;

/// The size of a huge page on x86-64, and on 64-bit ARM with pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// An allocator that notes its allocations.
#[derive(Debug, Default)]
pub struct HugePages {
    given: RefCell<Vec<Range<usize>>>,
}

impl Alloc for HugePages {
    fn alloc<T>(&self, capacity: usize) -> Vec<T> {
        let memory = Vec::with_capacity(capacity);
        let from = memory.as_ptr() as usize;
        self.given
            .borrow_mut()
            .push(from..from + capacity * size_of::<T>());
        memory
    }

    fn dealloc<T>(&self, memory: Vec<T>) {
        drop(memory);
    }
}

impl HugePages {
    /// Asks the system to move all allocations to huge pages, which it may refuse. Call this once they are filled.
    ///
    /// Asking earlier would leave out the ends of each allocation: only fully mapped pages can become a huge one.
    pub fn move_there(self) {
        for piece in self.given.into_inner() {
            // A huge page for a smaller allocation would waste too much memory.
            if piece.len() >= HUGE / 2 {
                advise(piece.start / HUGE * HUGE..piece.end.next_multiple_of(HUGE));
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn advise(pages: Range<usize>) {
    use nix::libc::{c_int, c_void, madvise};

    // Not every C library defines this constant.
    const MADV_COLLAPSE: c_int = 25;

    let start = std::ptr::without_provenance_mut::<c_void>(pages.start);
    // SAFETY: the advice changes which physical pages back the addresses, not their contents, so it is sound for every
    // range, mapped or not. The system checks the range; an error means that nothing has changed.
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
        let mut pieces: Vec<Vec<u32>> = [7, HUGE / 8, HUGE, 3 * HUGE / 4]
            .map(|capacity| pages.alloc(capacity))
            .into();
        for piece in &mut pieces {
            piece.extend(0..piece.capacity() as u32);
        }
        pages.move_there();
        for piece in pieces {
            assert!(piece.iter().copied().eq(0..piece.capacity() as u32));
        }
    }
}
