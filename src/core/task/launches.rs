//! The launches of a task of operators.

/// Launches of operators, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// Whether places count kernels, in which a bias is apart from its product, and not operators.
    pub kernels: bool,
    pub waves: Vec<Wave>,
    /// The units of all launches, one launch after another. The units of a launch run as one.
    pub units: Vec<LaunchUnit>,
    /// The end of each launch's units.
    pub ends: Vec<u32>,
}

/// Nodes of one cell type with equally many input cells. They are numbered over all requests of the task, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wave {
    pub nodes: Vec<u32>,
    /// One of each node's input cells, for operators that run once for each input cell. Empty for operators that take
    /// all of them.
    pub inputs: Vec<u16>,
}

/// An operator, by its place in its cell's list, at all nodes of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchUnit {
    pub wave: u32,
    pub place: u16,
}

impl Launches {
    /// The units of each launch.
    pub fn each(&self) -> impl Iterator<Item = &[LaunchUnit]> {
        let begins = std::iter::once(&0).chain(&self.ends);
        begins
            .zip(&self.ends)
            .map(|(begin, end)| &self.units[*begin as usize..*end as usize])
    }
}
