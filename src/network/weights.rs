//! Weights: from a seed, or from a file.
