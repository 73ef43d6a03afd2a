//! The rows of a batch: the states that a cell reads and writes. The states of members that stay are not copied: two
//! buffers are swapped. A state never changes once it is written, so copies elsewhere do not matter.

use std::mem::swap;
use std::ops::Range;

use super::table::StateTable;
use crate::base::units::{CellId, NodeId};
use crate::core::task::NodeRef;
use crate::devices::network::{BatchInputs, Network, Scratch};

/// The rows of one cell type.
#[derive(Debug, Default)]
pub struct CpuRows {
    cell: CellId,
    /// The width of a state, in numbers.
    width: usize,
    rows: Vec<CpuRow>,
    /// The rows before the last gather, kept for their memory.
    before: Vec<CpuRow>,
    /// The states that the rows read.
    taken: Vec<f32>,
    /// The range of each row's states in `taken`, counted in states.
    taken_at: Vec<Range<u32>>,
    /// The words that the rows read.
    tokens: Vec<u32>,
    /// The end of each row's words in `tokens`.
    token_ends: Vec<u32>,
    /// The new state of each row.
    made: Vec<f32>,
    /// The words that each row has written since its state was last put into the table. There may be more lists than
    /// rows.
    words: Vec<Vec<u32>>,
    /// Memory for `words`, empty between two gathers.
    words_before: Vec<Vec<u32>>,
    finder: Finder,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug)]
pub struct CpuRow {
    /// The node that has run; `None` for padding.
    member: Option<NodeRef>,
    /// The last node before another cell, a branch or the end.
    run_end: NodeId,
    /// The tokens that the node reads, for cells whose input has a size; otherwise 0.
    input: u32,
    /// Whether the table has the row's state.
    stored: bool,
}

impl CpuRow {
    /// A row of padding, which reads the word 0.
    const PADDING: CpuRow = CpuRow {
        member: None,
        run_end: NodeId(0),
        input: 0,
        stored: false,
    };

    /// The node with which the row continues, unless it ends.
    pub fn next(&self) -> Option<NodeRef> {
        let NodeRef { request, node } = self.member?;
        if node < self.run_end {
            Some(NodeRef {
                request,
                node: NodeId(node.0 + 1),
            })
        } else {
            None
        }
    }
}

/// Finds the row that continues with a node, without a search.
#[derive(Debug, Default)]
struct Finder {
    /// The place of each request in the list noted last, or in an older one.
    places: Vec<u32>,
}

impl Finder {
    /// Notes a list of nodes.
    fn note(&mut self, nodes: &[NodeRef]) {
        for (place, node) in (0..).zip(nodes) {
            let request = node.request.index();
            if self.places.len() <= request {
                self.places.resize(request + 1, 0);
            }
            self.places[request] = place;
        }
    }

    /// The place of the row's next node among `nodes`, which were noted last.
    fn find(&self, row: &CpuRow, nodes: &[NodeRef]) -> Option<usize> {
        let next = row.next()?;
        let place = *self.places.get(next.request.index())? as usize;
        if nodes.get(place) == Some(&next) {
            Some(place)
        } else {
            None
        }
    }
}

impl CpuRows {
    pub fn new(cell: CellId, width: usize) -> CpuRows {
        CpuRows {
            cell,
            width,
            ..CpuRows::default()
        }
    }

    /// Removes all rows. Their states are lost.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.made.clear();
        self.words.iter_mut().for_each(Vec::clear);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The nodes with which the rows continue.
    pub fn next_nodes(&self) -> impl Iterator<Item = NodeRef> {
        self.rows.iter().filter_map(CpuRow::next)
    }

    /// Makes a row for each of these nodes, and padding up to `size` rows. The states of rows that continue are not
    /// copied; those of the others are put into the table, and what new rows read is taken from there. If a node can't
    /// run, its request fails and its row is padding. Returns the number of bytes taken.
    pub fn gather(&mut self, nodes: &[NodeRef], size: usize, table: &StateTable) -> u64 {
        self.put_leavers(nodes, table);
        self.move_stayers(nodes, size.max(nodes.len()));
        let stayed = self.taken.len();
        for (row, &node) in nodes.iter().enumerate() {
            if self.rows[row].member.is_some() {
                continue;
            }
            match table.place(node, self.cell) {
                Ok(place) => {
                    let begin = self.taken.len() / self.width;
                    table.take(node, &mut self.taken);
                    self.taken_at[row] = begin as u32..(self.taken.len() / self.width) as u32;
                    let run_end = place.run_end;
                    let input = place.input;
                    self.rows[row] = CpuRow {
                        member: Some(node),
                        run_end,
                        input,
                        stored: false,
                    };
                }
                Err(reason) => table.fail(node.request, reason),
            }
        }
        4 * (self.taken.len() - stayed) as u64
    }

    /// Puts the states of the rows that do not continue with one of these nodes into the table.
    pub fn put_leavers(&mut self, nodes: &[NodeRef], table: &StateTable) {
        self.finder.note(nodes);
        for row in 0..self.rows.len() {
            if self.finder.find(&self.rows[row], nodes).is_none() {
                self.put(row, table);
            }
        }
    }

    /// Moves the rows that continue to the places of their nodes among `count` rows. The others are padding.
    fn move_stayers(&mut self, nodes: &[NodeRef], count: usize) {
        swap(&mut self.taken, &mut self.made);
        swap(&mut self.rows, &mut self.before);
        self.rows.clear();
        self.rows.resize(count, CpuRow::PADDING);
        self.taken_at.clear();
        self.taken_at.resize(count, 0..0);
        for words in [&mut self.words, &mut self.words_before] {
            let room = words.len().max(count);
            words.resize_with(room, Vec::new);
        }
        let mut any = false;
        for (from, row) in self.before.iter().enumerate() {
            if let Some(place) = self.finder.find(row, nodes) {
                any = true;
                self.rows[place] = CpuRow {
                    member: Some(nodes[place]),
                    stored: false,
                    ..*row
                };
                self.taken_at[place] = from as u32..from as u32 + 1;
                swap(&mut self.words[from], &mut self.words_before[place]);
            }
        }
        swap(&mut self.words, &mut self.words_before);
        if !any {
            self.taken.clear();
        }
    }

    /// Computes the new states of all rows.
    pub fn run(&mut self, network: &Network, padded_to: u32, scratch: &mut Scratch) {
        self.tokens.clear();
        self.token_ends.clear();
        for row in &self.rows {
            match row.member {
                // Words of an input are counted from 0; other cells read their node's word.
                Some(at) if row.input > 0 => self
                    .tokens
                    .extend((0..row.input).map(|i| network.token(at.request, i))),
                Some(at) => self.tokens.push(network.token(at.request, at.node.0)),
                None => self.tokens.push(0),
            }
            self.token_ends.push(self.tokens.len() as u32);
        }
        self.made.resize(self.rows.len() * self.width, 0.0);
        let cell = network.cell(self.cell);
        let batch = BatchInputs {
            rows: self.rows.len(),
            tokens: &self.tokens,
            token_ends: &self.token_ends,
            padded_to,
            states: &self.taken,
            states_at: &self.taken_at,
        };
        cell.run(&batch, &mut self.made, scratch);
        for ((row, state), words) in self
            .rows
            .iter()
            .zip(self.made.chunks_exact(self.width))
            .zip(&mut self.words)
        {
            if row.member.is_some() {
                words.extend(cell.word(state));
            }
        }
    }

    /// Writes the states of the chosen rows to the table; the rows stay.
    pub fn put_chosen(&mut self, table: &StateTable, is_chosen: impl Fn(&CpuRow) -> bool) {
        for row in 0..self.rows.len() {
            if is_chosen(&self.rows[row]) {
                self.put(row, table);
            }
        }
    }

    /// Writes the states of the chosen rows to the table and turns the rows into padding. Calls `left` for each.
    pub fn dismiss(
        &mut self,
        table: &StateTable,
        is_chosen: impl Fn(&CpuRow) -> bool,
        mut left: impl FnMut(NodeRef),
    ) {
        for row in 0..self.rows.len() {
            if is_chosen(&self.rows[row])
                && let Some(member) = self.put(row, table)
            {
                self.rows[row] = CpuRow::PADDING;
                left(member);
            }
        }
    }

    /// Writes a row's state to the table, unless it is there. Returns the row's node.
    fn put(&mut self, row: usize, table: &StateTable) -> Option<NodeRef> {
        let CpuRow { member, stored, .. } = &mut self.rows[row];
        let member = (*member)?;
        if std::mem::replace(stored, true) {
            return Some(member);
        }
        table.put(
            member,
            self.cell,
            &self.made[row * self.width..][..self.width],
            &self.words[row],
        );
        self.words[row].clear();
        Some(member)
    }
}
