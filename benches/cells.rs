//! An LSTM step beside the matrix product in it, and that product beside what the core can do at most.
//!
//! Three things take turns, so that a busy spell of the machine meets all of them: multiply-adds in registers (the
//! peak of a core), the library's product at the step's shape, and the step. One thread; each ratio is the median of the
//! ratios of the rounds.

#![expect(clippy::disallowed_methods, reason = "measures the host")]

use std::array;
use std::env;
use std::hint::black_box;
use std::time::{Duration, Instant};

use batchlab::network::{BatchInputs, Network, Scratch, Spec};
use batchlab::units::CellId;
use batchlab::workload::model::Model;
use rayon::ThreadPoolBuilder;
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::ops::{BitOps, NumOps};
use rten_simd::{Isa, Simd, SimdOp};
use rten_tensor::NdTensorView;

const WIDTHS: [usize; 2] = [256, 1024];
const BATCHES: [usize; 7] = [1, 4, 16, 64, 128, 256, 512];
/// Few words: the table has to stay in the cache beside the weights, as it does where words repeat.
const VOCABULARY: u32 = 1000;

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // With `--test` everything runs once, to see that it works.
    let test = arguments.iter().any(|argument| argument == "--test");
    let (rounds, budget) = if test {
        (1, Duration::ZERO)
    } else {
        (15, Duration::from_millis(40))
    };
    let widths = if test { &WIDTHS[..1] } else { &WIDTHS[..] };
    if let Some(filter) = arguments.iter().find(|argument| !argument.starts_with('-'))
        && !"cells".contains(filter.as_str())
    {
        return;
    }

    let _one_thread = ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build_global();
    println!(
        "hidden  batch  product µs   step µs  GFLOP/s  product/peak  product's share of the step"
    );
    for hidden in widths {
        let bench = Bench::new(*hidden);
        for batch in BATCHES {
            let row = bench.measure(batch, rounds, budget);
            println!(
                "{hidden:>6} {batch:>6} {:>11.1} {:>9.1} {:>8.1} {:>12.1}% {:>26.1}%",
                row.product * 1e6,
                row.step * 1e6,
                flops(*hidden, batch) / row.product / 1e9,
                row.product_of_peak * 100.0,
                row.product_of_step * 100.0,
            );
        }
    }
}

/// Multiplications and additions of a step's product: \[x|h\] of 2H numbers by 2H × 4H weights.
fn flops(hidden: usize, batch: usize) -> f64 {
    2.0 * (batch * 2 * hidden * 4 * hidden) as f64
}

/// Medians over the rounds; times in seconds a call.
struct Row {
    product: f64,
    step: f64,
    product_of_peak: f64,
    product_of_step: f64,
}

/// A layer of some width, and its product by itself.
struct Bench {
    hidden: usize,
    network: Network,
    weights: PackedBMatrix<f32>,
}

impl Bench {
    fn new(hidden: usize) -> Bench {
        let width = hidden as u32;
        let spec = Spec {
            hidden: width,
            embedding: width,
            vocabulary: VOCABULARY,
            seed: 1,
            weights: None,
        };
        let (inner, outer) = (2 * hidden, 4 * hidden);
        let weights: Vec<f32> = (0..inner * outer)
            .map(|i| (i % 251) as f32 / 2510.0 - 0.05)
            .collect();
        // As the network has them: a row for each output.
        let weights = NdTensorView::from_data([outer, inner], weights.as_slice()).transposed();
        Bench {
            hidden,
            network: Network::new(&Model::Lstm, &spec).expect("the sizes are in range"),
            weights: GemmExecutor::<f32>::new().prepack_b(weights),
        }
    }

    fn measure(&self, batch: usize, rounds: usize, budget: Duration) -> Row {
        let left: Vec<f32> = (0..batch * 2 * self.hidden)
            .map(|i| (i % 199) as f32 / 199.0 - 0.5)
            .collect();
        let mut right = vec![0.0; batch * 4 * self.hidden];
        let mut product = || self.product(batch, &left, &mut right);

        let tokens: Vec<u32> = (0..batch as u32).map(|row| row * 7 % VOCABULARY).collect();
        let states: Vec<f32> = (0..batch * self.network.state())
            .map(|i| (i % 193) as f32 / 193.0 - 0.5)
            .collect();
        let ends: Vec<u32> = (1..=batch as u32).collect();
        let (mut out, mut scratch) = (vec![f32::NAN; states.len()], Scratch::default());
        let at: Vec<_> = ends.iter().map(|end| end - 1..*end).collect();
        let rows = BatchInputs {
            rows: batch,
            tokens: &tokens,
            token_ends: &ends,
            padded_to: 0,
            states: &states,
            states_at: &at,
        };
        let mut step = || {
            self.network
                .cell(CellId(0))
                .run(&rows, &mut out, &mut scratch)
        };

        let (mut products, mut steps, mut of_peak, mut of_step) = (vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            let (product, step, fastest) = (
                time(&mut product, budget),
                time(&mut step, budget),
                peak(budget),
            );
            products.push(product);
            steps.push(step);
            of_peak.push(flops(self.hidden, batch) / product / fastest);
            of_step.push(product / step);
        }
        assert!(
            out.iter().all(|number| number.abs() < 2.0),
            "a step of states below one half stays below two"
        );
        Row {
            product: median(products),
            step: median(steps),
            product_of_peak: median(of_peak),
            product_of_step: median(of_step),
        }
    }

    fn product(&self, batch: usize, left: &[f32], out: &mut [f32]) {
        let left = NdTensorView::from_data([batch, 2 * self.hidden], left);
        GemmExecutor::<f32>::new()
            .gemm(
                out,
                GemmInputA::Unpacked(left),
                GemmInputB::Packed(&self.weights),
                GemmOptions::default(),
            )
            .expect("the operands have the sizes that the weights were packed for");
    }
}

/// Seconds a call, the median of as many as fit in the budget, at least one.
fn time(call: &mut impl FnMut(), budget: Duration) -> f64 {
    // What ran before has the caches.
    call();
    let (began, mut times) = (Instant::now(), vec![]);
    loop {
        let start = Instant::now();
        call();
        times.push(start.elapsed().as_secs_f64());
        if began.elapsed() >= budget {
            return median(times);
        }
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    let middle = numbers.len() / 2;
    *numbers.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// What one core does at most: floating point operations per second.
fn peak(budget: Duration) -> f64 {
    const REPEATS: usize = 10_000;
    let mut operations = 0;
    let seconds = time(
        &mut || operations = MultiplyAdds(REPEATS).dispatch(),
        budget,
    );
    operations as f64 / seconds
}

/// Multiply-adds that do not wait for each other and touch no memory. Returns how many operations they were.
struct MultiplyAdds(usize);

impl SimdOp for MultiplyAdds {
    type Output = usize;

    #[inline(always)]
    fn eval<I: Isa>(self, isa: I) -> usize {
        /// Enough to hide a latency of four cycles on two units, few enough for the sixteen registers of AVX2.
        const CHAINS: usize = 12;
        let ops = isa.f32();
        let (factor, term) = (ops.splat(black_box(0.999)), ops.splat(black_box(0.001)));
        let mut sums: [I::F32; CHAINS] = array::from_fn(
            #[inline(always)]
            |chain| ops.splat(chain as f32),
        );
        for _ in 0..self.0 {
            for sum in &mut sums {
                *sum = ops.mul_add(*sum, factor, term);
            }
        }
        for sum in sums {
            black_box(sum.to_array().as_ref());
        }
        2 * self.0 * CHAINS * ops.len()
    }
}
