//! The batch table (DVABatch, section 5.2): ongoing batches, and the stages that their queries have completed.

use super::{BufferPair, Stage};
use crate::base::grow::grow;
use crate::core::policy::prelude::*;

/// The number of a batch in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// Consecutive queries of a batch in the queue of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageItem {
    pub row: BatchId,
    /// The place of the first query in the row.
    pub start: u32,
    /// The number of queries.
    pub num: u32,
    /// The pair that holds the input, which is chosen when the first stage begins.
    pub pair: Option<BufferPair>,
}

impl StageItem {
    pub fn end(&self) -> u32 {
        self.start + self.num
    }
}

/// A request in a line or in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    pub request: RequestId,
    pub nodes: u32,
    pub input: u32,
    /// Whether the query has left its batch.
    pub left: bool,
    /// The stage before which it skips all stages.
    pub resumes: Stage,
}

/// A batch in the table.
#[derive(Debug, Default)]
pub struct BatchRow {
    /// The queries in the order of joining. Queries that have left keep their places.
    pub queries: Vec<Query>,
    pub created: Nanos,
    pub line: u32,
    pub input: u32,
    /// Whether the batch was or may be split. Such a batch is never stretched, and its stages run one after another.
    pub splits: bool,
    /// The number of queries that have completed each stage (status map).
    completed: Vec<u32>,
    /// The number of queries that were handed to each stage.
    handed: Vec<u32>,
    /// The number of queries that have not left.
    pub live: u32,
    /// The largest number of nodes of a query that has not left.
    pub longest: u32,
}

impl BatchRow {
    /// The number of queries, including those that have left.
    pub fn total(&self) -> u32 {
        self.queries.len() as u32
    }

    /// The number of queries that have completed a stage.
    pub fn completed_count(&self, stage: Stage) -> u32 {
        self.completed.get(stage.index()).copied().unwrap_or(0)
    }

    /// The number of queries that were handed to a stage.
    pub fn handed_count(&self, stage: Stage) -> u32 {
        self.handed.get(stage.index()).copied().unwrap_or(0)
    }

    /// The last stage to which queries were handed.
    pub fn furthest(&self) -> Stage {
        Stage(self.handed.len().saturating_sub(1) as u32)
    }

    /// The queries of an item that have not left.
    pub fn live_queries(&self, item: &StageItem) -> impl Iterator<Item = &Query> + Clone {
        self.queries[item.start as usize..item.end() as usize]
            .iter()
            .filter(|query| !query.left)
    }

    /// The queries of an item that run in a stage: they have not left and do not skip it.
    pub fn stage_queries(
        &self,
        item: &StageItem,
        stage: Stage,
    ) -> impl Iterator<Item = &Query> + Clone {
        self.live_queries(item)
            .filter(move |query| query.resumes <= stage)
    }

    /// Computes [`BatchRow::longest`].
    fn find_longest(&mut self) {
        let live = self.queries.iter().filter(|query| !query.left);
        self.longest = live.map(|query| query.nodes).max().unwrap_or(0);
    }
}

/// Sets the count of a stage.
fn set(counts: &mut Vec<u32>, stage: Stage, to: u32) {
    *grow(counts, stage.index()) = to;
}

/// The batches that are not over.
#[derive(Debug, Default)]
pub struct BatchTable {
    /// The batches in the order of their numbers.
    rows: Vec<(BatchId, BatchRow)>,
    /// The number of batches that have been made.
    made: u64,
    /// Rows of batches that are over, kept for their memory.
    spare: Vec<BatchRow>,
}

impl BatchTable {
    pub fn row(&self, id: BatchId) -> &BatchRow {
        let place = self.place(id).expect("the batch is not over");
        &self.rows[place].1
    }

    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (BatchId, &BatchRow)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    /// The batch that was made last, if it is not over.
    pub fn newest(&self) -> Option<(BatchId, &BatchRow)> {
        let (id, row) = self.rows.last()?;
        if id.0 + 1 < self.made {
            return None;
        }
        Some((*id, row))
    }

    /// The number of queries in all batches.
    pub fn active(&self) -> u32 {
        self.rows.iter().map(|(_, row)| row.live).sum()
    }

    /// Makes a **new** batch, which queries then [join](BatchTable::join).
    pub fn new_row(&mut self, created: Nanos, line: u32) -> BatchId {
        let id = BatchId(self.made);
        self.made += 1;
        let BatchRow {
            mut queries,
            mut completed,
            mut handed,
            ..
        } = self.spare.pop().unwrap_or_default();
        queries.clear();
        completed.clear();
        handed.clear();
        let row = BatchRow {
            queries,
            created,
            line,
            completed,
            handed,
            ..BatchRow::default()
        };
        self.rows.push((id, row));
        id
    }

    /// Lets the queries that `add` appends join a batch, which this may **stretch**. They catch up from the first stage
    /// on.
    ///
    /// # Panics
    /// If the batch may be split.
    pub fn join(
        &mut self,
        id: BatchId,
        input: u32,
        add: impl FnOnce(&mut Vec<Query>),
    ) -> StageItem {
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
        let joined = row.queries[start as usize..].iter();
        row.longest = joined.map(|query| query.nodes).fold(row.longest, u32::max);
        set(&mut row.handed, Stage(0), start + num);
        StageItem {
            row: id,
            start,
            num,
            pair: None,
        }
    }

    /// Splits a batch (**split**) into batches of these sizes, the first of which keeps the row.
    ///
    /// # Panics
    /// If the batch is not at one stage as a whole, or the sizes do not add up to it.
    pub fn split(&mut self, id: BatchId, after: Stage, sizes: &[u32]) -> Vec<StageItem> {
        let row = self.row_mut(id);
        let passed = row.completed_count(after) as usize;
        assert!(
            row.queries[passed..].iter().all(|query| query.left),
            "batch {} is split while queries are at earlier stages",
            id.0
        );
        assert_eq!(
            row.handed_count(after.next()),
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
        let created = row.created;
        let line = row.line;
        let input = row.input;
        let queries = std::mem::take(&mut row.queries);
        let mut queries = queries.into_iter().filter(|query| !query.left);
        let mut items = Vec::new();
        for (part, &size) in sizes.iter().enumerate() {
            let id = if part == 0 {
                id
            } else {
                self.new_row(created, line)
            };
            let row = self.row_mut(id);
            row.input = input;
            row.splits = true;
            row.live = size;
            row.queries.extend(queries.by_ref().take(size as usize));
            row.find_longest();
            for stage in (0..=after.0).map(Stage) {
                set(&mut row.handed, stage, size);
                set(&mut row.completed, stage, size);
            }
            items.push(StageItem {
                row: id,
                start: 0,
                num: size,
                pair: None,
            });
        }
        items
    }

    /// Counts the queries of an item as having completed a stage.
    pub fn complete(&mut self, item: &StageItem, stage: Stage) {
        let row = self.row_mut(item.row);
        assert_eq!(
            row.completed_count(stage),
            item.start,
            "stage {stage} has left out queries of batch {}",
            item.row.0
        );
        set(&mut row.completed, stage, item.end());
    }

    /// The queries that go on after a stage. None does while others of the batch are at earlier stages (catch-up,
    /// section 5.2.2).
    pub fn caught_up(&self, id: BatchId, stage: Stage) -> Option<StageItem> {
        let row = self.row(id);
        let start = row.handed_count(stage.next());
        let end = row.completed_count(stage);
        if any_live(&row.queries[end as usize..])
            || !any_live(&row.queries[start as usize..end as usize])
        {
            return None;
        }
        Some(StageItem {
            row: id,
            start,
            num: end - start,
            pair: None,
        })
    }

    /// Hands the queries of an item to a stage.
    pub fn hand(&mut self, item: &StageItem, stage: Stage) {
        let row = self.row_mut(item.row);
        assert_eq!(
            row.handed_count(stage),
            item.start,
            "stage {stage} is handed queries of batch {} out of order",
            item.row.0
        );
        set(&mut row.handed, stage, item.end());
    }

    /// Notes that a batch may be split.
    pub fn will_split(&mut self, id: BatchId) {
        self.row_mut(id).splits = true;
    }

    /// Lets the query at a place of a batch skip the stages before `until`, and returns the query.
    pub fn skip(&mut self, id: BatchId, place: u32, until: Stage) -> Query {
        let row = self.row_mut(id);
        let query = &mut row.queries[place as usize];
        query.resumes = until;
        *query
    }

    /// Finishes the requests of an item for which `leaves` holds.
    pub fn leave(
        &mut self,
        item: &StageItem,
        leaves: impl Fn(&Query) -> bool,
        outcomes: &mut Outcomes,
    ) {
        let row = self.row_mut(item.row);
        let before = row.live;
        for query in &mut row.queries[item.start as usize..item.end() as usize] {
            if !query.left && leaves(query) {
                query.left = true;
                row.live -= 1;
                outcomes.finish(query.request);
            }
        }
        if row.live > 0 {
            if row.live < before {
                row.find_longest();
            }
        } else if let Some(place) = self.place(item.row) {
            self.spare.push(self.rows.remove(place).1);
        }
    }

    /// Whether a batch is not over.
    pub fn has(&self, id: BatchId) -> bool {
        self.place(id).is_some()
    }

    fn row_mut(&mut self, id: BatchId) -> &mut BatchRow {
        let place = self.place(id).expect("the batch is not over");
        &mut self.rows[place].1
    }

    /// The place of a batch, or `None` if it is over.
    fn place(&self, id: BatchId) -> Option<usize> {
        self.rows.binary_search_by_key(&id, |(id, _)| *id).ok()
    }
}

fn any_live(queries: &[Query]) -> bool {
    queries.iter().any(|query| !query.left)
}
