//! The batch table (DVABatch, section 5.2): ongoing batches, and the stages that their queries have completed.

use std::collections::BTreeMap;

use super::Stage;
use super::conditions::Skip;
use super::stage::Item;
use crate::core::policy::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub request: RequestId,
    pub nodes: u32,
    pub input: u32,
    pub left: bool,
    /// Skips the stages before this one.
    pub resumes: Stage,
}

#[derive(Debug, Default)]
pub struct Row {
    /// In the order of joining; those that have left keep their places.
    pub queries: Vec<Query>,
    pub created: Nanos,
    pub line: u32,
    pub input: u32,
    /// Was or may be split: never stretched, and its stages run one after another.
    pub splits: bool,
    /// By stage, the queries that completed it (status map).
    completed: Vec<u32>,
    /// By stage, the queries passed to it.
    handed: Vec<u32>,
    pub live: u32,
}

impl Row {
    pub fn total(&self) -> u32 {
        self.queries.len() as u32
    }

    pub fn completed(&self, stage: Stage) -> u32 {
        self.completed.get(stage.index()).copied().unwrap_or(0)
    }

    pub fn handed(&self, stage: Stage) -> u32 {
        self.handed.get(stage.index()).copied().unwrap_or(0)
    }

    pub fn furthest(&self) -> Stage {
        Stage(self.handed.len().saturating_sub(1) as u32)
    }

    /// Without those that have left.
    pub fn of(&self, item: &Item) -> impl Iterator<Item = &Query> + Clone {
        self.queries[item.start as usize..item.end() as usize]
            .iter()
            .filter(|query| !query.left)
    }

    /// Also without those that skip the stage.
    pub fn in_stage(&self, item: &Item, stage: Stage) -> impl Iterator<Item = &Query> + Clone {
        self.of(item).filter(move |query| query.resumes <= stage)
    }

    pub fn longest(&self) -> u32 {
        self.queries
            .iter()
            .filter(|query| !query.left)
            .map(|query| query.nodes)
            .max()
            .unwrap_or(0)
    }
}

fn set(counts: &mut Vec<u32>, stage: Stage, to: u32) {
    if counts.len() <= stage.index() {
        counts.resize(stage.index() + 1, 0);
    }
    counts[stage.index()] = to;
}

#[derive(Debug, Default)]
pub struct BatchTable {
    rows: BTreeMap<RowId, Row>,
    made: u64,
    spare: Vec<Row>,
}

impl BatchTable {
    pub fn row(&self, id: RowId) -> &Row {
        &self.rows[&id]
    }

    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (RowId, &Row)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    pub fn newest(&self) -> Option<(RowId, &Row)> {
        self.rows
            .last_key_value()
            .map(|(id, row)| (*id, row))
            .filter(|(id, _)| id.0 + 1 == self.made)
    }

    /// The queries of all batches.
    pub fn active(&self) -> u32 {
        self.rows.values().map(|row| row.live).sum()
    }

    /// **new**: a batch that queries [join](BatchTable::join).
    pub fn new_row(&mut self, created: Nanos, line: u32) -> RowId {
        let id = RowId(self.made);
        self.made += 1;
        let Row {
            mut queries,
            mut completed,
            mut handed,
            ..
        } = self.spare.pop().unwrap_or_default();
        queries.clear();
        completed.clear();
        handed.clear();
        self.rows.insert(
            id,
            Row {
                queries,
                created,
                line,
                completed,
                handed,
                ..Row::default()
            },
        );
        id
    }

    /// Also **stretch**: those that `add` appends join, and catch up from the first stage on.
    ///
    /// # Panics
    /// If the batch may be split.
    pub fn join(&mut self, id: RowId, input: u32, add: impl FnOnce(&mut Vec<Query>)) -> Item {
        let row = self.row_mut(id);
        assert!(
            !row.splits,
            "batch {} may be split and can't be stretched",
            id.0
        );
        let start = row.total();
        add(&mut row.queries);
        let num = row.total() - start;
        row.live += num;
        row.input = row.input.max(input);
        set(&mut row.handed, Stage(0), start + num);
        Item {
            row: id,
            start,
            num,
            pair: None,
        }
    }

    /// **split** into batches of these sizes, the first of which keeps the row.
    ///
    /// # Panics
    /// If the batch is not at one stage as a whole, or the sizes do not add up to it.
    pub fn split(&mut self, id: RowId, after: Stage, sizes: &[u32]) -> Vec<Item> {
        let row = self.row_mut(id);
        let passed = row.completed(after) as usize;
        assert!(
            row.queries[passed..].iter().all(|query| query.left),
            "batch {} is split while queries are at earlier stages",
            id.0
        );
        assert_eq!(
            row.handed(after.next()),
            0,
            "batch {} is split while queries are at later stages",
            id.0
        );
        assert_eq!(
            sizes.iter().sum::<u32>(),
            row.live,
            "the parts of batch {} do not add up to it",
            id.0
        );
        let (created, line, input) = (row.created, row.line, row.input);
        let mut queries = std::mem::take(&mut row.queries)
            .into_iter()
            .filter(|query| !query.left);
        let part = |(part, &size): (usize, &u32)| {
            let id = if part == 0 {
                id
            } else {
                self.new_row(created, line)
            };
            let row = self.row_mut(id);
            (row.input, row.splits, row.live) = (input, true, size);
            row.queries.extend(queries.by_ref().take(size as usize));
            for stage in (0..=after.0).map(Stage) {
                set(&mut row.handed, stage, size);
                set(&mut row.completed, stage, size);
            }
            Item {
                row: id,
                start: 0,
                num: size,
                pair: None,
            }
        };
        sizes.iter().enumerate().map(part).collect()
    }

    pub fn complete(&mut self, item: &Item, stage: Stage) {
        let row = self.row_mut(item.row);
        assert_eq!(
            row.completed(stage),
            item.start,
            "stage {stage} has left out queries of batch {}",
            item.row.0
        );
        set(&mut row.completed, stage, item.end());
    }

    /// The queries that go on: a batch waits for those at earlier stages (catch-up, section 5.2.2).
    pub fn caught_up(&self, id: RowId, stage: Stage) -> Option<Item> {
        let row = self.row(id);
        let (start, end) = (row.handed(stage.next()), row.completed(stage));
        let lives = |queries: &[Query]| queries.iter().any(|query| !query.left);
        let goes_on = !lives(&row.queries[end as usize..])
            && lives(&row.queries[start as usize..end as usize]);
        goes_on.then_some(Item {
            row: id,
            start,
            num: end - start,
            pair: None,
        })
    }

    pub fn hand(&mut self, item: &Item, stage: Stage) {
        let (row, start) = (self.row_mut(item.row), item.start);
        assert_eq!(
            row.handed(stage),
            start,
            "stage {stage} is handed queries of batch {} out of order",
            item.row.0
        );
        set(&mut row.handed, stage, item.end());
    }

    pub fn will_split(&mut self, id: RowId) {
        self.row_mut(id).splits = true;
    }

    pub fn skip(&mut self, id: RowId, skip: &Skip) -> Query {
        let row = self.row_mut(id);
        let query = &mut row.queries[skip.place as usize];
        query.resumes = skip.until;
        *query
    }

    /// Finishes the requests that leave.
    pub fn leave(&mut self, item: &Item, leaves: impl Fn(&Query) -> bool, outcomes: &mut Outcomes) {
        let row = self.row_mut(item.row);
        for query in &mut row.queries[item.start as usize..item.end() as usize] {
            if !query.left && leaves(query) {
                query.left = true;
                row.live -= 1;
                outcomes.finish(query.request);
            }
        }
        if row.live == 0 {
            self.spare.extend(self.rows.remove(&item.row));
        }
    }

    pub fn has(&self, id: RowId) -> bool {
        self.rows.contains_key(&id)
    }

    fn row_mut(&mut self, id: RowId) -> &mut Row {
        self.rows.get_mut(&id).expect("the batch is not over")
    }
}
