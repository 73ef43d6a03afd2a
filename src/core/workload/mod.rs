//! Shapes and arrival times of requests, and the cell graphs that shapes unfold to.

pub mod arrivals;
pub mod cell_graph;
pub mod class;
pub mod dataset;
pub mod describe;
pub mod dnn;
pub mod draws;
pub mod generators;
pub mod graph_model;
pub mod import;
pub mod input;
pub mod model;
pub mod operator;
pub mod random;
pub mod row_names;
pub mod shape;
pub mod shared_list;
pub mod trace;
pub mod transformer;
pub mod treebanks;
