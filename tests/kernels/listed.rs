//! The operators of networks that a file lists: what they read of a query and what they write, for sizes of all kinds.

use batchlab::workload::random::{self, RandomSequence};
use proptest::prelude::*;
use rand::RngExt;

use super::device::{NOWHERE, Row};
use super::host_cuda::{Argument, Element, Grid, Kernels, kernels};
use super::memory::{Elements, Memory, floats, rounded, words};
use super::sizes;

/// The slots of the pool. The last holds no request's state.
const SLOTS: usize = 6;

/// What an operator has of a query, as kernels have it: the matrices that it writes, their rows, the numbers that are added up for each
/// element, their columns; then what it reads and writes, and the bits of the slope.
type Own = [u32; 7];

/// An operator, by the tokens of a query; the last is what a batch is padded to.
#[derive(Clone, Debug)]
struct Operator {
    own: Vec<Own>,
}

impl Operator {
    /// With pairs of matrices, or without: all sizes of a query are at most those of the longest.
    fn draw(pairs: bool, fours: bool, rng: &mut RandomSequence) -> Operator {
        let unit = if fours { 4 } else { 1 };
        let mut size = |most: u32| unit * rng.random_range(1..=most);
        let [count, inner, columns] = [size(3), size(6), size(40)];
        let own = (1..=4).map(|tokens: u32| {
            let rows = tokens * unit;
            let (columns, inner) = if pairs {
                (columns + tokens, inner * tokens)
            } else {
                (columns, inner)
            };
            let left = count * rows * inner;
            let reads = if pairs {
                left + count * inner * columns
            } else {
                left
            };
            let slope = 0.3f32 + tokens as f32;
            match pairs {
                true => [
                    count,
                    rows,
                    inner,
                    columns,
                    reads,
                    count * rows * columns,
                    slope.to_bits(),
                ],
                false => [
                    1,
                    rows,
                    inner,
                    count * columns,
                    reads,
                    rows * count * columns,
                    slope.to_bits(),
                ],
            }
        });
        Operator { own: own.collect() }
    }

    fn padded(&self) -> Own {
        self.own[self.own.len() - 1]
    }
}

/// A device with the states of some queries.
struct Bench {
    kernels: &'static Kernels,
    element: Element,
    operator: Operator,
    rows: Memory<Row>,
    own: Memory<u32>,
    pool: Memory<f32>,
    broken: Memory<u32>,
    width: usize,
    age: Memory<u32>,
    arrived: Memory<u32>,
    counted: Memory<u64>,
    host: Memory<u64>,
    grid: (u32, u32, u64),
}

const SEED: u64 = 77;

impl Bench {
    fn new(
        element: Element,
        operator: Operator,
        grid: (u32, u32, u64),
        rng: &mut RandomSequence,
    ) -> Option<Bench> {
        let kernels = kernels()?;
        let widest = operator
            .own
            .iter()
            .map(|own| own[5])
            .max()
            .unwrap_or(0)
            .max(64);
        let width = widest as usize + 4 - widest as usize % 4;
        let mut pool = floats(SLOTS * width);
        for state in pool.chunks_exact_mut(width) {
            let length = [1, 3, 4, 32, 60, widest][rng.random_range(0..6)];
            state
                .iter_mut()
                .enumerate()
                .for_each(|(at, x)| *x = (at as f32 * 0.37).sin());
            state[width - 1] = f32::from_bits(length);
        }
        let mut own = words(7 * (1 + operator.own.len()), 0);
        own[7..].copy_from_slice(&operator.own.concat());
        let nothing = Row {
            request: 0,
            node: 1,
            last: 0,
            state: NOWHERE,
            words: 0,
            tokens: 0,
            inputs_end: 0,
        };
        let mut rows = Memory::new(SLOTS, nothing, nothing);
        for (at, row) in (0..SLOTS as u32 - 1).zip(rows.iter_mut()) {
            // Those at their first node, those at a later one, and those that have come to their end.
            let node = rng.random_range(0..3);
            let last = if rng.random_range(0..5) == 0 { 0 } else { node };
            *row = Row {
                request: at,
                node,
                last,
                state: at,
                tokens: rng.random_range(1..=4),
                ..nothing
            };
        }
        let (broken, age, arrived) = (words(SLOTS, 0), words(1, 0), words(1, 0));
        let (counted, host) = (Memory::new(1, 5, 77), Memory::new(1, 5, 77));
        Some(Bench {
            kernels,
            element,
            operator,
            rows,
            own,
            pool,
            broken,
            width,
            age,
            arrived,
            counted,
            host,
            grid,
        })
    }

    /// The arguments of what reads states, of the rows from a place on.
    fn arguments(&mut self, from: u32, size: u32) -> Vec<Argument> {
        vec![
            self.rows.pointer().into(),
            from.into(),
            size.into(),
            self.pool.pointer().into(),
            (self.width as u32).into(),
            (self.width as u32 - 1).into(),
            self.own.pointer().into(),
            self.age.pointer().into(),
        ]
    }

    fn launch(&self, name: &str, rows: u32, arguments: &[Argument]) {
        let (units, high, seed) = self.grid;
        let grid = Grid {
            blocks: [units, high.min(rows), 1],
            threads: 256,
            shared: 0,
            together: false,
            cluster: 1,
            seed,
        };
        // SAFETY: the callers give each kernel the arguments of its source, in order; their memory outlives the launch and has room for what
        // the sizes beside it say.
        let launched = unsafe {
            self.kernels
                .kernel(name, self.element)
                .launch(grid, arguments)
        };
        launched.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }

    fn is_live(&self, row: &Row) -> bool {
        row.node <= row.last
    }

    /// A number that the operator reads of a query.
    fn read(&self, row: &Row, place: u32) -> f32 {
        if row.node == 0 {
            let stream = mixed(SEED ^ mixed(row.request.into()));
            return (mixed(stream.wrapping_add(place.into())) >> 40) as f32 / (1 << 23) as f32
                - 1.0;
        }
        let state = &self.pool[row.state as usize * self.width..][..self.width];
        state[place as usize % state[self.width - 1].to_bits() as usize]
    }

    fn own_of(&self, row: &Row) -> Own {
        self.operator.own[row.tokens as usize - 1]
    }
}

/// The finalizer of SplitMix64.
fn mixed(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

fn grids() -> impl Strategy<Value = (u32, u32, u64)> {
    (1..=3u32, 1..=7u32, 0..50u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn operands_are_what_queries_have_and_zeros(
        element in sizes::element(),
        pairs in any::<bool>(),
        fours in any::<bool>(),
        moves in any::<bool>(),
        from in 0..SLOTS as u32,
        grid in grids(),
        seed in any::<u64>(),
    ) {
        let rng = &mut random::sequence(seed, 0, "listed");
        let Some(mut bench) = Bench::new(element, Operator::draw(pairs, fours, rng), grid, rng) else { return Ok(()) };
        let size = rng.random_range(1..=SLOTS as u32 - from);
        let [count, rows, inner, columns, reads, ..] = bench.operator.padded();
        let mut arguments = bench.arguments(from, size);
        arguments.push(SEED.into());
        let expected = |row: &Row, at: u32| match bench.is_live(row) && at < bench.own_of(row)[4] {
            true => bench.read(row, at),
            false => 0.0,
        };
        let queries: Vec<Row> = bench.rows[from as usize..][..size as usize].to_vec();
        if !pairs && moves {
            let mut operand = floats((size * reads) as usize);
            arguments.extend::<[Argument; 2]>([operand.pointer().into(), reads.into()]);
            bench.launch("copy_numbers", size, &arguments);
            let all = queries.iter().flat_map(|row| (0..reads).map(move |at| expected(row, at)));
            prop_assert!(all.eq(operand.iter().copied()));
        } else if !pairs {
            let mut operand = Elements::new(element, (size * reads) as usize);
            arguments.extend::<[Argument; 2]>([operand.pointer().into(), reads.into()]);
            bench.launch("operand_rows", size, &arguments);
            let all = queries.iter().flat_map(|row| (0..reads).map(move |at| rounded(element, expected(row, at))));
            prop_assert!(all.eq(operand.numbers()));
        } else {
            let [of_left, of_right] = [count * rows * inner, count * inner * columns];
            let mut left = Elements::new(element, (size * of_left) as usize);
            let mut right = Elements::new(element, (size * of_right) as usize);
            arguments.extend::<[Argument; 2]>([left.pointer().into(), right.pointer().into()]);
            arguments.extend([count, rows, inner, columns].map(Argument::from));
            bench.launch("operand_pairs", size, &arguments);
            for (place, row) in queries.iter().enumerate() {
                let own = if bench.is_live(row) { bench.own_of(row) } else { [0; 7] };
                let [own_count, own_rows, own_inner, own_columns, ..] = own;
                let matrices = [
                    (left.numbers(), of_left, [rows, inner], 0, [own_rows, own_inner]),
                    (right.numbers(), of_right, [inner, columns], own_count * own_rows * own_inner, [own_inner, own_columns]),
                ];
                for (numbers, of_query, [height, width], begin, [own_height, own_width]) in matrices {
                    let numbers = &numbers[place * of_query as usize..][..of_query as usize];
                    for (at, found) in (0..of_query).zip(numbers) {
                        let (matrix, row_of, column) = (at / (height * width), at / width % height, at % width);
                        let has = matrix < own_count && row_of < own_height && column < own_width;
                        let source = begin + (matrix * own_height + row_of) * own_width + column;
                        let expected = if has { rounded(element, bench.read(row, source)) } else { 0.0 };
                        prop_assert_eq!(*found, expected, "{:?} of query {}", [matrix, row_of, column], place);
                    }
                }
            }
        }
    }

    #[test]
    fn what_comes_of_products_is_the_next_activation(
        pairs in any::<bool>(),
        fours in any::<bool>(),
        from in 0..SLOTS as u32,
        (ends, signals) in any::<(bool, bool)>(),
        grid in grids(),
        seed in any::<u64>(),
    ) {
        let rng = &mut random::sequence(seed, 0, "squash");
        let drawn = Operator::draw(pairs, fours, rng);
        let Some(mut bench) = Bench::new(Element::F32, drawn, grid, rng) else { return Ok(()) };
        let size = rng.random_range(1..=SLOTS as u32 - from);
        let [count, rows, _, columns, ..] = bench.operator.padded();
        let of_query = (count * rows * columns) as usize;
        let mut product = floats(size as usize * of_query);
        product.iter_mut().enumerate().for_each(|(at, x)| *x = (at as f32 * 0.73).sin());
        // A NaN, possibly in padding.
        let poisoned = rng.random_range(0..product.len());
        product[poisoned] = f32::NAN;
        let before = bench.pool.to_vec();
        let mut arguments = bench.arguments(from, size);
        arguments.extend::<[Argument; 2]>([bench.broken.pointer().into(), product.pointer().into()]);
        arguments.extend([count, rows, columns, ends.into()].map(Argument::from));
        arguments.push(bench.arrived.pointer().into());
        arguments.extend::<[Argument; 2]>([bench.counted.pointer().into(), bench.host.pointer().into()]);
        arguments.push(u32::from(signals).into());
        bench.launch("squash", size, &arguments);
        let signalled = 5 + u64::from(ends && signals);
        prop_assert_eq!([bench.counted[0], bench.host[0]], [signalled; 2]);
        prop_assert_eq!((bench.age[0], bench.arrived[0]), (u32::from(ends), 0));
        let mut expected = before;
        let mut broken = vec![0; SLOTS];
        for (place, row) in bench.rows[from as usize..][..size as usize].iter().enumerate() {
            if !bench.is_live(row) {
                continue;
            }
            let [_, own_rows, _, own_columns, _, writes, slope] = bench.own_of(row);
            let state = &mut expected[row.state as usize * bench.width..][..bench.width];
            for at in 0..writes {
                let (matrix, line, column) = (at / (own_rows * own_columns), at / own_columns % own_rows, at % own_columns);
                let source = place * of_query + ((matrix * rows + line) * columns + column) as usize;
                state[at as usize] = (f32::from_bits(slope) * product[source]).tanh();
                broken[row.state as usize] |= u32::from(product[source].is_nan());
            }
            state[bench.width - 1] = f32::from_bits(writes);
        }
        prop_assert_eq!(&*bench.broken, &*broken);
        for (at, (found, expected)) in bench.pool.iter().zip(&expected).enumerate() {
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            prop_assert!(same || (found - expected).abs() < 1e-6, "{at}: {found}, not {expected}");
        }
    }
}

#[test]
fn the_table_of_queries_is_what_the_host_wrote() {
    let rng = &mut random::sequence(1, 0, "queries");
    let Some(mut bench) = Bench::new(
        Element::F32,
        Operator::draw(true, false, rng),
        (1, 2, 3),
        rng,
    ) else {
        return;
    };
    let staged = bench.rows[..SLOTS - 1].to_vec();
    bench.rows.fill(Row {
        request: 9,
        ..staged[0]
    });
    bench.age[0] = 4;
    let (mut inputs, count) = (words(SLOTS, 9), 3u32);
    let arguments = [
        staged.as_ptr().into(),
        inputs.pointer().into(),
        count.into(),
        bench.rows.pointer().into(),
        inputs.pointer().into(),
        (SLOTS as u32).into(),
        bench.age.pointer().into(),
    ];
    bench.launch("gather_queries", SLOTS as u32, &arguments);
    assert_eq!(bench.rows[..3], staged[..3]);
    assert!(
        bench.rows[3..]
            .iter()
            .all(|row| row.node > row.last && row.state == NOWHERE)
    );
    assert_eq!(bench.age[0], 0);
}
