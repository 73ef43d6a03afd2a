//! The request, task and batch logs.
