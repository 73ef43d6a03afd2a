//! The files and tables of results: their columns, writers and readers.

pub mod columns;
pub mod logs;
pub mod summary;
pub mod swept;

pub mod write;

pub mod read;
pub mod saved;

pub mod table;
pub mod timeline;
