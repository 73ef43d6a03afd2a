//! Batches of chains whose rows stay in place: which chain is in which row, for a cell type on a stream.
//!
//! A launch moves every row on to its next node, so nothing is noted of rows that stay: how far a chain has got follows
//! from its row and from the number of launches. A chain that ends frees its row, and one that joins takes it. So a
//! task costs the host the chains that join and leave, and the device gathers only the rows that change.

use super::device::MOST_CHANGES;
use super::slots::LaunchStamp;
use super::streams::{GatheredNode, StreamKey};
use crate::base::units::{CellId, NodeId, RequestId};

/// The rows of a cell type on a stream.
#[derive(Debug)]
pub struct ChainRows {
    pub stream: StreamKey,
    pub cell: CellId,
    /// The last launch.
    pub stamp: LaunchStamp,
    /// The rows that the device has in its table; empty before the first gather.
    rows: Vec<ChainRow>,
    /// The launch with which each row ends, counted from the gather; [`NEVER`] for rows without a chain.
    ends: Vec<u32>,
    /// The rows that are padding.
    free: Vec<u32>,
    /// The rows whose chains have left early, so that the device would go on with them.
    abandoned: Vec<u32>,
    /// The rows that change before the next launch.
    pub changed: Vec<u32>,
    chains: u32,
    /// The number of launches since the gather.
    launches: u32,
    /// The number of lists to which the rows were compared.
    lists: u32,
}

/// A chain in a row.
#[derive(Clone, Copy, Debug)]
struct ChainRow {
    request: RequestId,
    /// The node that would have run in the first launch after the gather. It wraps around, because the chain may have
    /// joined later.
    begin: u32,
    last: u32,
    /// Whether the request ends with the last node.
    ends: bool,
    /// The last list that has the chain.
    listed: u32,
}

/// The end of a row without a chain.
const NEVER: u32 = u32::MAX;

/// The launches after which all rows are gathered again, long before their count wraps around.
const MOST_LAUNCHES: u32 = 1 << 31;

impl ChainRows {
    pub fn new(stream: StreamKey, cell: CellId) -> ChainRows {
        ChainRows {
            stream,
            cell,
            stamp: LaunchStamp::default(),
            rows: Vec::new(),
            ends: Vec::new(),
            free: Vec::new(),
            abandoned: Vec::new(),
            changed: Vec::new(),
            chains: 0,
            launches: 0,
            lists: 0,
        }
    }

    /// The number of chains.
    pub fn chains(&self) -> u32 {
        self.chains
    }

    /// The requests of all chains.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> {
        let rows = self.rows.iter().zip(&self.ends);
        rows.filter(|(_, end)| **end != NEVER)
            .map(|(row, _)| row.request)
    }

    /// The chain of a row with the node that is next, or `None` for padding.
    pub fn chain(&self, at: u32) -> Option<GatheredNode> {
        if self.ends[at as usize] == NEVER {
            return None;
        }
        let ChainRow {
            request,
            last,
            ends,
            ..
        } = self.rows[at as usize];
        Some(GatheredNode {
            request,
            node: self.next(at),
            last,
            ends,
        })
    }

    /// The node that a row runs next.
    pub fn next(&self, at: u32) -> u32 {
        self.rows[at as usize].begin.wrapping_add(self.launches)
    }

    /// Begins to compare the rows to a list of nodes.
    pub fn begin_list(&mut self) {
        self.lists += 1;
    }

    /// Notes that the list has a node of a row's request: [`Listed::Next`] if the row runs it next.
    pub fn note_listed(&mut self, at: u32, node: NodeId) -> Listed {
        if self.next(at) != node.0 {
            return Listed::Other;
        }
        let row = &mut self.rows[at as usize];
        match std::mem::replace(&mut row.listed, self.lists) {
            listed if listed == self.lists => Listed::Twice,
            _ => Listed::Next,
        }
    }

    /// Calls the function with the request of each chain that the list does not have.
    pub fn visit_unlisted(&self, mut visit: impl FnMut(RequestId)) {
        for (row, end) in self.rows.iter().zip(&self.ends) {
            if *end != NEVER && row.listed != self.lists {
                visit(row.request);
            }
        }
    }

    /// Notes that the chain of a row has left before its end.
    pub fn leave(&mut self, at: u32) {
        self.ends[at as usize] = NEVER;
        self.abandoned.push(at);
        self.chains -= 1;
    }

    /// Forgets all rows, because the device's table is no longer theirs.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.ends.clear();
        self.free.clear();
        self.abandoned.clear();
        self.changed.clear();
        self.chains = 0;
        self.launches = 0;
    }

    /// Gives rows to the chains that join, among the first `size` rows, which have room for all. `place` learns of each
    /// chain that gets a row. Returns whether the device only has to change the rows in [`ChainRows::changed`];
    /// otherwise it gathers all.
    pub fn arrange(
        &mut self,
        size: u32,
        joining: &[GatheredNode],
        mut place: impl FnMut(RequestId, u32),
    ) -> bool {
        let is_new = self.rows.is_empty();
        self.changed.clear();
        self.free.retain(|at| *at < size);
        self.abandoned.retain(|at| *at < size);
        for node in joining {
            let begin = node.node.wrapping_sub(self.launches);
            let row = ChainRow {
                request: node.request,
                begin,
                last: node.last,
                ends: node.ends,
                listed: self.lists,
            };
            let at = self.put(row, size);
            place(node.request, at);
        }
        self.chains += joining.len() as u32;
        for at in size as usize..self.rows.len() {
            if self.ends[at] != NEVER {
                let row = self.rows[at];
                let to = self.put(row, size);
                place(row.request, to);
            }
        }
        self.rows.truncate(size as usize);
        self.ends.truncate(size as usize);
        self.changed.extend_from_slice(&self.abandoned);
        self.free.append(&mut self.abandoned);
        while self.rows.len() < size as usize {
            let at = self.rows.len() as u32;
            self.rows.push(ChainRow::VACANT);
            self.ends.push(NEVER);
            self.changed.push(at);
            self.free.push(at);
        }
        let stays = !is_new && self.changed.len() <= MOST_CHANGES && self.launches < MOST_LAUNCHES;
        if !stays {
            self.close_ranks(place);
        }
        stays
    }

    /// Puts a chain into a row without one, or behind all rows.
    fn put(&mut self, row: ChainRow, size: u32) -> u32 {
        let vacant = self.abandoned.pop().or_else(|| self.free.pop());
        let end = row.last.wrapping_sub(row.begin);
        let at = match vacant {
            Some(at) => {
                self.rows[at as usize] = row;
                self.ends[at as usize] = end;
                at
            }
            None => {
                let at = self.rows.len() as u32;
                assert!(at < size, "a batch has room for its chains");
                self.rows.push(row);
                self.ends.push(end);
                at
            }
        };
        self.changed.push(at);
        at
    }

    /// Moves all chains to the first rows for a gather, from which launches count anew.
    fn close_ranks(&mut self, mut place: impl FnMut(RequestId, u32)) {
        let mut to = 0;
        for at in 0..self.rows.len() {
            if self.ends[at] == NEVER {
                continue;
            }
            let row = ChainRow {
                begin: self.next(at as u32),
                ..self.rows[at]
            };
            if to != at {
                place(row.request, to as u32);
            }
            self.rows[to] = row;
            self.ends[to] = row.last - row.begin;
            to += 1;
        }
        self.ends[to..].fill(NEVER);
        self.free.clear();
        self.free.extend((to as u32..self.rows.len() as u32).rev());
        self.launches = 0;
    }

    /// Counts a launch. The chains that end with it are appended to `ended`, each with its last node.
    pub fn advance(&mut self, ended: &mut Vec<GatheredNode>) {
        for (at, end) in self.ends.iter_mut().enumerate() {
            if *end == self.launches {
                *end = NEVER;
                let row = &self.rows[at];
                ended.push(GatheredNode {
                    request: row.request,
                    node: row.last,
                    last: row.last,
                    ends: row.ends,
                });
                self.free.push(at as u32);
                self.chains -= 1;
            }
        }
        self.launches += 1;
    }
}

impl ChainRow {
    const VACANT: ChainRow = ChainRow {
        request: RequestId(0),
        begin: 0,
        last: 0,
        ends: false,
        listed: 0,
    };
}

/// What a list says of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The node that the row runs next.
    Next,
    /// The same once more.
    Twice,
    /// Another node of the row's request.
    Other,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::RngExt as _;

    use super::*;
    use crate::core::workload::random;

    /// A table of rows as a device has it: the node that runs next in each row, and the last one.
    type Table = Vec<(RequestId, u32, u32)>;

    const PADDING: (RequestId, u32, u32) = (RequestId(0), 1, 0);

    #[test]
    fn a_device_that_follows_the_changes_runs_each_node_once() {
        for case in 0..300 {
            let mut rng = random::sequence(case, 0, "rows");
            let mut rows = ChainRows::new(StreamKey::default(), CellId(0));
            let mut table: Table = Vec::new();
            // The next node and the number of nodes of each request that has not ended.
            let mut left: BTreeMap<RequestId, (u32, u32)> = BTreeMap::new();
            let mut places: BTreeMap<RequestId, u32> = BTreeMap::new();
            let mut requests = 0;
            let most = rng.random_range(1..100);
            for _ in 0..rng.random_range(1..60) {
                if rng.random_bool(0.05) {
                    // Some leave early, and join again.
                    let gone: Vec<RequestId> = places
                        .keys()
                        .copied()
                        .filter(|_| rng.random_bool(0.3))
                        .collect();
                    for request in gone {
                        let at = places.remove(&request).expect("it has a row");
                        rows.leave(at);
                    }
                }
                let absent = left
                    .iter()
                    .filter(|(request, _)| !places.contains_key(*request));
                let mut joining: Vec<GatheredNode> = absent
                    .map(|(request, (next, nodes))| node(*request, *next, *nodes))
                    .collect();
                joining.truncate((most - rows.chains()) as usize);
                for _ in 0..rng.random_range(0..=most - rows.chains() - joining.len() as u32) {
                    let nodes = rng.random_range(1..20);
                    joining.push(node(RequestId(requests), 0, nodes));
                    left.insert(RequestId(requests), (0, nodes));
                    requests += 1;
                }
                let chains = rows.chains() + joining.len() as u32;
                if chains == 0 {
                    continue;
                }
                let size = rng.random_range(chains..=chains + 8);
                let stays = rows.arrange(size, &joining, |request, at| {
                    places.insert(request, at);
                });
                let row = |at| match rows.chain(at) {
                    Some(chain) => (chain.request, chain.node, chain.last),
                    None => PADDING,
                };
                table.truncate(size as usize);
                if stays {
                    assert!(rows.changed.len() <= MOST_CHANGES);
                    for at in &rows.changed {
                        if *at as usize >= table.len() {
                            table.resize(*at as usize + 1, (RequestId(u64::MAX), 0, 0));
                        }
                        table[*at as usize] = row(*at);
                    }
                } else {
                    table = (0..size).map(row).collect();
                    let padding = table.iter().filter(|row| **row == PADDING).count();
                    assert!(
                        table[table.len() - padding..]
                            .iter()
                            .all(|row| *row == PADDING)
                    );
                }
                assert_eq!(table.len(), size as usize, "case {case}: each row is known");
                let mut ran = 0;
                for (request, next, last) in &mut table {
                    if next <= last {
                        ran += 1;
                        let (expected, _) = left.get_mut(request).expect("it has not ended");
                        assert_eq!(next, expected, "case {case}: {request}");
                        *expected += 1;
                    }
                    *next += 1;
                }
                assert_eq!(ran, chains, "case {case}: all chains run");
                let mut ended = Vec::new();
                rows.advance(&mut ended);
                for chain in ended {
                    let (next, nodes) = left.remove(&chain.request).expect("it runs");
                    assert_eq!((next, chain.node + 1), (nodes, nodes));
                    places.remove(&chain.request);
                }
                assert!(left.iter().all(|(request, (next, nodes))| {
                    next < nodes || !places.contains_key(request)
                }));
            }
        }
    }

    fn node(request: RequestId, node: u32, nodes: u32) -> GatheredNode {
        GatheredNode {
            request,
            node,
            last: nodes - 1,
            ends: true,
        }
    }

    #[test]
    fn a_list_is_compared_to_the_rows() {
        let mut rows = ChainRows::new(StreamKey::default(), CellId(0));
        let joining = [node(RequestId(7), 0, 3), node(RequestId(8), 0, 3)];
        rows.arrange(2, &joining, |_, _| ());
        rows.advance(&mut Vec::new());
        rows.begin_list();
        assert_eq!(rows.note_listed(0, NodeId(0)), Listed::Other);
        assert_eq!(rows.note_listed(0, NodeId(1)), Listed::Next);
        assert_eq!(rows.note_listed(0, NodeId(1)), Listed::Twice);
        let mut unlisted = Vec::new();
        rows.visit_unlisted(|request| unlisted.push(request));
        assert_eq!(unlisted, [RequestId(8)]);
    }
}
