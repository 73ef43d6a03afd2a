//! Gathers and steps, with a look at all that they may have written.

use batchlab::network::{BatchInputs, Scratch};
use batchlab::units::RequestId;

use super::device::{Change, Device, NOWHERE, Row, Station};
use super::equations::Gates;
use super::host_cuda::Element;
use super::layer::Kind;
use super::memory::{bits_of, number_of};

/// The word that the first decoder step reads.
const START: u32 = 0;

/// How far float32 may be from the equations, and from other float32 that adds up in another order, for numbers around 1.
const TO_EQUATIONS: f64 = 2e-6;
const TO_CPU: f64 = 1e-5;

/// The input slots of a row.
fn inputs_of<'a>(rows: &[Row], at: usize, inputs: &'a [u32]) -> &'a [u32] {
    let begin = at
        .checked_sub(1)
        .map_or(0, |before| rows[before].inputs_end);
    let range = begin as usize..rows[at].inputs_end as usize;
    // A row of a chain that has changed does not say where its inputs end.
    inputs.get(range).unwrap_or_default()
}

/// The bits of a word's row in the embedding table.
fn embedded(device: &Device, station: &Station, word: u32) -> Vec<u32> {
    let width = device.spec.embedding as usize;
    station.layer.embedding.bits()[word as usize * width..][..width].to_vec()
}

/// Gathers, and looks at the table of rows, the operands and the pool.
pub fn gather(device: &mut Device, station: &mut Station, rows: &[Row], inputs: &[u32]) {
    let (h, e) = (device.spec.hidden as usize, device.spec.embedding as usize);
    let before = device.pool.to_vec();
    device.gather(station, rows, inputs);

    let end = rows.last().map_or(0, |row| row.inputs_end);
    let padding = Row {
        request: 0,
        node: 1,
        last: 0,
        state: NOWHERE,
        words: 0,
        tokens: 0,
        inputs_end: end,
    };
    let mut table = rows.to_vec();
    table.resize(station.size, padding);
    assert_eq!(*station.rows, *table);
    assert_eq!(station.age[0], 0);
    if matches!(station.kind, Kind::Pair | Kind::Sum) {
        assert_eq!(station.inputs[..inputs.len()], *inputs);
    }

    let rounded = |numbers: &[f32]| {
        numbers
            .iter()
            .map(|x| bits_of(device.element, *x))
            .collect::<Vec<u32>>()
    };
    let state = |slot: u32| &before[slot as usize * device.width..][..device.network.state()];
    let mut pool = before.clone();
    let mut operand = Vec::new();
    let mut children = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let taken = inputs_of(rows, at, inputs);
        let drawn = device
            .network
            .token(RequestId(row.request.into()), row.node);
        match station.kind {
            Kind::Lstm | Kind::Encoder | Kind::Decoder | Kind::Gru => {
                let word = match (station.kind, taken.first()) {
                    (Kind::Decoder, Some(slot)) => state(*slot)[2 * h] as u32,
                    (Kind::Decoder, None) => START,
                    _ => drawn,
                };
                operand.extend(embedded(device, station, word));
                operand.extend(rounded(
                    taken
                        .first()
                        .map_or(&vec![0.0; h], |slot| &state(*slot)[..h]),
                ));
                if taken.is_empty() {
                    pool[row.state as usize * device.width..][..device.width].fill(0.0);
                }
            }
            Kind::Leaf | Kind::SumLeaf => operand.extend(embedded(device, station, drawn)),
            Kind::Pair => {
                for child in 0..2 {
                    operand.extend(rounded(
                        taken
                            .get(child)
                            .map_or(&vec![0.0; h], |slot| &state(*slot)[..h]),
                    ));
                }
            }
            Kind::Sum => {
                operand.extend(embedded(device, station, drawn));
                let mut sum = vec![0.0; h];
                for slot in taken {
                    sum.iter_mut()
                        .zip(state(*slot))
                        .for_each(|(sum, h)| *sum += h);
                    children.extend(rounded(&state(*slot)[..h]));
                }
                operand.extend(rounded(&sum));
            }
        }
    }
    operand.resize(station.size * station.stride(&device.spec), 0);
    children.resize(station.children_size * h, 0);
    assert_eq!(
        station.operand.bits(),
        operand,
        "the operand, H = {h}, E = {e}"
    );
    assert_eq!(station.children.bits(), children, "the children");
    assert_same(&device.pool, &pool);
}

/// Changes rows of a chain's cell, and looks at the table, the operand and the pool: the other rows stay.
pub fn change(device: &mut Device, station: &mut Station, changes: &[Change]) {
    let (h, stride) = (device.spec.hidden as usize, station.stride(&device.spec));
    let before = device.pool.to_vec();
    let mut pool = before.clone();
    let mut table = station.rows.to_vec();
    let mut operand = station.operand.bits();
    let age = station.age[0];
    device.change(station, changes);

    for change in changes {
        let row = Row {
            request: change.request,
            node: change.node.wrapping_sub(age),
            last: change.last,
            state: change.state,
            words: change.words,
            tokens: 0,
            inputs_end: 0,
        };
        table[change.at as usize] = row;
        let to = &mut operand[change.at as usize * stride..][..stride];
        if change.state == NOWHERE {
            to.fill(0);
            continue;
        }
        let slot = change.state as usize * device.width;
        let drawn = device
            .network
            .token(RequestId(change.request.into()), change.node);
        let word = match station.kind {
            Kind::Decoder if change.node == 0 => START,
            Kind::Decoder => before[slot + 2 * h] as u32,
            _ => drawn,
        };
        let mut expected = embedded(device, station, word);
        if change.node == 0 {
            pool[slot..][..device.width].fill(0.0);
            expected.extend(vec![0; h]);
        } else {
            let of_h = before[slot..][..h].iter();
            expected.extend(of_h.map(|x| bits_of(device.element, *x)));
        }
        to.copy_from_slice(&expected);
    }
    assert_eq!(*station.rows, *table);
    assert_eq!(station.age[0], age);
    assert_eq!(station.operand.bits(), operand, "the operand");
    assert_same(&device.pool, &pool);
}

/// Runs the cell over its rows, and looks at states, operands, words and counts.
pub fn step(device: &mut Device, station: &mut Station, signals: bool) {
    let (h, e, stride) = (
        device.spec.hidden as usize,
        device.spec.embedding as usize,
        station.stride(&device.spec),
    );
    let (mut pool, age) = (device.pool.to_vec(), station.age[0]);
    // A step that leaves the next operand elsewhere writes only what its rows need there.
    let mut operand = match &station.fused {
        Some(fused) if station.moves_operand() => fused.next.bits(),
        _ => station.operand.bits(),
    };
    // A fused step adds up its products in float32, as the CPU does.
    let to_equations = match station.fused {
        Some(_) => TO_CPU,
        None => TO_EQUATIONS,
    };
    let (mut words, broken) = (device.words.to_vec(), device.broken.to_vec());
    let (counted, host) = (device.counted[0], device.host[0]);
    let live: Vec<usize> = (0..station.size)
        .filter(|at| station.rows[*at].node.wrapping_add(age) <= station.rows[*at].last)
        .collect();
    let of_cpu = of_cpu(device, station, &live);
    device.step(station, signals);

    for (place, at) in live.iter().copied().enumerate() {
        let row = station.rows[at];
        let node = row.node.wrapping_add(age);
        let state = row.state as usize * device.width
            ..row.state as usize * device.width + device.network.state();
        let mut expected = equations(device, station, at, &pool);
        let mut next = device
            .network
            .token(RequestId(row.request.into()), node + 1);
        match station.kind {
            Kind::Encoder => expected.push(f64::from(START)),
            Kind::Decoder => {
                next = word_of(device, station, at);
                expected.push(f64::from(next));
                words[row.words as usize + node as usize] = next;
            }
            _ => {}
        }
        // What a sum has of rounding errors grows with its terms.
        let terms = inputs_of(&station.rows, at, &station.inputs).len().max(1) as f64;
        let found = &device.pool[state.clone()];
        assert_close(
            found,
            &expected,
            terms * to_equations,
            &format!("row {at} after {age}, from the equations"),
        );
        if let Some(of_cpu) = &of_cpu {
            let of_row = &of_cpu[place * device.network.state()..][..device.network.state()];
            let mut of_row: Vec<f64> = of_row.iter().map(|x| f64::from(*x)).collect();
            if station.kind == Kind::Decoder && of_row[2 * h] != f64::from(next) {
                // Of two words with nearly the same score, float32 takes one or the other.
                let score = |word: usize| {
                    let scores = &station.products[1][at * station.layer.matrices[1].outputs..];
                    scores[word] + f64::from(station.layer.biases[1][word])
                };
                assert!((score(of_row[2 * h] as usize) - score(next as usize)).abs() < TO_CPU);
                of_row[2 * h] = f64::from(next);
            }
            assert_close(
                found,
                &of_row,
                terms * TO_CPU,
                &format!("row {at} after {age}, from the CPU"),
            );
        }
        if station.kind.is_chain() {
            let of_row = &mut operand[at * stride..(at + 1) * stride];
            let rounded = found[..h].iter().map(|x| bits_of(device.element, *x));
            of_row[e..]
                .iter_mut()
                .zip(rounded)
                .for_each(|(bits, rounded)| *bits = rounded);
            if node < row.last {
                of_row[..e].copy_from_slice(&embedded(device, station, next));
            }
        }
        pool[state.clone()].copy_from_slice(&device.pool[state]);
    }

    assert_same(&device.pool, &pool);
    assert_eq!(station.operand.bits(), operand, "the operand after {age}");
    assert_eq!(*device.words, words);
    assert_eq!(*device.broken, broken, "all are numbers");
    assert_eq!(station.age[0], age + 1);
    assert_eq!(device.arrived[0], 0);
    let signalled = counted + u64::from(signals);
    assert_eq!(
        (device.counted[0], device.host[0]),
        (signalled, if signals { signalled } else { host })
    );
}

/// What the equations say of a row's \[h|c\] or h, from the products of its operands and the pool as it was before.
fn equations(device: &Device, station: &Station, at: usize, pool: &[f32]) -> Vec<f64> {
    let (h, e) = (device.spec.hidden as usize, device.spec.embedding as usize);
    let row = station.rows[at];
    let state = |slot: u32| &pool[slot as usize * device.width..][..device.network.state()];
    let product = |number: usize, row: usize| {
        let outputs = station.layer.matrices[number].outputs;
        &station.products[number][row * outputs..(row + 1) * outputs]
    };
    let gates = Gates {
        product: product(0, at),
        bias: &station.layer.biases[0],
        hidden: h,
    };
    let taken = inputs_of(&station.rows, at, &station.inputs);
    let mut kept = vec![0.0; h];
    let mut keep = |of_child: Vec<f64>| {
        kept.iter_mut()
            .zip(of_child)
            .for_each(|(kept, c)| *kept += c)
    };
    match station.kind {
        Kind::Lstm | Kind::Encoder | Kind::Decoder => return gates.lstm(&state(row.state)[h..]),
        Kind::Gru => {
            let of_h = &state(row.state)[..h];
            let candidate = station.candidate.bits();
            let candidate = &candidate[at * (e + h)..][..e + h];
            // What is rounded to a narrow format may come out as a neighbour of what the equations' is rounded to.
            let step = [1e-6, 2f64.powi(-10), 2f64.powi(-7)][device.element as usize];
            for (bits, expected) in candidate[e..].iter().zip(gates.reset(of_h)) {
                let found = f64::from(number_of(device.element, *bits));
                let rest = if station.fused.is_some() {
                    TO_CPU
                } else {
                    1e-7
                };
                assert!(
                    (found - expected).abs() <= step * expected.abs() + rest,
                    "{found} for {expected}"
                );
            }
            return gates.gru(product(1, at), of_h);
        }
        Kind::Leaf | Kind::SumLeaf => {}
        Kind::Pair => (3..)
            .zip(taken)
            .for_each(|(gate, slot)| keep(gates.kept(gate, &state(*slot)[h..]))),
        Kind::Sum => {
            let first = row.inputs_end as usize - taken.len();
            for (child, slot) in (first..).zip(taken) {
                let forget: Vec<f64> = product(1, at)
                    .iter()
                    .zip(product(2, child))
                    .map(|(x, h)| x + h)
                    .collect();
                let gates = Gates {
                    product: &forget,
                    bias: &station.layer.biases[1],
                    hidden: h,
                };
                keep(gates.kept(0, &state(*slot)[h..]));
            }
        }
    }
    gates.node(&kept)
}

/// The word with the largest score of a row, the lowest of equals, in the very numbers that the kernel had.
fn word_of(device: &Device, station: &Station, at: usize) -> u32 {
    let scores = station.products[1]
        .chunks_exact(device.spec.vocabulary as usize)
        .nth(at)
        .expect("a row of scores");
    let sums: Vec<f32> = scores
        .iter()
        .zip(&*station.layer.biases[1])
        .map(|(score, bias)| *score as f32 + bias)
        .collect();
    (0..sums.len())
        .rev()
        .reduce(|best, word| if sums[word] >= sums[best] { word } else { best })
        .expect("a word") as u32
}

/// The states that the CPU's cell leaves in some rows, from those that are there before the step. None for the narrow
/// formats, which it does not know.
fn of_cpu(device: &Device, station: &Station, live: &[usize]) -> Option<Vec<f32>> {
    if device.element != Element::F32 {
        return None;
    }
    let mut tokens = Vec::new();
    let mut states = Vec::new();
    let mut states_at = Vec::new();
    for at in live {
        let row = station.rows[*at];
        tokens.push(device.network.token(
            RequestId(row.request.into()),
            row.node.wrapping_add(station.age[0]),
        ));
        let own = [row.state];
        let taken = match station.kind.is_chain() {
            true => &own[..],
            false if station.kind.is_leaf() => &[],
            false => inputs_of(&station.rows, *at, &station.inputs),
        };
        let begin = (states.len() / device.network.state()) as u32;
        taken
            .iter()
            .for_each(|slot| states.extend_from_slice(device.state(*slot)));
        states_at.push(begin..(states.len() / device.network.state()) as u32);
    }
    let batch = BatchInputs {
        rows: live.len(),
        tokens: &tokens,
        token_ends: &(1..=live.len() as u32).collect::<Vec<u32>>(),
        padded_to: 0,
        states: &states,
        states_at: &states_at,
    };
    let mut out = vec![f32::NAN; live.len() * device.network.state()];
    device
        .network
        .cell(station.kind.cell())
        .run(&batch, &mut out, &mut Scratch::default());
    Some(out)
}

pub fn assert_close(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(
            error <= tolerance * (1.0 + expected.abs()),
            "{what}: number {place} is {found}, not {expected}"
        );
    }
}

fn assert_same(found: &[f32], expected: &[f32]) {
    let differ = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found.to_bits() != expected.to_bits());
    assert_eq!(differ, None, "the pool");
}
