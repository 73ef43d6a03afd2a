//! How GPUs compute, as far as it is configurable.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number format of operands and weights. Sums, states and elementwise work are always float32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    #[default]
    F32,
    /// float32, of which products read the 10 highest bits of each mantissa (TF32).
    Tf32,
    Bf16,
    F16,
}

impl Precision {
    pub const ALL: [Precision; 4] = [
        Precision::F32,
        Precision::Tf32,
        Precision::Bf16,
        Precision::F16,
    ];

    /// The bytes of an operand in memory.
    pub fn bytes(self) -> u64 {
        match self {
            Precision::F32 | Precision::Tf32 => 4,
            Precision::Bf16 | Precision::F16 => 2,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// How the end of a task is signalled to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// By the last block of the task's last kernel.
    #[default]
    Fused,
    /// By a separate kernel (BatchMaker, section 5.2).
    Kernel,
}

/// How the kernels of a task are launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchBy {
    /// As one graph, captured when the plan is prepared.
    #[default]
    Graph,
    /// One by one.
    Kernels,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub precision: Precision,
    pub signal: Signal,
    pub launch: LaunchBy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_has_the_name_of_its_key() {
        assert_eq!(
            Precision::ALL.map(|precision| precision.to_string()),
            ["f32", "tf32", "bf16", "f16"]
        );
        assert_eq!(Precision::ALL.map(Precision::bytes), [4, 4, 2, 2]);
    }
}
