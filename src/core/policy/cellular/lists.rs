//! Lists that share their memory.
//!
//! The turn of a list of a timing wheel comes only once in a round, and there are as many wheels as workers. Lists with
//! memory of their own would have left the cache by then. These take it in blocks from one pool, which hands out the
//! block that was given back last.

/// The number of items in a block.
const ITEMS: usize = 5;

/// The place of no block.
const NO_BLOCK: u32 = u32::MAX;

/// A list, whose items are in a [`ListPool`].
#[derive(Clone, Copy, Debug)]
pub struct PooledList {
    first: u32,
    last: u32,
    /// The number of items in the last block. It is not in the block, so that an item is appended without a look at it.
    in_last: u32,
}

impl PooledList {
    pub const EMPTY: PooledList = PooledList {
        first: NO_BLOCK,
        last: NO_BLOCK,
        in_last: ITEMS as u32,
    };
}

/// The memory of lists.
#[derive(Debug)]
pub struct ListPool<T> {
    blocks: Vec<ListBlock<T>>,
    /// The vacant block that was given back last.
    vacant: u32,
    /// An empty list, kept for its memory.
    spare: Vec<T>,
}

/// Some items of a list. Only the last block of a list has room for more.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct ListBlock<T> {
    items: [T; ITEMS],
    /// The next block of the list, or the next vacant one.
    next: u32,
}

impl<T> Default for ListPool<T> {
    fn default() -> ListPool<T> {
        ListPool {
            blocks: Vec::new(),
            vacant: NO_BLOCK,
            spare: Vec::new(),
        }
    }
}

impl<T: Copy> ListPool<T> {
    /// Appends an item.
    #[inline]
    pub fn push(&mut self, list: &mut PooledList, item: T) {
        if let Some(last) = self.blocks.get_mut(list.last as usize)
            && let Some(place) = last.items.get_mut(list.in_last as usize)
        {
            *place = item;
            list.in_last += 1;
            return;
        }
        let block = self.take_block(item);
        match self.blocks.get_mut(list.last as usize) {
            Some(last) => last.next = block,
            None => list.first = block,
        }
        list.last = block;
        list.in_last = 1;
    }

    /// Takes a vacant block for a first item.
    fn take_block(&mut self, item: T) -> u32 {
        let taken = self.vacant;
        if let Some(block) = self.blocks.get_mut(taken as usize) {
            self.vacant = block.next;
            block.items[0] = item;
            block.next = NO_BLOCK;
            return taken;
        }
        self.blocks.push(ListBlock {
            items: [item; ITEMS],
            next: NO_BLOCK,
        });
        (self.blocks.len() - 1) as u32
    }

    /// The number of items in a block of a list.
    fn count_items(&self, list: &PooledList, block: u32) -> usize {
        if block == list.last {
            list.in_last as usize
        } else {
            ITEMS
        }
    }

    pub fn iter(&self, list: &PooledList) -> impl Iterator<Item = &T> {
        let list = *list;
        let mut next = list.first;
        std::iter::from_fn(move || {
            let block = self.blocks.get(next as usize)?;
            let items = self.count_items(&list, next);
            next = block.next;
            Some(&block.items[..items])
        })
        .flatten()
    }

    /// The items of a list that are in its first block.
    #[inline]
    pub fn first_items(&self, list: &PooledList) -> &[T] {
        match self.blocks.get(list.first as usize) {
            Some(block) => &block.items[..self.count_items(list, list.first)],
            None => &[],
        }
    }

    /// What is in the place of the next item of a list, unless that begins a block.
    #[inline]
    pub fn place_of_next(&self, list: &PooledList) -> Option<&T> {
        let last = self.blocks.get(list.last as usize)?;
        last.items.get(list.in_last as usize)
    }

    /// Passes on the items in their order, and keeps those for which the function returns `true`.
    #[inline]
    pub fn retain(&mut self, list: &mut PooledList, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = PooledList::EMPTY;
        let mut next = list.first;
        while next != NO_BLOCK {
            let place = next as usize;
            for item in 0..self.count_items(list, next) {
                let item = self.blocks[place].items[item];
                if keep(&item) {
                    self.push(&mut kept, item);
                }
            }
            let block = &mut self.blocks[place];
            let vacant = std::mem::replace(&mut self.vacant, next);
            next = std::mem::replace(&mut block.next, vacant);
        }
        *list = kept;
    }

    /// Inserts an item before the first one for which the function returns `true`.
    #[cold]
    pub fn insert_before(
        &mut self,
        list: &mut PooledList,
        item: T,
        mut is_later: impl FnMut(&T) -> bool,
    ) {
        let mut items = std::mem::take(&mut self.spare);
        items.extend(self.iter(list).copied());
        let place = items.iter().position(&mut is_later).unwrap_or(items.len());
        self.retain(list, |_| false);
        for earlier in &items[..place] {
            self.push(list, *earlier);
        }
        self.push(list, item);
        for later in &items[place..] {
            self.push(list, *later);
        }
        items.clear();
        self.spare = items;
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::core::workload::random;

    /// Random changes of lists are those of vectors.
    #[test]
    fn lists_are_as_vectors() {
        let mut rng = random::sequence(1, 0, "lists");
        let mut pool: ListPool<u32> = ListPool::default();
        let mut lists = [PooledList::EMPTY; 4];
        let mut vectors: [Vec<u32>; 4] = Default::default();
        for step in 0..4_000 {
            let place = rng.random_range(0..lists.len());
            let list = &mut lists[place];
            let vector = &mut vectors[place];
            match rng.random_range(0..12) {
                0 => {
                    let divisor = rng.random_range(1..4);
                    let mut seen = Vec::new();
                    pool.retain(list, |item| {
                        seen.push(*item);
                        !item.is_multiple_of(divisor)
                    });
                    assert_eq!(seen, *vector);
                    vector.retain(|item| !item.is_multiple_of(divisor));
                }
                1 => {
                    let bound = rng.random_range(0..4_000);
                    pool.insert_before(list, step, |item| *item > bound);
                    let place = vector.iter().position(|item| *item > bound);
                    vector.insert(place.unwrap_or(vector.len()), step);
                }
                _ => {
                    pool.push(list, step);
                    vector.push(step);
                }
            }
            for (list, vector) in lists.iter().zip(&vectors) {
                assert!(pool.iter(list).eq(vector));
            }
        }
    }

    #[test]
    fn vacant_blocks_are_used_again() {
        let mut pool = ListPool::default();
        let mut list = PooledList::EMPTY;
        for _ in 0..100 {
            for item in 0..3 * ITEMS {
                pool.push(&mut list, item);
            }
            pool.retain(&mut list, |_| false);
        }
        assert_eq!(pool.blocks.len(), 3);
    }
}
