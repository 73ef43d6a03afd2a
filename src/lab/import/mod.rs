//! Files of other serving tools (Triton's model configurations, perf_analyzer's measurements), and networks in stages
//! from measurements of whole batches.

pub mod perf_analyzer;
pub mod stages;
pub mod text_format;
pub mod triton;
