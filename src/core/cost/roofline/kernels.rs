//! The kernels of a cell, with a cache of their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Roofline;
use crate::base::units::Nanos;
use crate::core::cost::curve::{Best, preferred};
use crate::core::cost::operators::{OperatorWork, rows_of_node};
use crate::core::workload::dnn::{Form, FormKind, SizeByTokens};
use crate::core::workload::operator::{self, Operator};

#[derive(Debug)]
pub struct RooflineKernels {
    device: Arc<Roofline>,
    forms: Vec<Form>,
    /// By input and batch from 0; 0 if unknown. A time depends only on its place, so any thread may write it.
    times: Box<[AtomicU64]>,
    preferred: Box<[AtomicU64]>,
}

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

    /// A kernel per product, and one for everything elementwise. `None` if an operator is opaque. `chain`: exactly one
    /// cell precedes each cell.
    pub fn of_cell(
        device: &Arc<Roofline>,
        operators: &[Operator],
        chain: bool,
    ) -> Option<RooflineKernels> {
        let form = |kind, [count, rows, inner, columns, elements]: [u64; 5]| {
            let [count, rows, inner] = [count, rows, inner].map(SizeByTokens::constant);
            let [columns, elements] = [columns, elements].map(SizeByTokens::constant);
            Form {
                kind,
                count,
                rows,
                inner,
                columns,
                elements,
            }
        };
        let mut forms = Vec::new();
        let mut elements = 0;
        for operator in operators {
            let rows = u64::from(rows_of_node(operator, chain));
            let (OperatorWork { weights, of_row }, [gives, takes]) =
                (OperatorWork::of(operator), operator.shape.map(u64::from));
            match operator.kind {
                operator::OperatorKind::Opaque => return None,
                _ if weights > 0 => forms.push(form(
                    FormKind::Matmul,
                    [1, rows, takes, gives, rows * of_row],
                )),
                _ => elements += rows * of_row,
            }
        }
        if elements > 0 {
            forms.push(form(FormKind::Memory, [0, 0, 0, 0, elements]));
        }
        Some(RooflineKernels::new(Arc::clone(device), forms))
    }

    pub fn at(&self, batch: u32, input: u32) -> Nanos {
        let input = if self.preferred.len() == 1 { 0 } else { input };
        let (row, column) = (input as usize, batch as usize);
        let is_kept = row < self.preferred.len() && column < KEPT_BATCHES;
        let place = is_kept.then(|| &self.times[row * KEPT_BATCHES + column]);
        Nanos(kept(place, || {
            self.launches().saturating_add(self.busy(batch, input)).0
        }))
    }

    pub fn preferred(&self, input: u32) -> u32 {
        let input = if self.preferred.len() == 1 { 0 } else { input };
        let compute = || preferred(|batch| self.busy(batch, input)).into();
        kept(self.preferred.get(input as usize), compute) as u32
    }

    /// For inputs from `input` on (larger ones never take less time), in batches up to `largest`.
    pub fn best(&self, input: u32, largest: u32) -> Best {
        let of = |batch: u32| Best::of(batch, self.at(batch, input));
        let best = (2..=largest.min(MOST_KEPT)).map(of).fold(of(1), Best::or);
        if largest <= MOST_KEPT {
            return best;
        }
        // A bound for larger batches: no launches, partial waves or weights.
        let share_ns = self
            .forms
            .iter()
            .map(|form| self.device.share_ns(&form.at(input)))
            .sum();
        best.or(Best {
            time: best.time,
            share_ns,
        })
    }

    fn busy(&self, batch: u32, input: u32) -> Nanos {
        let time = |form: &Form| self.device.busy(&form.at(input), batch);
        self.forms
            .iter()
            .map(time)
            .fold(Nanos::ZERO, Nanos::saturating_add)
    }

    fn launches(&self) -> Nanos {
        self.device.launch.saturating_mul(self.forms.len() as u64)
    }
}

/// The value at a place of a cache, if it has one; 0 if unknown.
#[inline]
fn kept(place: Option<&AtomicU64>, compute: impl FnOnce() -> u64) -> u64 {
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
