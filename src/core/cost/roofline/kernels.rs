//! The kernels of a cell, with a cache of their times.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::Roofline;
use crate::base::units::Nanos;
use crate::core::cost::curve::{Best, preferred_batch};
use crate::core::cost::operators::{OperatorWork, rows_of_node};
use crate::core::workload::dnn::{Form, FormKind, SizeByTokens};
use crate::core::workload::operator::{self, Operator};

/// The kernels of a cell by the roofline, with a cache of their times.
#[derive(Debug)]
pub struct RooflineKernels {
    device: Arc<Roofline>,
    forms: Vec<Form>,
    /// The time of each input and batch from 0, or 0 if it is unknown. A time depends only on its place, so any thread
    /// may write it.
    times: Box<[AtomicU64]>,
    /// The preferred batch of each input, or 0 if it is unknown.
    preferred: Box<[AtomicU64]>,
    /// The least share of each input's time in batches up to the number before it, which seldom differs.
    least_shares: Box<[OnceLock<(u32, f64)>]>,
}

/// The largest batch whose times are kept.
const MOST_KEPT: u32 = 256;
const KEPT_BATCHES: usize = MOST_KEPT as usize + 1;
const KEPT_INPUTS: usize = 513;

impl RooflineKernels {
    pub fn new(device: Arc<Roofline>, forms: Vec<Form>) -> RooflineKernels {
        let inputs = if forms.iter().all(Form::is_constant) {
            1
        } else {
            KEPT_INPUTS
        };
        let times = (0..inputs * KEPT_BATCHES)
            .map(|_| AtomicU64::new(0))
            .collect();
        RooflineKernels {
            device,
            forms,
            times,
            preferred: (0..inputs).map(|_| AtomicU64::new(0)).collect(),
            least_shares: (0..inputs).map(|_| OnceLock::new()).collect(),
        }
    }

    /// A kernel for each product, and one for everything elementwise; `None` if an operator is opaque. In a `chain`
    /// exactly one cell precedes each cell.
    pub fn from_operators(
        device: &Arc<Roofline>,
        operators: &[Operator],
        chain: bool,
    ) -> Option<RooflineKernels> {
        let mut forms = Vec::new();
        let mut elements = 0;
        for operator in operators {
            let rows = u64::from(rows_of_node(operator, chain));
            let OperatorWork { weights, of_row } = OperatorWork::from_operator(operator);
            let [gives, takes] = operator.shape.map(u64::from);
            match operator.kind {
                operator::OperatorKind::Opaque => return None,
                _ if weights > 0 => forms.push(constant_form(
                    FormKind::Matmul,
                    [1, rows, takes, gives, rows * of_row],
                )),
                _ => elements += rows * of_row,
            }
        }
        if elements > 0 {
            forms.push(constant_form(FormKind::Memory, [0, 0, 0, 0, elements]));
        }
        Some(RooflineKernels::new(Arc::clone(device), forms))
    }

    pub fn time(&self, batch: u32, input: u32) -> Nanos {
        let input = if self.preferred.len() == 1 { 0 } else { input };
        let row = input as usize;
        let column = batch as usize;
        let place = if row < self.preferred.len() && column < KEPT_BATCHES {
            Some(&self.times[row * KEPT_BATCHES + column])
        } else {
            None
        };
        Nanos(get_or_compute(place, || {
            self.launches().saturating_add(self.busy(batch, input)).0
        }))
    }

    pub fn preferred_batch(&self, input: u32) -> u32 {
        let input = if self.preferred.len() == 1 { 0 } else { input };
        let place = self.preferred.get(input as usize);
        get_or_compute(place, || {
            preferred_batch(|batch| self.busy(batch, input)).into()
        }) as u32
    }

    /// The least times for inputs from `input` on, in batches up to `largest`. Larger inputs and batches never take less
    /// time.
    pub fn best(&self, input: u32, largest: u32) -> Best {
        let input = if self.preferred.len() == 1 { 0 } else { input };
        let compute = || (largest, self.least_share_ns(input, largest));
        let (known, mut share_ns) = match self.least_shares.get(input as usize) {
            Some(place) => *place.get_or_init(compute),
            None => compute(),
        };
        if known != largest {
            share_ns = self.least_share_ns(input, largest);
        }
        Best {
            time: self.time(1, input),
            share_ns,
        }
    }

    /// Nanoseconds per member at the best throughput.
    fn least_share_ns(&self, input: u32, largest: u32) -> f64 {
        let kept = self.least_share_in(input, 1, largest.clamp(1, MOST_KEPT), f64::INFINITY);
        if largest <= MOST_KEPT {
            return kept;
        }
        // A bound for larger batches: no launches, partial waves or weights.
        let bound: f64 = self
            .forms
            .iter()
            .map(|form| self.device.share_ns(&form.work(input)))
            .sum();
        kept.min(bound)
    }

    /// The least of `least` and the shares in batches from `first` to `last`, none of which is below the first batch's
    /// time over the last's members.
    fn least_share_in(&self, input: u32, first: u32, last: u32, least: f64) -> f64 {
        let Best { share_ns, .. } = Best::new(last, self.time(first, input));
        if share_ns >= least {
            return least;
        }
        if first == last {
            return share_ns;
        }
        let middle = first.midpoint(last);
        let least = self.least_share_in(input, middle + 1, last, least);
        self.least_share_in(input, first, middle, least)
    }

    /// The time of the kernels without their launches.
    fn busy(&self, batch: u32, input: u32) -> Nanos {
        let mut time = Nanos::ZERO;
        for form in &self.forms {
            time = time.saturating_add(self.device.busy(&form.work(input), batch));
        }
        time
    }

    fn launches(&self) -> Nanos {
        self.device.launch.saturating_mul(self.forms.len() as u64)
    }
}

/// The form of an operator whose sizes do not depend on tokens.
fn constant_form(kind: FormKind, sizes: [u64; 5]) -> Form {
    let [count, rows, inner, columns, elements] = sizes.map(SizeByTokens::constant);
    Form {
        kind,
        count,
        rows,
        inner,
        columns,
        elements,
    }
}

/// The value at a place of a cache, if it has one. It is computed if it is 0, which means unknown.
#[inline]
fn get_or_compute(place: Option<&AtomicU64>, compute: impl FnOnce() -> u64) -> u64 {
    let Some(place) = place else { return compute() };
    match place.load(Ordering::Relaxed) {
        0 => {
            let value = compute();
            place.store(value, Ordering::Relaxed);
            value
        }
        known => known,
    }
}
