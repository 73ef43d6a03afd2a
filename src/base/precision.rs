//! The number format in which a device multiplies.

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
