//! Tasks of operators: each launch runs one kind of operator for many nodes. The outputs of a launch are adjacent in
//! memory, in the order of its units and nodes. An input whose rows are not evenly spaced in memory is copied first.

use super::table::StateTable;
use crate::base::clock;
use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::backend::Launched;
use crate::core::task::{LaunchUnit, NodeRef, Wave};
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::operator::RowRule;
use crate::devices::network::by_operator::{
    CellProgram, InputOrigin, Left, Op, Operand, OperatorAction, OperatorInput, OperatorPrograms,
};
use crate::devices::network::{Network, first};
use crate::devices::task_checks::find_node;

/// The memory of a worker for tasks of operators. All outputs of a task stay here until the task ends.
#[derive(Debug, Default)]
pub struct OperatorMemory {
    numbers: Vec<f32>,
    /// How many of the numbers are in use.
    used: usize,
    nodes: Vec<OperatorNode>,
    /// The input nodes of all nodes, node after node.
    inputs: Vec<u32>,
    /// The place of the first row of each operator's output.
    outputs: Vec<usize>,
    /// The rows of one input: where they begin, and how wide they are.
    rows: Vec<(usize, usize)>,
    gathered: [Vec<f32>; 2],
    product: Vec<f32>,
}

#[derive(Clone, Copy, Debug)]
struct OperatorNode {
    request: RequestId,
    /// The number of the node in its request.
    number: u32,
    cell: CellId,
    /// The range of the node's inputs in [`OperatorMemory::inputs`].
    inputs: [u32; 2],
    /// The beginning of the node's outputs in [`OperatorMemory::outputs`].
    outputs: u32,
}

impl OperatorNode {
    /// The number of input cells. An initial state counts as one.
    fn before(&self) -> u32 {
        (self.inputs[1] - self.inputs[0]).max(1)
    }
}

/// Places from this one on are those of embeddings.
const VECTORS: usize = 1 << 60;
/// The place of an output that is not computed yet.
const MISSING: usize = usize::MAX;
/// The place of zeros, which initial states and missing children consist of.
const ZEROS: usize = 0;

/// Runs the launches of a task.
pub struct OperatorLauncher<'a> {
    pub memory: &'a mut OperatorMemory,
    pub operators: &'a OperatorPrograms,
    pub programs: &'a [CellProgram],
    pub network: &'a Network,
    pub launched: &'a mut Launched,
}

impl OperatorMemory {
    /// Begins a task: makes room for the nodes of its requests, none of which has run.
    pub fn begin(
        &mut self,
        requests: &[RequestId],
        programs: &[CellProgram],
        hidden: usize,
        table: &StateTable,
    ) {
        self.nodes.clear();
        self.inputs.clear();
        let mut outputs = 0;
        for &request in requests {
            let first = self.nodes.len() as u32;
            let graph = table.graph(request);
            for number in 0..graph.nodes() as u32 {
                let (cell, _) =
                    find_node(graph, NodeId(number)).expect("the request has this node");
                let begin = self.inputs.len() as u32;
                match graph {
                    CellGraph::Chains(_) => self
                        .inputs
                        .extend(number.checked_sub(1).map(|before| first + before)),
                    CellGraph::Graph(graph) => {
                        self.inputs
                            .extend(graph.inputs(number).iter().map(|input| first + input));
                    }
                }
                let node = OperatorNode {
                    request,
                    number,
                    cell,
                    inputs: [begin, self.inputs.len() as u32],
                    outputs,
                };
                outputs += programs[cell.index()].outputs(node.before()) as u32;
                self.nodes.push(node);
            }
        }
        self.outputs.clear();
        self.outputs.resize(outputs as usize, MISSING);
        self.used = 0;
        self.make_room(hidden);
        self.numbers[..hidden].fill(0.0);
    }

    /// Makes room for numbers of any value. Returns where they begin.
    fn make_room(&mut self, numbers: usize) -> usize {
        let from = self.used;
        self.used += numbers;
        if self.numbers.len() < self.used {
            self.numbers.resize(self.used, 0.0);
        }
        from
    }
}

impl<'a> OperatorLauncher<'a> {
    /// Runs one launch, which consists of units of the same kind of operator.
    pub fn launch(&mut self, units: &[LaunchUnit], waves: &'a [Wave]) {
        self.launched.launches += 1;
        match units.first().map(|unit| self.operator(*unit, waves).action) {
            Some(OperatorAction::Product(..)) => self.multiply(units, waves),
            _ => units.iter().for_each(|unit| self.run(*unit, waves)),
        }
    }

    /// Puts the states of all nodes that have run into the table.
    pub fn put_states(&self, table: &StateTable) {
        for (place, node) in (0..).zip(&self.memory.nodes) {
            let Some(state) = self.state_of(place) else {
                continue;
            };
            let at = NodeRef {
                request: node.request,
                node: NodeId(node.number),
            };
            let word = self.network.cell(node.cell).word(&state);
            table.put(at, node.cell, &state, word.as_slice());
        }
    }

    /// The operator of a unit. The nodes of a wave are of one cell type and have equally many inputs.
    fn operator(&self, unit: LaunchUnit, waves: &'a [Wave]) -> &'a Op {
        let node = &self.memory.nodes[waves[unit.wave as usize].nodes[0] as usize];
        &self.programs[node.cell.index()].operators[unit.place as usize]
    }

    /// Computes one product for all units, which have the same weights.
    fn multiply(&mut self, units: &[LaunchUnit], waves: &'a [Wave]) {
        let op = self.operator(units[0], waves);
        let inner = op.inner;
        let mut rows = std::mem::take(&mut self.memory.rows);
        rows.clear();
        let mut ends = 0;
        for unit in units {
            let op = self.operator(*unit, waves);
            let wave = &waves[unit.wave as usize];
            for (node, copy) in self.copies(op, wave) {
                op.inputs
                    .iter()
                    .for_each(|input| self.push(op, input, node, copy, &mut rows));
            }
        }
        let numbers: usize = rows.iter().map(|(_, width)| width).sum();
        let count = numbers / inner;
        let stride = if rows.len() == count {
            spacing(&rows).filter(|stride| *stride >= inner)
        } else {
            None
        };
        if stride.is_none() {
            self.gather(&rows, 0);
        }
        let from = self.memory.make_room(count * op.width);
        for unit in units {
            let op = self.operator(*unit, waves);
            let wave = &waves[unit.wave as usize];
            ends += self.note(op, wave, from + ends);
        }
        let OperatorMemory {
            numbers,
            gathered,
            product,
            ..
        } = &mut *self.memory;
        let (before, out) = numbers.split_at_mut(from);
        let left = match stride {
            Some(stride) => Left {
                data: &before[rows[0].0..],
                stride,
                count,
            },
            None => Left {
                data: &gathered[0],
                stride: inner,
                count,
            },
        };
        self.operators
            .multiply(op, left, &mut out[..count * op.width], product);
        self.memory.rows = rows;
    }

    /// Runs an operator that computes no product of matrices, for the nodes of a unit.
    fn run(&mut self, unit: LaunchUnit, waves: &'a [Wave]) {
        let op = self.operator(unit, waves);
        let wave = &waves[unit.wave as usize];
        let from = self.memory.used;
        let size = self.note(op, wave, from);
        self.memory.make_room(size);
        let mut rows = std::mem::take(&mut self.memory.rows);
        // For each input: where the rows begin, their spacing, and how many there are for a row of the output.
        let mut places = [(None, 0, 0); 2];
        for (number, input) in op.inputs.iter().enumerate() {
            rows.clear();
            for (node, copy) in self.copies(op, wave) {
                self.push(op, input, node, copy, &mut rows);
            }
            let stride = spacing(&rows);
            // Copying is the operator's own work.
            if op.action == OperatorAction::Copy {
                let (before, out) = self.memory.numbers.split_at_mut(from);
                copy(&rows, before, self.operators, out);
            } else if stride.is_none() {
                self.gather(&rows, number);
            }
            let begin = stride.map(|_| rows[0].0);
            places[number] = (
                begin,
                stride.unwrap_or(input.width),
                rows.len() * op.width / size,
            );
        }
        self.memory.rows = rows;
        if op.action == OperatorAction::Copy {
            return;
        }
        let OperatorMemory {
            numbers, gathered, ..
        } = &mut *self.memory;
        let (before, out) = numbers.split_at_mut(from);
        let operand = |number: usize| {
            let (begin, stride, each) = places[number];
            Operand {
                data: begin.map_or(&gathered[number][..], |begin| &before[begin..]),
                stride,
                each,
            }
        };
        self.operators.run(
            op,
            &[operand(0), operand(1)][..op.inputs.len()],
            &mut out[..size],
        );
    }

    /// The nodes of a wave, each with its copies of the operator.
    fn copies(&self, op: &Op, wave: &'a Wave) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let of_each = match op.rows {
            RowRule::ForEach if wave.inputs.is_empty() => {
                self.memory.nodes[wave.nodes[0] as usize].before()
            }
            _ => 1,
        };
        wave.nodes
            .iter()
            .enumerate()
            .flat_map(move |(place, node)| {
                let first = wave.inputs.get(place).map_or(0, |input| u32::from(*input));
                (first..first + of_each).map(move |copy| (*node, copy))
            })
    }

    /// Notes that a unit's output begins at `from`. Returns its size.
    fn note(&mut self, op: &Op, wave: &'a Wave, from: usize) -> usize {
        let mut size = 0;
        for (node, copy) in self.copies(op, wave) {
            let node @ OperatorNode { outputs, .. } = self.memory.nodes[node as usize];
            let before = node.before();
            self.memory.outputs[outputs as usize + op.place(before) + copy as usize] = from + size;
            size += op.width
                * if op.rows == RowRule::Stacked {
                    before as usize
                } else {
                    1
                };
        }
        size
    }

    /// Appends the places and widths of the rows that a copy of an operator takes.
    fn push(
        &self,
        op: &Op,
        input: &OperatorInput,
        node: u32,
        copy: u32,
        rows: &mut Vec<(usize, usize)>,
    ) {
        let OperatorInput { column, width, .. } = *input;
        let at = &self.memory.nodes[node as usize];
        let before = at.before();
        let output = |earlier: &Op, copy: u32| {
            let place =
                self.memory.outputs[at.outputs as usize + earlier.place(before) + copy as usize];
            assert!(
                place != MISSING,
                "an operator runs before one whose output it takes"
            );
            place + column
        };
        let of_each = |rows: &mut Vec<(usize, usize)>, row: &dyn Fn(u32) -> usize| match op.rows {
            RowRule::ForEach => rows.push((row(copy), width)),
            RowRule::One | RowRule::Stacked => {
                rows.extend((0..before).map(|copy| (row(copy), width)));
                rows.extend((before as usize..input.least).map(|_| (ZEROS, width)));
            }
        };
        match input.from {
            InputOrigin::Word => rows.push((
                VECTORS
                    + self
                        .operators
                        .vector(self.network.token(at.request, at.number)),
                width,
            )),
            InputOrigin::State(part) => of_each(rows, &|copy| self.state(node, copy, part)),
            InputOrigin::Operator(place) => {
                let earlier = &self.programs[at.cell.index()].operators[place as usize];
                match (op.rows, earlier.rows) {
                    (_, RowRule::ForEach) => of_each(rows, &|copy| output(earlier, copy)),
                    (_, RowRule::Stacked) => of_each(rows, &|copy| {
                        output(earlier, 0) + copy as usize * earlier.width
                    }),
                    (RowRule::Stacked, RowRule::One) => of_each(rows, &|_| output(earlier, 0)),
                    (_, RowRule::One) => {
                        rows.push((output(earlier, 0) + copy as usize * input.step, width))
                    }
                }
            }
        }
    }

    /// The place of a part of the state of a node's input cell.
    fn state(&self, node: u32, copy: u32, part: usize) -> usize {
        let [begin, end] = self.memory.nodes[node as usize].inputs;
        match self.memory.inputs[begin as usize..end as usize].get(copy as usize) {
            None => ZEROS,
            Some(input) => self
                .find_part(*input, part)
                .expect("an operator runs before one whose output it takes"),
        }
    }

    /// The place of a part of the state that a node has made; zeros if its cell has no such part. `None` if the part is
    /// missing.
    fn find_part(&self, node: u32, part: usize) -> Option<usize> {
        let node = &self.memory.nodes[node as usize];
        let program = &self.programs[node.cell.index()];
        let Some(place) = program.state[part] else {
            return Some(ZEROS);
        };
        let place = program.operators[place as usize].place(node.before());
        match self.memory.outputs[node.outputs as usize + place] {
            MISSING => None,
            place => Some(place),
        }
    }

    /// Copies the rows of an input, so that they are evenly spaced.
    fn gather(&mut self, rows: &[(usize, usize)], number: usize) {
        let began = clock::now();
        let OperatorMemory {
            numbers, gathered, ..
        } = &mut *self.memory;
        let size = rows.iter().map(|(_, width)| width).sum();
        copy(
            rows,
            numbers,
            self.operators,
            first(&mut gathered[number], size),
        );
        self.launched.copies += 1;
        self.launched.copied_bytes += 4 * size as u64;
        self.launched.copying += began.elapsed();
    }

    /// The state of a node. `None` if an operator that makes a part of it has not run.
    fn state_of(&self, node: u32) -> Option<Vec<f32>> {
        let width = self.network.state();
        let mut state = Vec::with_capacity(width);
        for part in 0..width.div_ceil(self.operators.hidden) {
            let from = self.find_part(node, part)?;
            state.extend_from_slice(
                &self.memory.numbers[from..][..if part < 2 { self.operators.hidden } else { 1 }],
            );
        }
        Some(state)
    }
}

/// The distance from each row to the next, if the rows are evenly spaced and not embeddings.
fn spacing(rows: &[(usize, usize)]) -> Option<usize> {
    let (begin, width) = *rows.first()?;
    let stride = rows
        .get(1)
        .map_or(Some(width), |(second, _)| second.checked_sub(begin))?;
    let is_even = rows.windows(2).all(|pair| pair[0].0 + stride == pair[1].0);
    if is_even && begin < VECTORS {
        Some(stride)
    } else {
        None
    }
}

/// Copies rows one after another.
fn copy(rows: &[(usize, usize)], numbers: &[f32], by: &OperatorPrograms, mut into: &mut [f32]) {
    for (from, width) in rows {
        let row = match from.checked_sub(VECTORS) {
            Some(from) => &by.vectors[from..from + width],
            None => &numbers[*from..from + width],
        };
        let (out, rest) = into.split_at_mut(*width);
        out.copy_from_slice(row);
        into = rest;
    }
}
