//! The profiled cost table.
