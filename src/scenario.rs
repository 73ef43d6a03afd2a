//! The scenario file: its keys, defaults and errors.
