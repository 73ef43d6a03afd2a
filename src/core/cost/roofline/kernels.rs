//! The kernels of a cell, with a cache of their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// The least times for inputs from `input` on (larger ones never take less time), in batches up to `largest`.
    pub fn best(&self, input: u32, largest: u32) -> Best {
        let mut best = Best::new(1, self.time(1, input));
        for batch in 2..=largest.min(MOST_KEPT) {
            best = best.or(Best::new(batch, self.time(batch, input)));
        }
        if largest <= MOST_KEPT {
            return best;
        }
        // A bound for larger batches: no launches, partial waves or weights.
        let share_ns = self
            .forms
            .iter()
            .map(|form| self.device.share_ns(&form.work(input)))
            .sum();
        best.or(Best {
            time: best.time,
            share_ns,
        })
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
