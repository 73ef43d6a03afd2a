//! The files and tables of results: one list of their columns, the writers, and the readers.

pub mod columns;
pub mod summary;

pub mod write;

pub mod read;

pub mod table;
pub mod timeline;
