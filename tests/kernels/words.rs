//! The word of a decoder step, for scores of all kinds.

use batchlab::network::Spec;

use super::device::{Cut, Device, Row, Station};
use super::host_cuda::Element;
use super::layer::Kind;
use super::memory::floats;

/// A decoder whose rows have given scores, the bias included, and go on behind this step.
fn chosen(vocabulary: u32, scores: &[Vec<f32>], seed: u64) -> Option<(Device, Station)> {
    let spec = Spec {
        hidden: 3,
        embedding: 5,
        vocabulary,
        seed: 1,
        weights: None,
    };
    let cut = Cut {
        units: 1,
        rows: 2,
        seed,
    };
    let mut device = Device::new(
        &Kind::Decoder.model(),
        &spec,
        Element::F32,
        scores.len(),
        0,
        cut,
    )?;
    let mut station = device.station(Kind::Decoder, scores.len(), 0);
    let row = |at: u32| Row {
        request: at,
        node: 1,
        last: 2,
        state: at,
        words: 10 * at,
        tokens: 0,
        inputs_end: at + 1,
    };
    let slots: Vec<u32> = (0..scores.len() as u32).collect();
    let rows: Vec<Row> = slots.iter().map(|at| row(*at)).collect();
    device.gather(&mut station, &rows, &slots);
    station.layer.biases[1].fill(0.5);
    let mut given = floats(scores.len() * vocabulary as usize);
    given
        .iter_mut()
        .zip(scores.iter().flatten())
        .for_each(|(given, score)| *given = score - 0.5);
    device.choose_words(&mut station, &mut given, true);
    Some((device, station))
}

#[test]
fn the_lowest_of_the_largest_is_chosen() {
    for vocabulary in [
        1, 2, 31, 33, 255, 256, 257, 1020, 1024, 2049, 5000, 8192, 16_388,
    ] {
        // The largest score stands at a place, and again behind it; before it, those that are no numbers count nothing.
        let places = [0, 1, vocabulary / 3, vocabulary / 2, vocabulary - 1]
            .map(|place| place.min(vocabulary - 1));
        let scores = places.map(|place| {
            let mut scores: Vec<f32> = (0..vocabulary)
                .map(|word| (word as f32 * 0.37).sin() - 2.0)
                .collect();
            scores[..place as usize]
                .iter_mut()
                .step_by(2)
                .for_each(|score| *score = f32::NAN);
            scores[place as usize..]
                .iter_mut()
                .step_by(3)
                .for_each(|score| *score = 2.0);
            scores
        });
        let Some((device, _)) = chosen(vocabulary, &scores, u64::from(vocabulary)) else {
            return;
        };
        for (at, place) in (0..).zip(places) {
            assert_eq!(device.state(at)[6], place as f32, "{vocabulary} words");
            assert_eq!(device.words[10 * at as usize + 1], place);
        }
        assert!(device.broken.iter().all(|broken| *broken == 0));
    }
}

#[test]
fn what_is_no_score_is_passed_over() {
    const NONE: f32 = f32::NAN;
    const LEAST: f32 = f32::NEG_INFINITY;
    let scores = [
        vec![NONE, LEAST, -3e38, NONE],
        vec![NONE, NONE, LEAST, NONE],
        vec![LEAST, 1.0, f32::INFINITY, f32::INFINITY],
        vec![0.5, LEAST, 0.5, NONE],
    ];
    let Some((device, station)) = chosen(4, &scores, 1) else {
        return;
    };
    let word = |slot| device.state(slot)[6];
    assert_eq!([word(0), word(2), word(3)], [2.0, 2.0, 0.0]);
    assert!(word(1).is_nan(), "no word was found");
    assert_eq!(*device.broken, [0, 1, 0, 0]);
    assert_eq!(
        [1, 11, 21, 31].map(|place| device.words[place]),
        [2, u32::MAX, 2, 0]
    );
    // A row without a word reads the first word next, as any that begins.
    let embedding = station.layer.embedding.numbers();
    assert_eq!(station.operand.numbers()[8..13], embedding[..5]);
}

#[test]
fn an_unknown_word_is_read_as_the_first() {
    let spec = Spec {
        hidden: 3,
        embedding: 5,
        vocabulary: 4,
        seed: 1,
        weights: None,
    };
    let cut = Cut {
        units: 1,
        rows: 1,
        seed: 0,
    };
    let model = Kind::Decoder.model();
    let Some(mut device) = Device::new(&model, &spec, Element::F32, 5, 0, cut) else {
        return;
    };
    for (slot, word) in [f32::NAN, f32::INFINITY, -1.0, 4.0, 3.0]
        .into_iter()
        .enumerate()
    {
        device.pool[slot * 7 + 6] = word;
    }
    let mut station = device.station(Kind::Decoder, 5, 0);
    let row = |at: u32| Row {
        request: at,
        node: 1,
        last: 2,
        state: at,
        words: 0,
        tokens: 0,
        inputs_end: at + 1,
    };
    device.gather(&mut station, &[0, 1, 2, 3, 4].map(row), &[0, 1, 2, 3, 4]);
    let embedding = station.layer.embedding.numbers();
    for (at, word) in [0, 0, 0, 0, 3].into_iter().enumerate() {
        assert_eq!(
            station.operand.numbers()[8 * at..][..5],
            embedding[5 * word..][..5],
            "row {at}"
        );
    }
}
