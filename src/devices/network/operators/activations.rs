/// A row of numbers for each query, whose length depends on its tokens. A query's slot begins with its own numbers; the
/// rest is the result of padding.
#[derive(Debug, Default)]
pub struct Activations {
    numbers: Vec<f32>,
    queries: Vec<QueryActivation>,
}

#[derive(Clone, Copy, Debug)]
struct QueryActivation {
    from: usize,
    /// The length of the query's activation; 0 for padding.
    len: usize,
    tokens: u32,
}

impl Activations {
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.queries.clear();
    }

    /// Adds a query with the numbers that `append` appends; without numbers it is padding.
    pub fn push(&mut self, tokens: u32, append: impl FnOnce(&mut Vec<f32>)) {
        let from = self.numbers.len();
        append(&mut self.numbers);
        self.queries.push(QueryActivation {
            from,
            len: self.numbers.len() - from,
            tokens,
        });
    }

    pub fn pad(&mut self, size: usize) {
        let padding = QueryActivation {
            from: self.numbers.len(),
            len: 0,
            tokens: 0,
        };
        self.queries.resize(size.max(self.queries.len()), padding);
    }

    /// The number of queries, padding included.
    pub fn queries(&self) -> usize {
        self.queries.len()
    }

    pub fn values(&self, query: usize) -> &[f32] {
        let QueryActivation { from, len, .. } = self.queries[query];
        &self.numbers[from..from + len]
    }

    pub fn tokens(&self, query: usize) -> u32 {
        self.queries[query].tokens
    }

    pub fn longest(&self) -> u32 {
        self.queries
            .iter()
            .map(|query| query.tokens)
            .max()
            .unwrap_or(0)
    }

    /// All slots, if each has this size and at least `own` numbers for its tokens.
    pub fn as_slots(&self, size: usize, own: impl Fn(u32) -> usize) -> Option<&[f32]> {
        let fits = |(place, query): (usize, &QueryActivation)| {
            query.from == place * size && query.len > 0 && own(query.tokens) <= query.len
        };
        let all = self.queries.iter().enumerate().all(fits);
        all.then(|| self.numbers.get(..self.queries() * size))
            .flatten()
    }

    /// Makes slots of this size for the queries of `like`, with arbitrary contents.
    pub fn lay_out(
        &mut self,
        like: &Activations,
        size: usize,
        own: impl Fn(u32) -> usize,
    ) -> &mut [f32] {
        self.queries.clear();
        self.queries
            .extend(like.queries.iter().enumerate().map(|(place, query)| {
                let len = if query.len == 0 { 0 } else { own(query.tokens) };
                QueryActivation {
                    from: place * size,
                    len,
                    tokens: query.tokens,
                }
            }));
        super::super::first(&mut self.numbers, like.queries() * size)
    }
}

/// Fills `into` with a source, read cyclically from a place on, or with zeros if the source is empty.
pub fn cycle(source: &[f32], from: usize, into: &mut [f32]) {
    if source.is_empty() {
        return into.fill(0.0);
    }
    let from = from % source.len();
    let period = source.len();
    let once = into.len().min(period);
    let head = once.min(period - from);
    into[..head].copy_from_slice(&source[from..from + head]);
    into[head..once].copy_from_slice(&source[..once - head]);
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
                assert!(
                    into.iter()
                        .enumerate()
                        .all(|(place, x)| *x == source[(from + place) % 5]),
                    "{from} {into:?}"
                );
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
        assert_eq!(
            taken.as_slots(1, |_| 1),
            None,
            "the second stands elsewhere"
        );
        taken.pad(3);
        assert_eq!(taken.as_slots(2, |_| 2), None, "padding has no numbers");
        let mut made = Activations::default();
        made.lay_out(&taken, 3, |tokens| tokens as usize).fill(7.0);
        assert_eq!(
            (made.values(0), made.values(1), made.values(2)),
            (&[7.0; 2][..], &[7.0; 2][..], &[][..])
        );
        assert_eq!((made.queries(), made.longest(), made.tokens(1)), (3, 2, 2));
    }
}
