//! Weights on a GPU, in the layout that kernels and products read.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use half::vec::HalfFloatVecExt;
use half::{bf16, f16};

use super::driver::Gpu;
use super::fused::{FusedWeights, GatedProduct, StepRule, pack};
use super::memory::GpuMemory;
use crate::base::precision::Precision;
use crate::base::step_kernels::StepKernels;
use crate::devices::cuda::device::DeviceFault;
use crate::devices::network::Spec;
use crate::devices::network::weights::Weights;

/// A matrix of weights with a row for each output.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    memory: Arc<GpuMemory>,
    pub outputs: u32,
    pub inputs: u32,
}

impl Matrix {
    pub fn address(&self) -> u64 {
        self.memory.address()
    }
}

/// Copies a network's weights to a GPU.
pub(super) struct Upload<'a> {
    pub gpu: &'a Arc<Gpu>,
    pub weights: &'a Weights,
    pub spec: &'a Spec,
    pub precision: Precision,
    /// Which steps are fused.
    rule: StepRule,
    /// For each gated product the batches whose steps are fused, or why there are none.
    pub fused: Vec<(GatedProduct, Result<RangeInclusive<u32>, String>)>,
    /// The tables that were copied already, which several cells share.
    tables: Vec<(String, Arc<GpuMemory>)>,
}

impl<'a> Upload<'a> {
    pub fn new(
        gpu: &'a Arc<Gpu>,
        weights: &'a Weights,
        spec: &'a Spec,
        precision: Precision,
        step_kernels: StepKernels,
    ) -> Upload<'a> {
        let rule = StepRule {
            wanted: step_kernels,
            precision,
            architecture: gpu.architecture,
        };
        Upload {
            gpu,
            weights,
            spec,
            precision,
            rule,
            fused: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// A matrix that joins tensors side by side.
    pub fn matrix(&self, tensors: &[&str]) -> Result<Matrix, DeviceFault> {
        self.rows(tensors, 0..usize::MAX)
    }

    /// A matrix that joins some rows of tensors side by side, as far as the tensors have these rows.
    pub fn rows(&self, tensors: &[&str], rows: Range<usize>) -> Result<Matrix, DeviceFault> {
        let (joined, inputs) = self.join(tensors, rows);
        let memory = Arc::new(GpuMemory::with_bytes(
            self.gpu,
            &elements(&joined, self.precision),
            "weights",
        )?);
        Ok(Matrix {
            memory,
            outputs: (joined.len() / inputs) as u32,
            inputs: inputs as u32,
        })
    }

    /// A matrix of a gated cell that was made of these [rows](Upload::rows), packed for the fused kernels, if they
    /// compute any of its batches.
    pub fn fuse(
        &mut self,
        matrix: &Matrix,
        tensors: &[&str],
        rows: Range<usize>,
    ) -> Result<Option<FusedWeights>, DeviceFault> {
        let product = GatedProduct {
            gates: matrix.outputs / self.spec.hidden,
            inputs: matrix.inputs,
            units: self.spec.hidden,
        };
        let batches = self.rule.batches(product);
        self.fused.push((product, batches.clone()));
        let Ok(batches) = batches else {
            return Ok(None);
        };
        let (joined, inputs) = self.join(tensors, rows);
        let bytes = elements(&joined, self.precision);
        let row_bytes = inputs * self.precision.bytes() as usize;
        let packed = pack(&bytes, product.gates as usize, row_bytes);
        let memory = GpuMemory::with_bytes(self.gpu, &packed, "weights")?;
        Ok(Some(FusedWeights::new(memory, batches, product)))
    }

    /// Some rows of tensors side by side, and their width.
    fn join(&self, tensors: &[&str], rows: Range<usize>) -> (Vec<f32>, usize) {
        let taken: Vec<(Vec<f32>, usize)> = tensors
            .iter()
            .map(|name| self.weights.matrix(name))
            .collect();
        let outputs = rows.end.min(taken[0].0.len() / taken[0].1) - rows.start;
        let inputs: usize = taken.iter().map(|(_, width)| width).sum();
        let mut joined = Vec::with_capacity(outputs * inputs);
        for row in rows.take(outputs) {
            for (tensor, width) in &taken {
                joined.extend_from_slice(&tensor[row * width..][..*width]);
            }
        }
        (joined, inputs)
    }

    /// A table of embeddings.
    pub fn table(&mut self, tensor: &str) -> Result<Arc<GpuMemory>, DeviceFault> {
        if let Some((_, table)) = self.tables.iter().find(|(name, _)| name == tensor) {
            return Ok(Arc::clone(table));
        }
        let bytes = elements(&self.weights.take(tensor), self.precision);
        let table = Arc::new(GpuMemory::with_bytes(self.gpu, &bytes, "embeddings")?);
        self.tables.push((tensor.to_string(), Arc::clone(&table)));
        Ok(table)
    }

    /// A bias, which is float32 in all formats.
    pub fn bias(&self, tensor: &str) -> Result<Arc<GpuMemory>, DeviceFault> {
        GpuMemory::with_bytes(
            self.gpu,
            &elements(&self.weights.take(tensor), Precision::F32),
            "biases",
        )
        .map(Arc::new)
    }
}

/// The bytes of numbers in a format, rounded to the nearest.
pub(super) fn elements(numbers: &[f32], precision: Precision) -> Vec<u8> {
    match precision {
        Precision::F32 | Precision::Tf32 => numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
        Precision::Bf16 => Vec::from_f32_slice(numbers)
            .into_iter()
            .flat_map(bf16::to_le_bytes)
            .collect(),
        Precision::F16 => Vec::from_f32_slice(numbers)
            .into_iter()
            .flat_map(f16::to_le_bytes)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_rounded_to_the_nearest() {
        assert_eq!(
            elements(&[1.0, -2.0], Precision::Tf32),
            [0, 0, 128, 63, 0, 0, 0, 192]
        );
        assert_eq!(
            elements(&[1.0 + 3.0 / 512.0], Precision::Bf16),
            bf16::from_f32(1.0 + 1.0 / 128.0).to_le_bytes()
        );
        assert_eq!(
            elements(&[1.0 + 3.0 / 4096.0], Precision::F16),
            f16::from_f32(1.0 + 1.0 / 1024.0).to_le_bytes()
        );
    }
}
