//! Files of other serving tools: Triton's model configurations, perf_analyzer's measurements.

pub mod perf_analyzer;
pub mod text_format;
pub mod triton;
