//! The rows of a batch: the states that a cell reads and writes. While the members stay, nothing is copied: two buffers
//! are swapped. A state never changes after it was written, so copies elsewhere do not matter.

use super::table::Table;
use crate::network::{Batch, Network, Scratch};
use crate::task::NodeRef;
use crate::units::{CellId, NodeId};

#[derive(Debug, Default)]
pub struct Rows {
    cell: CellId,
    width: usize,
    rows: Vec<Row>,
    taken: Vec<f32>,
    /// The end of each row's states, counted in states.
    taken_ends: Vec<u32>,
    tokens: Vec<u32>,
    token_ends: Vec<u32>,
    /// The new state of each row.
    made: Vec<f32>,
    /// The words that each row has written since its state was last put into the table. May be longer than `rows`.
    words: Vec<Vec<u32>>,
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The node that has run; `None` for padding.
    member: Option<NodeRef>,
    /// The last node before another cell, a branch or the end.
    run_end: NodeId,
    /// The tokens that the node reads, for cells whose input has a size; otherwise 0.
    input: u32,
}

impl Row {
    /// Padding reads the word 0.
    const PADDING: Row = Row { member: None, run_end: NodeId(0), input: 0 };

    pub fn next(&self) -> Option<NodeRef> {
        let NodeRef { request, node } = self.member?;
        (node < self.run_end).then(|| NodeRef { request, node: NodeId(node.0 + 1) })
    }
}

impl Rows {
    pub fn new(cell: CellId, width: usize) -> Rows {
        Rows { cell, width, ..Rows::default() }
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.made.clear();
        self.words.iter_mut().for_each(Vec::clear);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether these nodes are the next of all rows, in this order.
    pub fn go_on_with(&self, nodes: &[NodeRef]) -> bool {
        self.len() == nodes.len() && self.rows.iter().zip(nodes).all(|(row, node)| row.next() == Some(*node))
    }

    /// The number of rows with a next node.
    pub fn going_on(&self) -> usize {
        self.rows.iter().filter(|row| row.next().is_some()).count()
    }

    /// The next node reads the state that the row has written.
    pub fn go_on(&mut self) {
        std::mem::swap(&mut self.taken, &mut self.made);
        self.taken_ends.clear();
        self.taken_ends.extend(1..=self.rows.len() as u32);
        for row in &mut self.rows {
            if let Some(member) = &mut row.member {
                member.node.0 += 1;
            }
        }
    }

    /// Gathers the states that these nodes read, and pads to `size` rows. If a node can't run, its request fails and
    /// its row is padding. Returns the bytes of the states.
    pub fn gather(&mut self, nodes: &[NodeRef], size: usize, table: &Table) -> u64 {
        self.rows.clear();
        self.taken.clear();
        self.taken_ends.clear();
        for &node in nodes {
            self.rows.push(match table.place(node, self.cell) {
                Ok(place) => {
                    table.take(node, &mut self.taken);
                    Row { member: Some(node), run_end: place.run_end, input: place.input }
                }
                Err(reason) => {
                    table.fail(node.request, reason);
                    Row::PADDING
                }
            });
            self.taken_ends.push((self.taken.len() / self.width) as u32);
        }
        self.rows.resize(size.max(nodes.len()), Row::PADDING);
        self.taken_ends.resize(self.rows.len(), self.taken_ends.last().copied().unwrap_or(0));
        if self.words.len() < self.rows.len() {
            self.words.resize_with(self.rows.len(), Vec::new);
        }
        4 * self.taken.len() as u64
    }

    pub fn run(&mut self, network: &Network, padded_to: u32, scratch: &mut Scratch) {
        self.tokens.clear();
        self.token_ends.clear();
        for row in &self.rows {
            match row.member {
                // Words of an input are counted from 0; other cells read their node's word.
                Some(at) if row.input > 0 => self.tokens.extend((0..row.input).map(|i| network.token(at.request, i))),
                Some(at) => self.tokens.push(network.token(at.request, at.node.0)),
                None => self.tokens.push(0),
            }
            self.token_ends.push(self.tokens.len() as u32);
        }
        self.made.resize(self.rows.len() * self.width, 0.0);
        let cell = network.cell(self.cell);
        let batch = Batch {
            rows: self.rows.len(),
            tokens: &self.tokens,
            token_ends: &self.token_ends,
            padded_to,
            states: &self.taken,
            state_ends: &self.taken_ends,
        };
        cell.run(&batch, &mut self.made, scratch);
        for ((row, state), words) in self.rows.iter().zip(self.made.chunks_exact(self.width)).zip(&mut self.words) {
            if row.member.is_some() {
                words.extend(cell.word(state));
            }
        }
    }

    pub fn put_all(&mut self, table: &Table) {
        for row in 0..self.rows.len() {
            self.put(row, table);
        }
    }

    /// Writes the states of these rows and turns them into padding; calls `left` for each.
    pub fn dismiss(&mut self, table: &Table, whom: impl Fn(&Row) -> bool, mut left: impl FnMut(NodeRef)) {
        for row in 0..self.rows.len() {
            if whom(&self.rows[row])
                && let Some(member) = self.put(row, table)
            {
                self.rows[row] = Row::PADDING;
                left(member);
            }
        }
    }

    fn put(&mut self, row: usize, table: &Table) -> Option<NodeRef> {
        let member = self.rows[row].member?;
        table.put(member, self.cell, &self.made[row * self.width..][..self.width], &self.words[row]);
        self.words[row].clear();
        Some(member)
    }

    /// Removes padding down to `size` rows, if possible, and keeps the order.
    pub fn close_up(&mut self, size: usize) {
        let mut surplus = self.rows.len().saturating_sub(size);
        let mut kept = 0;
        for row in 0..self.rows.len() {
            if surplus > 0 && self.rows[row].member.is_none() {
                surplus -= 1;
                continue;
            }
            if kept < row {
                self.rows[kept] = self.rows[row];
                self.made.copy_within(row * self.width..(row + 1) * self.width, kept * self.width);
                self.words.swap(kept, row);
            }
            kept += 1;
        }
        self.rows.truncate(kept);
        self.made.truncate(kept * self.width);
    }
}
