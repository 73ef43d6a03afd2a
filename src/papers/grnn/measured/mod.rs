//! Times of sequences measured on a GPU: GRNN's kernels by mapping, and cuDNN's.
//!
//! One table holds a GPU's times, so that compared values are from the same GPU. A row is one way to compute one
//! size; cuDNN's have no mapping.

mod file;

use std::path::PathBuf;

use clap::ValueEnum;

use crate::core::cost::grnn::{Mapping, RecurrentCell, Rnn};
use crate::lab::results::columns::name_of;
use crate::papers::findings::range;

/// GRNN's result is the fastest of this number of the model's first mappings (sections 7.2 and 8.1).
pub const FIRST: u32 = 5;

pub const OF_GRNN: &str = "GRNN is the fastest of the model's first five mappings.";
pub const OF_ALL: &str = "GRNN is the fastest of the model's first five mappings. cuDNN is called by PyTorch, in float32 where nothing \
    else is said; its kernels are persistent where they are fewer than the steps.";

/// Sequences of one length, with inputs as wide as the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub cell: RecurrentCell,
    pub hidden: u32,
    pub batch: u32,
    pub steps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// A persistent kernel of this project.
    Grnn,
    /// PyTorch's layer, which calls cuDNN, in float32.
    #[value(name = "cudnn-f32")]
    Plain,
    /// Packed inputs, for which PyTorch requests traditional kernels at all sizes.
    #[value(name = "cudnn-f32-packed")]
    Packed,
    /// In a CUDA graph: without launch overhead.
    #[value(name = "cudnn-f32-graph")]
    Graph,
    /// float16.
    #[value(name = "cudnn-f16")]
    Half,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub rank: u32,
    /// Number of valid mappings.
    pub valid: u32,
    /// Of a step, in multiply-adds.
    pub cost: f64,
    /// The device that the ranking was for.
    pub constants: String,
    pub chosen: Chosen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Chosen {
    /// Among its kernel's first.
    First,
    /// At random from all valid ones.
    Drawn,
    /// By the user.
    Given,
}

/// One way for one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub size: Size,
    pub way: Way,
    /// Of GRNN's way.
    pub mapped: Option<Ranked>,
    /// Number of kernels: persistent ones, or all of cuDNN's; `None` if not counted.
    pub launches: Option<u32>,
    /// Of all launches together.
    pub ms: f64,
}

impl Row {
    /// The same way for the same size, or a mapping of it ranked with other constants: such ranks can't be compared.
    fn replaces(&self, old: &Row) -> bool {
        let other_ranking = match (&self.mapped, &old.mapped) {
            (Some(new), Some(past)) => {
                self.launches == old.launches && new.constants != past.constants
            }
            _ => false,
        };
        self.repeats(old) || (self.size, self.way) == (old.size, old.way) && other_ranking
    }

    /// The same way for the same size, and of mappings the same one.
    fn repeats(&self, old: &Row) -> bool {
        let same = match (&self.mapped, &old.mapped) {
            (Some(new), Some(past)) => {
                self.launches == old.launches && (new.rnn, new.mapping) == (past.rnn, past.mapping)
            }
            _ => true,
        };
        (self.size, self.way) == (old.size, old.way) && same
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Series {
    /// The fastest of the model's first mappings.
    #[value(name = "GRNN")]
    Grnn,
    /// At least one kernel for each step.
    #[value(name = "cuDNN traditional")]
    Traditional,
    /// Fewer kernels than steps.
    #[value(name = "cuDNN persistent")]
    Persistent,
    /// An unknown number of kernels.
    #[value(name = "cuDNN")]
    Uncounted,
    /// In a CUDA graph.
    #[value(name = "cuDNN graph")]
    Graph,
    /// In float16.
    #[value(name = "cuDNN float16")]
    Half,
}

impl Series {
    fn of(row: &Row) -> Option<Series> {
        Some(match row.way {
            Way::Grnn => {
                return row
                    .mapped
                    .as_ref()
                    .filter(|one| one.rank <= FIRST)
                    .map(|_| Series::Grnn);
            }
            Way::Graph => Series::Graph,
            Way::Half => Series::Half,
            Way::Plain | Way::Packed => match row.launches {
                None => Series::Uncounted,
                Some(launches) if launches < row.size.steps => Series::Persistent,
                Some(_) => Series::Traditional,
            },
        })
    }
}

/// Multiples of the fastest measured time (GRNN, Figure 14): the model's first mappings and a random sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// Of rank 1.
    pub first: f64,
    /// Of the first [`FIRST`].
    pub best_of_first: f64,
    pub median: f64,
    pub slowest: f64,
    pub run: usize,
    /// The relative difference between the times of the mapping of rank 1, where the file has several of them; 0
    /// otherwise.
    pub spread: f64,
}

impl Regret {
    /// Whether the mapping of rank 1 is the fastest, as far as its own times can tell.
    pub fn first_is_best(&self) -> bool {
        self.first <= 1.0 + self.spread
    }

    pub fn median_over_first(&self) -> f64 {
        self.median / self.first
    }
}

#[derive(Clone, Debug)]
pub struct Measured {
    pub file: PathBuf,
    pub gpu: String,
    pub multiprocessors: u32,
    rows: Vec<Row>,
    /// Earlier times of what rows of the same file repeat.
    earlier: Vec<Row>,
}

impl Measured {
    /// Removes those that it replaces.
    pub fn add(&mut self, row: Row) {
        self.earlier
            .extend(self.rows.iter().filter(|old| row.repeats(old)).cloned());
        self.rows.retain(|old| !row.replaces(old));
        self.rows.push(row);
    }

    pub fn label(&self, series: Series) -> String {
        format!("{}, {}", name_of(&series), self.short())
    }

    /// Without the vendor.
    pub fn short(&self) -> &str {
        self.gpu.strip_prefix("NVIDIA ").unwrap_or(&self.gpu)
    }

    /// `None` without a row.
    pub fn ms(&self, series: Series, size: Size) -> Option<f64> {
        least(
            self.of(size)
                .filter(|row| Series::of(row) == Some(series))
                .map(|row| row.ms),
        )
    }

    /// The source of the times, and more.
    pub fn note(&self, more: &str) -> String {
        format!(
            "Measured on {} ({}): {more} What was not measured is empty.\n",
            self.name(),
            self.file.display()
        )
    }

    /// The fastest mapping of one kernel, in ms.
    pub fn fastest(&self, rnn: Rnn, size: Size) -> Option<f64> {
        least(
            self.mappings(size)
                .filter(|(row, _)| row.rnn == rnn)
                .map(|(_, row)| row.ms),
        )
    }

    pub fn mapping(&self, rnn: Rnn, mapping: Mapping, size: Size) -> Option<(u32, f64)> {
        let found = self
            .mappings(size)
            .find(|(ranked, _)| (ranked.rnn, ranked.mapping) == (rnn, mapping));
        found.map(|(ranked, row)| (ranked.rank, row.ms))
    }

    /// `None` if no mapping was drawn at random.
    pub fn regret(&self, size: Size) -> Option<Regret> {
        let (_, one) = self.mappings(size).find(|(ranked, _)| ranked.rank == 1)?;
        let alike = || {
            self.mappings(size)
                .filter(|(_, row)| row.launches == one.launches)
        };
        let best = least(alike().map(|(_, row)| row.ms))?;
        let first = alike()
            .filter(|(ranked, _)| ranked.rank <= FIRST)
            .map(|(_, row)| row.ms);
        // The user's choices are not a random sample.
        let sample =
            || alike().filter(|(ranked, _)| ranked.rank <= FIRST || ranked.chosen != Chosen::Given);
        if !sample().any(|(ranked, _)| ranked.chosen == Chosen::Drawn) {
            return None;
        }
        let mut times: Vec<f64> = sample().map(|(_, row)| row.ms).collect();
        times.sort_by(f64::total_cmp);
        let again = self
            .earlier
            .iter()
            .filter(|old| one.repeats(old))
            .map(|old| old.ms);
        let (quickest, longest) = range(again.chain([one.ms]));
        Some(Regret {
            first: one.ms / best,
            best_of_first: least(first)? / best,
            median: times[times.len() / 2] / best,
            slowest: times[times.len() - 1] / best,
            run: times.len(),
            spread: longest / quickest - 1.0,
        })
    }

    /// GRNN's, and cuDNN's with a row for this cell.
    pub fn series(&self, cell: RecurrentCell) -> impl Iterator<Item = Series> {
        let of_cell = move |row: &&Row| row.size.cell == cell;
        let has = move |series| {
            self.rows
                .iter()
                .filter(of_cell)
                .any(|row| Series::of(row) == Some(series))
        };
        Series::value_variants()
            .iter()
            .copied()
            .filter(move |series| *series == Series::Grnn || has(*series))
    }

    fn of(&self, size: Size) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.size == size)
    }

    fn mappings(&self, size: Size) -> impl Iterator<Item = (&Ranked, &Row)> {
        self.of(size)
            .filter_map(|row| Some((row.mapped.as_ref()?, row)))
    }
}

fn least(times: impl Iterator<Item = f64>) -> Option<f64> {
    times.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        cell: RecurrentCell::Gru,
        hidden: 256,
        batch: 20,
        steps: 100,
    };

    fn mapped(groups: u32, constants: &str, ms: f64) -> Row {
        let mapping = Mapping {
            tile_width: 32,
            tile_height: 2,
            groups,
            group_size: 8,
        };
        let constants = constants.to_string();
        let chosen = Chosen::First;
        let ranked = Ranked {
            rnn: Rnn::GruSingle,
            mapping,
            rank: groups,
            valid: 150,
            cost: 252.5,
            constants,
            chosen,
        };
        Row {
            size: SIZE,
            way: Way::Grnn,
            mapped: Some(ranked),
            launches: Some(1),
            ms,
        }
    }

    fn called(way: Way, launches: Option<u32>, ms: f64) -> Row {
        Row {
            size: SIZE,
            way,
            mapped: None,
            launches,
            ms,
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.csv");
        let mut written = Measured::open(&path, "A GPU, \"this\"", 4).unwrap();
        for row in [
            mapped(32, "Titan V", 0.5),
            called(Way::Plain, Some(3), 0.25),
            called(Way::Half, None, 0.125),
        ] {
            written.add(row);
        }
        written.write().unwrap();
        let read = Measured::open(&path, "A GPU, \"this\"", 4).unwrap();
        assert_eq!((&read.rows, &read.gpu), (&written.rows, &written.gpu));
        let error = Measured::open(&path, "Another", 4).unwrap_err().to_string();
        assert!(error.ends_with(
            "and this is Another with 4 multiprocessors; a file is of one GPU, so name another"
        ));
    }

    #[test]
    fn a_row_replaces_its_like_and_another_ranking_all_of_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut measured = Measured::open(&folder.path().join("m.csv"), "GPU", 4).unwrap();
        let elsewhere = Row {
            size: Size { batch: 1, ..SIZE },
            ..mapped(32, "Titan V", 9.0)
        };
        let in_parts = Row {
            launches: Some(2),
            ..mapped(32, "Titan V", 8.0)
        };
        let plain = called(Way::Plain, Some(3), 1.0);
        for row in [
            &elsewhere,
            &in_parts,
            &plain,
            &mapped(32, "Titan V", 1.0),
            &mapped(64, "Titan V", 2.0),
        ] {
            measured.add(row.clone());
        }
        measured.add(mapped(32, "Titan V", 3.0));
        let kept = [elsewhere, in_parts, plain];
        assert_eq!(
            measured.rows,
            [
                &kept[..],
                &[mapped(64, "Titan V", 2.0), mapped(32, "Titan V", 3.0)]
            ]
            .concat()
        );
        measured.add(mapped(16, "fitted", 4.0));
        assert_eq!(
            measured.rows,
            [&kept[..], &[mapped(16, "fitted", 4.0)]].concat()
        );
    }

    #[test]
    fn a_first_mapping_within_its_own_spread_of_the_fastest_is_the_best() {
        let folder = tempfile::tempdir().unwrap();
        let best = |times: &[f64]| {
            let mut measured = Measured::open(&folder.path().join("m.csv"), "GPU", 4).unwrap();
            let mut ranked = |groups, chosen, ms| {
                let mut row = mapped(groups, "Titan V", ms);
                row.mapped.as_mut().unwrap().chosen = chosen;
                measured.add(row);
            };
            ranked(9, Chosen::Drawn, 1.0);
            times.iter().for_each(|ms| ranked(1, Chosen::First, *ms));
            measured.regret(SIZE).unwrap().first_is_best()
        };
        assert_eq!(
            [
                best(&[1.0]),
                best(&[1.02]),
                best(&[1.05, 1.02]),
                best(&[1.03, 1.02])
            ],
            [true, false, true, false]
        );
    }

    #[test]
    fn cudnns_kernels_are_persistent_where_they_are_fewer_than_the_steps() {
        let series = |way, launches| Series::of(&called(way, launches, 1.0)).unwrap();
        assert_eq!(series(Way::Plain, Some(99)), Series::Persistent);
        assert_eq!(series(Way::Packed, Some(100)), Series::Traditional);
        assert_eq!(series(Way::Plain, None), Series::Uncounted);
        assert_eq!(
            [series(Way::Graph, Some(3)), series(Way::Half, Some(3))],
            [Series::Graph, Series::Half]
        );
        assert_eq!(
            Series::of(&mapped(6, "Titan V", 1.0)),
            None,
            "a mapping of rank 6"
        );
    }
}
