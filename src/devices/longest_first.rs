//! A sort by length whose time is proportional to the number of items.

/// Sorts items by length, the longest first; items of equal length keep their order. It is a radix sort, which needs
/// one pass for lengths below 256. The memory is kept between sorts.
#[derive(Debug)]
pub struct LongestFirst<T>(Vec<T>);

impl<T> Default for LongestFirst<T> {
    fn default() -> LongestFirst<T> {
        LongestFirst(Vec::new())
    }
}

/// The bits of a length that a pass sorts by.
const DIGIT: u32 = 8;

impl<T: Copy> LongestFirst<T> {
    pub fn sort(&mut self, items: &mut Vec<T>, length: impl Fn(&T) -> u32) {
        let longest = items.iter().map(&length).max().unwrap_or(0);
        let mut shift = 0;
        while shift < u32::BITS && longest >> shift > 0 {
            self.sort_by_digit(items, |item| {
                (length(item) >> shift) as usize % (1 << DIGIT)
            });
            shift += DIGIT;
        }
    }

    fn sort_by_digit(&mut self, items: &mut Vec<T>, digit: impl Fn(&T) -> usize) {
        let mut counts = [0; 1 << DIGIT];
        for item in items.iter() {
            counts[digit(item)] += 1;
        }
        // The places of each digit, the largest first.
        let mut places = counts;
        let mut next = 0;
        for (place, count) in places.iter_mut().zip(counts).rev() {
            *place = next;
            next += count;
        }
        self.0.clone_from(items);
        for item in &self.0 {
            let place = &mut places[digit(item)];
            items[*place] = *item;
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lengths_keep_their_order() {
        let lengths = [3, 700, 0, 3, 70_000, 256, u32::MAX, 255, 700, 3];
        let mut items: Vec<(u32, usize)> = lengths.into_iter().zip(0..).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        let mut sort = LongestFirst::default();
        sort.sort(&mut items, |(length, _)| *length);
        assert_eq!(items, expected);
        sort.sort(&mut items, |_| 0);
        assert_eq!(items, expected);
        sort.sort(&mut Vec::new(), |(length, _): &(u32, usize)| *length);
    }
}
