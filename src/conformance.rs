//! The laws that every policy keeps, as a kit.
