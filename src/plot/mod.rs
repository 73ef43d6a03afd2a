//! Figures, drawn from result files alone.
