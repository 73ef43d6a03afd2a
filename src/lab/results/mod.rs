//! The files and tables of results: their columns, writers and readers.

pub mod columns;
pub mod logs;
pub mod summary;
pub mod sweep_keys;

pub mod write;

pub mod read;
pub mod saved_results;

pub mod table;
pub mod timeline;
