//! What the queries of a batch have come to: a row of numbers for each, as long as its own tokens make it.

/// The activations of a batch. Each query has a slot, in which its own numbers stand first; what stands behind them is what
/// padding came to, and means nothing.
#[derive(Debug, Default)]
pub struct Activations {
    /// May be longer than what is in use.
    numbers: Vec<f32>,
    queries: Vec<Query>,
}

/// Where a query's numbers stand.
#[derive(Clone, Copy, Debug)]
struct Query {
    from: usize,
    /// How many are its own: none for padding.
    len: usize,
    tokens: u32,
}

impl Activations {
    /// Forgets all queries.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.queries.clear();
    }

    /// Takes in a query of so many tokens, whose numbers the function appends; one without numbers is padding.
    pub fn push(&mut self, tokens: u32, append: impl FnOnce(&mut Vec<f32>)) {
        let from = self.numbers.len();
        append(&mut self.numbers);
        self.queries.push(Query { from, len: self.numbers.len() - from, tokens });
    }

    /// Fills up with padding.
    pub fn pad(&mut self, size: usize) {
        let padding = Query { from: self.numbers.len(), len: 0, tokens: 0 };
        self.queries.resize(size.max(self.queries.len()), padding);
    }

    /// The number of queries, padding included.
    pub fn queries(&self) -> usize {
        self.queries.len()
    }

    /// A query's own numbers.
    pub fn of(&self, query: usize) -> &[f32] {
        let Query { from, len, .. } = self.queries[query];
        &self.numbers[from..from + len]
    }

    /// The tokens of a query.
    pub fn tokens(&self, query: usize) -> u32 {
        self.queries[query].tokens
    }

    /// The tokens of the longest.
    pub fn longest(&self) -> u32 {
        self.queries.iter().map(|query| query.tokens).max().unwrap_or(0)
    }

    /// All slots behind each other, if each has this size and at least as many numbers as `own` says for its tokens.
    pub fn as_slots(&self, size: usize, own: impl Fn(u32) -> usize) -> Option<&[f32]> {
        let fits = |(place, query): (usize, &Query)| {
            query.from == place * size && query.len > 0 && own(query.tokens) <= query.len
        };
        let all = self.queries.iter().enumerate().all(fits);
        all.then(|| self.numbers.get(..self.queries() * size)).flatten()
    }

    /// Room for the same queries with slots of this size, of which `own` says how much is a query's own for its tokens. It holds
    /// whatever was there.
    pub fn lay_out(&mut self, like: &Activations, size: usize, own: impl Fn(u32) -> usize) -> &mut [f32] {
        self.queries.clear();
        self.queries.extend(like.queries.iter().enumerate().map(|(place, query)| {
            let len = if query.len == 0 { 0 } else { own(query.tokens) };
            Query { from: place * size, len, tokens: query.tokens }
        }));
        super::super::first(&mut self.numbers, like.queries() * size)
    }
}

/// Fills `into` with the numbers of a source from a place on, and with those from its beginning again where it ends. Of nothing
/// there are zeros.
pub fn cycle(source: &[f32], from: usize, into: &mut [f32]) {
    if source.is_empty() {
        return into.fill(0.0);
    }
    let (from, period) = (from % source.len(), source.len());
    let once = into.len().min(period);
    let head = once.min(period - from);
    into[..head].copy_from_slice(&source[from..from + head]);
    into[head..once].copy_from_slice(&source[..once - head]);
    // From here on what stands a period before, twice as much each time.
    let mut filled = once;
    while filled < into.len() {
        let more = filled.min(into.len() - filled);
        into.copy_within(..more, filled);
        filled += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_goes_round() {
        let source: Vec<f32> = (0..5).map(|number| number as f32).collect();
        for from in 0..12 {
            for length in 0..23 {
                let mut into = vec![f32::NAN; length];
                cycle(&source, from, &mut into);
                assert!(into.iter().enumerate().all(|(place, x)| *x == source[(from + place) % 5]), "{from} {into:?}");
            }
        }
        let mut into = [1.0; 3];
        cycle(&[], 7, &mut into);
        assert_eq!(into, [0.0; 3]);
    }

    #[test]
    fn slots_are_as_they_stand_if_each_has_its_numbers() {
        let mut taken = Activations::default();
        taken.push(2, |numbers| numbers.extend([1.0, 2.0]));
        taken.push(2, |numbers| numbers.extend([3.0, 4.0]));
        assert_eq!(taken.as_slots(2, |_| 2), Some(&[1.0, 2.0, 3.0, 4.0][..]));
        assert_eq!(taken.as_slots(2, |_| 3), None, "it goes round");
        assert_eq!(taken.as_slots(1, |_| 1), None, "the second stands elsewhere");
        taken.pad(3);
        assert_eq!(taken.as_slots(2, |_| 2), None, "padding has no numbers");
        let mut made = Activations::default();
        made.lay_out(&taken, 3, |tokens| tokens as usize).fill(7.0);
        assert_eq!((made.of(0), made.of(1), made.of(2)), (&[7.0; 2][..], &[7.0; 2][..], &[][..]));
        assert_eq!((made.queries(), made.longest(), made.tokens(1)), (3, 2, 2));
    }
}
