//! What stands around persistent kernels: the states and words that they begin with, and the states that go back, for sizes of all kinds.

use batchlab::network::{Network, Spec};
use batchlab::units::RequestId;
use batchlab::workload::model::Model;
use batchlab::workload::random::{self, RandomSequence};
use proptest::prelude::*;
use rand::RngExt;

use super::device::{NOWHERE, Row};
use super::host_cuda::{Argument, Element, Grid, kernels};
use super::memory::{Elements, Memory, floats, words};
use super::sizes;

/// The slots of the pool.
const SLOTS: usize = 9;

/// The contents of slots that must not change.
const KEPT: f32 = 0.25;

/// A batch's rows, some of which begin with their first node and some of which are padding, and a launch that runs those from one on.
struct Batch {
    rows: Memory<Row>,
    from: usize,
    count: usize,
}

impl Batch {
    fn draw(steps: u32, rng: &mut RandomSequence) -> Batch {
        let nothing = Row {
            request: 0,
            node: 1,
            last: 0,
            state: NOWHERE,
            words: 0,
            tokens: 0,
            inputs_end: 0,
        };
        let mut rows = Memory::new(rng.random_range(1..SLOTS), nothing, nothing);
        let mut inputs_end = 0;
        for (at, row) in rows.iter_mut().enumerate() {
            row.inputs_end = inputs_end;
            if rng.random_range(0..5) == 0 {
                continue;
            }
            let is_first = rng.random_bool(0.4);
            let node = if is_first { 0 } else { rng.random_range(1..40) };
            inputs_end += u32::from(!is_first);
            let last = node + rng.random_range(0..steps);
            *row = Row {
                request: rng.random(),
                node,
                last,
                state: (SLOTS - 1 - at) as u32,
                inputs_end,
                ..nothing
            };
        }
        let from = rng.random_range(0..rows.len());
        let count = rng.random_range(1..=rows.len() - from);
        Batch { rows, from, count }
    }

    /// The rows of the launch, including padding and the rows after the last.
    fn of_launch(&self, size: usize) -> impl Iterator<Item = Option<Row>> {
        let rows = self.rows[self.from..][..self.count].iter().copied();
        rows.map(|row| (row.state != NOWHERE).then_some(row))
            .chain(std::iter::repeat(None))
            .take(size)
    }

    fn arguments(&mut self) -> Vec<Argument> {
        vec![
            self.rows.pointer().into(),
            (self.from as u32).into(),
            (self.count as u32).into(),
        ]
    }
}

fn launch(
    name: &str,
    element: Element,
    rows: u32,
    (units, high, seed): (u32, u32, u64),
    arguments: &[Argument],
) {
    let Some(kernels) = kernels() else { return };
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
    let launched = unsafe { kernels.kernel(name, element).launch(grid, arguments) };
    launched.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
}

fn grids() -> impl Strategy<Value = (u32, u32, u64)> {
    (1..=3u32, 1..=7u32, 0..50u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn states_and_words_come_together(
        element in sizes::element(),
        (hidden, embedding) in sizes::widths(),
        has_c in any::<bool>(),
        slack in 0..5usize,
        steps in 1..6u32,
        padding in 0..3usize,
        grid in grids(),
        seed in any::<u64>(),
    ) {
        if kernels().is_none() {
            return Ok(());
        }
        let rng = &mut random::sequence(seed, 0, "sequences");
        let spec = Spec { hidden, embedding, vocabulary: 30, seed, weights: None };
        let network = Network::new(&Model::Gru, &spec).expect("a network of the test's sizes");
        let (h, e) = (hidden as usize, embedding as usize);
        let mut batch = Batch::draw(steps, rng);
        let size = batch.count + padding;
        let input_width = (e + 2).next_multiple_of(4) + if rng.random_bool(0.5) { 4 } else { 0 };
        let width = h * (1 + usize::from(has_c)) + slack;
        let mut pool = floats(SLOTS * width);
        pool.iter_mut().enumerate().for_each(|(at, x)| *x = (at as f32 * 0.37).sin());
        let table: Vec<f32> = (0..30 * e).map(|at| (at as f32 * 0.73).sin()).collect();
        let mut table = Elements::of(element, &table);
        let mut inputs = Elements::new(element, steps as usize * size * input_width);
        let (mut of_h, mut of_c, mut lengths) = (floats(size * h), floats(size * h), words(size, 99));
        let cells = if has_c { of_c.pointer() } else { std::ptr::null_mut() };
        let mut arguments = batch.arguments();
        arguments.extend::<[Argument; 2]>([(size as u32).into(), steps.into()]);
        arguments.extend::<[Argument; 2]>([pool.pointer().into(), (width as u32).into()]);
        arguments.extend::<[Argument; 4]>([table.pointer().into(), seed.into(), 30u32.into(), embedding.into()]);
        arguments.extend::<[Argument; 2]>([inputs.pointer().into(), (input_width as u32).into()]);
        arguments.extend::<[Argument; 4]>([of_h.pointer().into(), cells.into(), hidden.into(), lengths.pointer().into()]);
        launch("take_sequences", element, steps * size as u32, grid, &arguments);

        let (inputs, table) = (inputs.numbers(), table.numbers());
        for (place, row) in batch.of_launch(size).enumerate() {
            let length = row.map_or(0, |row| row.last + 1 - row.node);
            prop_assert_eq!(lengths[place], length);
            let state = |from: usize| match row {
                Some(row) if row.node > 0 => pool[row.state as usize * width + from..][..h].to_vec(),
                _ => vec![0.0; h],
            };
            prop_assert_eq!(&of_h[place * h..][..h], state(0));
            if has_c {
                prop_assert_eq!(&of_c[place * h..][..h], state(h));
            }
            for step in 0..steps {
                let mut expected = vec![0.0; input_width];
                if let Some(row) = row.filter(|_| step < length) {
                    let word = network.token(RequestId(row.request.into()), row.node + step) as usize;
                    expected[..e].copy_from_slice(&table[word * e..][..e]);
                    expected[e..e + 2].fill(1.0);
                }
                prop_assert_eq!(&inputs[(step as usize * size + place) * input_width..][..input_width], expected);
            }
        }
    }

    #[test]
    fn states_go_back_to_their_slots(
        element in sizes::element(),
        hidden in sizes::width(),
        has_c in any::<bool>(),
        slack in 0..5usize,
        grid in grids(),
        seed in any::<u64>(),
    ) {
        if kernels().is_none() {
            return Ok(());
        }
        let rng = &mut random::sequence(seed, 0, "sequences");
        let h = hidden as usize;
        let mut batch = Batch::draw(3, rng);
        let width = h * (1 + usize::from(has_c)) + slack;
        let (mut pool, mut broken) = (floats(SLOTS * width), words(SLOTS, 0));
        pool.fill(KEPT);
        let mut states = [0.3, 0.7].map(|slope| {
            let mut numbers = floats(batch.count * h);
            numbers.iter_mut().enumerate().for_each(|(at, x)| *x = (at as f32 * slope).cos());
            numbers
        });
        // Some of them are no numbers.
        let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][rng.random_range(0..3)];
        let (of_c, at) = (usize::from(has_c && rng.random_bool(0.5)), rng.random_range(0..batch.count * h));
        states[of_c][at] = bad;
        let [mut of_h, mut of_c] = states;
        let cells = if has_c { of_c.pointer() } else { std::ptr::null_mut() };
        let mut arguments = batch.arguments();
        arguments.extend::<[Argument; 3]>([pool.pointer().into(), (width as u32).into(), broken.pointer().into()]);
        arguments.extend::<[Argument; 3]>([of_h.pointer().into(), cells.into(), hidden.into()]);
        launch("give_sequences", element, batch.count as u32, grid, &arguments);

        let (mut expected, mut expected_broken) = (vec![KEPT; SLOTS * width], vec![0; SLOTS]);
        for (place, row) in batch.of_launch(batch.count).enumerate() {
            let Some(row) = row else { continue };
            let slot = &mut expected[row.state as usize * width..][..width];
            slot[..h].copy_from_slice(&of_h[place * h..][..h]);
            if has_c {
                slot[h..2 * h].copy_from_slice(&of_c[place * h..][..h]);
            }
            expected_broken[row.state as usize] = u32::from(at / h == place);
        }
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&pool), bits(&expected));
        prop_assert_eq!(&broken[..], expected_broken);
    }
}
