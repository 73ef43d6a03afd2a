//! Which kernels compute the steps of gated cells on a GPU.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kernels of a step: a product by NVIDIA's library and a kernel for the gates, or one fused kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepKernels {
    /// The fused kernel where a measurement says that it is faster.
    #[default]
    Auto,
    /// The library's product in all batches.
    Cublas,
    /// The fused kernel in all batches that it can compute.
    Fused,
}

impl StepKernels {
    pub const ALL: [StepKernels; 3] = [StepKernels::Auto, StepKernels::Cublas, StepKernels::Fused];
}

impl fmt::Display for StepKernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_the_name_of_its_key() {
        assert_eq!(
            StepKernels::ALL.map(|kernels| kernels.to_string()),
            ["auto", "cublas", "fused"]
        );
    }
}
