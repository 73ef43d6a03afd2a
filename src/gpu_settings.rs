//! How the GPUs compute, as far as there is a choice.

use std::fmt;

/// The number format of operands and weights. Sums, states and elementwise work are float32 in all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// float32, multiplied as such.
    #[default]
    F32,
    /// float32, of which products take the 10 highest bits of each mantissa (TF32).
    Tf32,
    /// bfloat16.
    Bf16,
    /// float16.
    F16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Precision; 4] = [Precision::F32, Precision::Tf32, Precision::Bf16, Precision::F16];

    /// The name, as scenarios give it.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::F16 => "f16",
        }
    }

    /// The format of this name.
    pub fn parse(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What tells the host that a task is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signal {
    /// The last block of the task's last kernel.
    #[default]
    Fused,
    /// A kernel of its own behind it (BatchMaker, section 5.2).
    Kernel,
}

/// How the kernels of a task get to the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchBy {
    /// As one graph, captured when the plan was made.
    #[default]
    Graph,
    /// One call for each.
    Kernels,
}

/// All choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The number format.
    pub precision: Precision,
    /// What signals.
    pub signal: Signal,
    /// How launches are queued.
    pub launch: LaunchBy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_has_one_name() {
        for precision in Precision::ALL {
            assert_eq!(Precision::parse(precision.name()), Some(precision));
        }
        assert_eq!(Precision::parse("f64"), None);
    }
}
