//! What a task of operators runs.

/// Launches of operators, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// Whether places count kernels: a bias apart from its product.
    pub kernels: bool,
    pub waves: Vec<Wave>,
    /// Launch by launch. Those of a launch run as one.
    pub units: Vec<Unit>,
    /// The end of each launch's units.
    pub ends: Vec<u32>,
}

/// Nodes of one cell type with equally many input cells. They are numbered over all requests of the task, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wave {
    pub nodes: Vec<u32>,
    /// For each node one of its input cells, for operators that run once for each. Empty: all of them.
    pub inputs: Vec<u16>,
}

/// An operator, by its place in its cell's list, at all nodes of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    pub wave: u32,
    pub place: u16,
}

impl Launches {
    pub fn each(&self) -> impl Iterator<Item = &[Unit]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins
            .zip(&self.ends)
            .map(|(begin, end)| &self.units[*begin as usize..*end as usize])
    }
}
