//! What the paper measured: a Titan V beside two processors of 12 cores, sequences of 100 steps, inputs as wide as states.

/// The widths of the state.
pub const WIDTHS: [u32; 3] = [64, 256, 1024];
/// The batches.
pub const BATCHES: [u32; 3] = [1, 10, 20];
/// The steps of a sequence.
pub const STEPS: u32 = 100;

/// Milliseconds by width, then batch.
pub type Grid = [[f64; 3]; 3];

/// Table 1: an LSTM with the best of the model's first five mappings.
pub const LSTM: Grid = [[0.2, 0.23, 0.24], [0.3, 0.38, 0.49], [0.63, 4.3, 8.01]];
/// Table 1: cuDNN's traditional kernels.
pub const TRADITIONAL: Grid = [[0.96, 1.79, 1.8], [1.1, 1.89, 1.98], [4.43, 6.1, 8.51]];
/// Table 1: cuDNN's persistent kernels.
pub const PERSISTENT: Grid = [[0.19, 1.14, 2.24], [0.21, 1.28, 2.54], [1.22, 9.07, 18.42]];
/// Table 1: DeepCPU, an LSTM.
pub const LSTM_CPU: Grid = [[0.31, 1.1, 1.5], [0.74, 4.4, 6.4], [11.0, 42.0, 68.0]];
/// Table 1: a GRU, likewise.
pub const GRU: Grid = [[0.18, 0.19, 0.2], [0.28, 0.32, 0.43], [0.68, 3.16, 6.32]];
/// Table 1: DeepCPU, a GRU.
pub const GRU_CPU: Grid = [[0.7, 1.1, 1.5], [0.9, 3.7, 5.4], [8.4, 36.0, 60.0]];

/// Table 3: a GRU with one synchronisation a step.
pub const SINGLE: Grid = [[0.181, 0.186, 0.201], [0.275, 0.323, 0.431], [6.46, 64.76, 129.52]];
/// Table 3: with two.
pub const DOUBLE: Grid = [[0.28, 0.285, 0.307], [0.372, 0.411, 0.498], [0.683, 3.162, 6.324]];

/// Table 2: work groups, their size, milliseconds, cost and rank of mappings with tiles of 32 by 2, for a state of 256 and a batch of 20.
pub const MAPPINGS: [(u32, u32, f64, f64, f64); 5] = [
    (128, 2, 0.57, 449.0, 17.0),
    (64, 4, 0.5, 322.0, 3.0),
    (32, 8, 0.5, 252.0, 1.0),
    (16, 16, 0.6, 443.0, 14.0),
    (8, 32, 0.93, 561.0, 35.0),
];

/// Floating-point operations in a nanosecond: of the Titan V (section 8.1), and of DeepCPU's 24 cores at 2.2 GHz with two vectors of 8
/// multiply-adds a cycle.
pub const PEAK: f64 = 13_670.0;
/// See [`PEAK`].
pub const PEAK_CPU: f64 = 24.0 * 2.2 * 32.0;
