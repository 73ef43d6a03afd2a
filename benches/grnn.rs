//! Ranking all valid mappings of a persistent kernel.

use std::hint::black_box;

use batchlab::cost::grnn::{DataSheet, KernelLaunches, RecurrentCell, Space, rank};
use criterion::{Criterion, criterion_group, criterion_main};

fn ranking(criterion: &mut Criterion) {
    let device = DataSheet::open("titan-v").expect("the device comes with batchlab");
    let mut group = criterion.benchmark_group("grnn");
    group.sample_size(20);
    for (name, cell, hidden, batch, widest, uneven, valid) in [
        (
            "lstm 256, batch 20",
            RecurrentCell::Lstm,
            256,
            20,
            64,
            false,
            150,
        ),
        (
            "gru 256, batch 10",
            RecurrentCell::Gru,
            256,
            10,
            64,
            false,
            425,
        ),
        (
            "lstm 256, batch 20, 111,888 mappings",
            RecurrentCell::Lstm,
            256,
            20,
            256,
            false,
            150,
        ),
        (
            "gru 64, batch 20, tiles up to 256, uneven blocks",
            RecurrentCell::Gru,
            64,
            20,
            256,
            true,
            8_252,
        ),
    ] {
        let space = Space { widest, uneven };
        assert_eq!(
            rank(cell, hidden, batch, &device, &space).len(),
            valid,
            "{name}"
        );
        group.bench_function(name, |b| {
            b.iter(|| rank(cell, hidden, black_box(batch), &device, &space))
        });
    }
    group.bench_function("the best for every batch, lstm 256", |b| {
        b.iter(|| {
            KernelLaunches::new(
                RecurrentCell::Lstm,
                black_box(256),
                &device,
                &Space::default(),
            )
        });
    });
    group.finish();
}

criterion_group!(all, ranking);
criterion_main!(all);
