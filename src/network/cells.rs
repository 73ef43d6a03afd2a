//! The cells, a file each.
