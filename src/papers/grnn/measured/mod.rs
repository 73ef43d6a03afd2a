//! Times of sequences measured on a GPU: GRNN's kernels by mapping, and cuDNN's.
//!
//! One table holds a GPU's times, so that compared values are from the same GPU. A row is one way to compute one
//! size; cuDNN's have no mapping.

mod file;

use std::path::PathBuf;

use crate::core::cost::grnn::{Mapping, RecurrentCell, Rnn};
use crate::papers::numbers::range;

/// GRNN's result is the fastest of this number of the model's first mappings (sections 7.2 and 8.1).
pub const FIRST: u32 = 5;

/// Notes on which of GRNN's times are shown, and on how cuDNN was measured.
pub const OF_GRNN: &str = "GRNN is the fastest of the model's first five mappings.";
pub const OF_ALL: &str = "GRNN is the fastest of the model's first five mappings. cuDNN is called by PyTorch, in float32 where nothing \
    else is said; its kernels are persistent where they are fewer than the steps.";

/// Sequences of one length, with inputs as wide as the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSize {
    pub cell: RecurrentCell,
    pub hidden: u32,
    pub batch: u32,
    pub steps: u32,
}

/// How sequences were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A persistent kernel of this project.
    Grnn,
    /// PyTorch's layer, which calls cuDNN, in float32.
    Plain,
    /// The same with packed inputs, for which PyTorch requests traditional kernels at all sizes.
    Packed,
    /// The same in a CUDA graph: without launch overhead.
    Graph,
    /// The same in float16.
    Half,
}

impl Way {
    pub const ALL: [Way; 5] = [Way::Grnn, Way::Plain, Way::Packed, Way::Graph, Way::Half];

    pub fn name(self) -> &'static str {
        match self {
            Way::Grnn => "grnn",
            Way::Plain => "cudnn-f32",
            Way::Packed => "cudnn-f32-packed",
            Way::Graph => "cudnn-f32-graph",
            Way::Half => "cudnn-f16",
        }
    }
}

/// A mapping of a persistent kernel, with its place in the model's ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredMapping {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub rank: u32,
    /// The number of valid mappings.
    pub valid: u32,
    /// The cost of a step, in multiply-adds.
    pub cost: f64,
    /// The device that the ranking was for.
    pub constants: String,
    pub chosen: MappingChoice,
}

/// Why a mapping was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingChoice {
    /// It is among its kernel's first.
    First,
    /// It was drawn at random from all valid ones.
    Drawn,
    /// The user named it.
    Given,
}

impl MappingChoice {
    pub const ALL: [MappingChoice; 3] = [
        MappingChoice::First,
        MappingChoice::Drawn,
        MappingChoice::Given,
    ];

    pub fn name(self) -> &'static str {
        match self {
            MappingChoice::First => "first",
            MappingChoice::Drawn => "drawn",
            MappingChoice::Given => "given",
        }
    }
}

/// The time of one way for one size.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceTime {
    pub size: SequenceSize,
    pub way: Way,
    /// The mapping of GRNN's way.
    pub mapped: Option<MeasuredMapping>,
    /// The number of kernels: persistent ones, or all of cuDNN's; `None` if they were not counted.
    pub launches: Option<u32>,
    /// The time of all launches together.
    pub ms: f64,
}

impl SequenceTime {
    /// Whether this time repeats an old one, or the old one's mapping was ranked with other constants. Ranks with
    /// different constants can't be compared.
    fn replaces(&self, old: &SequenceTime) -> bool {
        let has_other_ranking = match (&self.mapped, &old.mapped) {
            (Some(new), Some(past)) => {
                self.launches == old.launches && new.constants != past.constants
            }
            _ => false,
        };
        self.repeats(old) || self.is_alike(old) && has_other_ranking
    }

    /// Whether both times are of the same way, size and mapping.
    fn repeats(&self, old: &SequenceTime) -> bool {
        let has_same_mapping = match (&self.mapped, &old.mapped) {
            (Some(new), Some(past)) => {
                self.launches == old.launches && new.rnn == past.rnn && new.mapping == past.mapping
            }
            _ => true,
        };
        self.is_alike(old) && has_same_mapping
    }

    fn is_alike(&self, old: &SequenceTime) -> bool {
        self.size == old.size && self.way == old.way
    }

    fn has_first_mapping(&self) -> bool {
        match &self.mapped {
            Some(mapping) => mapping.rank <= FIRST,
            None => false,
        }
    }
}

/// A system whose times are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RnnSystem {
    /// The fastest of the model's first mappings.
    Grnn,
    /// At least one kernel for each step.
    Traditional,
    /// Fewer kernels than steps.
    Persistent,
    /// An unknown number of kernels.
    Uncounted,
    /// Kernels of cuDNN in a CUDA graph.
    Graph,
    /// Kernels of cuDNN in float16.
    Half,
}

impl RnnSystem {
    pub const ALL: [RnnSystem; 6] = [
        RnnSystem::Grnn,
        RnnSystem::Traditional,
        RnnSystem::Persistent,
        RnnSystem::Uncounted,
        RnnSystem::Graph,
        RnnSystem::Half,
    ];

    pub fn name(self) -> &'static str {
        match self {
            RnnSystem::Grnn => "GRNN",
            RnnSystem::Traditional => "cuDNN traditional",
            RnnSystem::Persistent => "cuDNN persistent",
            RnnSystem::Uncounted => "cuDNN",
            RnnSystem::Graph => "cuDNN graph",
            RnnSystem::Half => "cuDNN float16",
        }
    }

    /// The system that a time counts for, or `None` if it is of a mapping beyond the model's first.
    fn find(time: &SequenceTime) -> Option<RnnSystem> {
        let system = match time.way {
            Way::Grnn if time.has_first_mapping() => RnnSystem::Grnn,
            Way::Grnn => return None,
            Way::Graph => RnnSystem::Graph,
            Way::Half => RnnSystem::Half,
            Way::Plain | Way::Packed => match time.launches {
                None => RnnSystem::Uncounted,
                Some(launches) if launches < time.size.steps => RnnSystem::Persistent,
                Some(_) => RnnSystem::Traditional,
            },
        };
        Some(system)
    }
}

/// Multiples of the fastest measured time (GRNN, Figure 14): the model's first mappings and a random sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regret {
    /// The time of the mapping of rank 1.
    pub first: f64,
    /// The best time of the first [`FIRST`] mappings.
    pub best_of_first: f64,
    pub median: f64,
    pub slowest: f64,
    /// The number of mappings that were run.
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

/// The times that were measured on one GPU.
#[derive(Clone, Debug)]
pub struct GpuTimes {
    pub file: PathBuf,
    pub gpu: String,
    pub multiprocessors: u32,
    rows: Vec<SequenceTime>,
    /// Times that later rows of the same file repeat.
    earlier: Vec<SequenceTime>,
}

impl GpuTimes {
    /// Adds a time, and removes those that it replaces.
    pub fn add(&mut self, time: SequenceTime) {
        for old in &self.rows {
            if time.repeats(old) {
                self.earlier.push(old.clone());
            }
        }
        self.rows.retain(|old| !time.replaces(old));
        self.rows.push(time);
    }

    pub fn label(&self, system: RnnSystem) -> String {
        format!("{}, {}", system.name(), self.short())
    }

    /// The GPU's name without the vendor.
    pub fn short(&self) -> &str {
        self.gpu.strip_prefix("NVIDIA ").unwrap_or(&self.gpu)
    }

    /// The least time of a system in milliseconds, or `None` if there is none.
    pub fn ms(&self, system: RnnSystem, size: SequenceSize) -> Option<f64> {
        let times = self.times_of(size);
        let own = times.filter(|time| RnnSystem::find(time) == Some(system));
        least(own.map(|time| time.ms))
    }

    /// A note on the source of the times, with more text.
    pub fn note(&self, more: &str) -> String {
        format!(
            "Measured on {} ({}): {more} What was not measured is empty.\n",
            self.name(),
            self.file.display()
        )
    }

    /// The time of the fastest mapping of one kernel, in milliseconds.
    pub fn fastest(&self, rnn: Rnn, size: SequenceSize) -> Option<f64> {
        let mappings = self.mappings(size);
        let own = mappings.filter(|(mapping, _)| mapping.rnn == rnn);
        least(own.map(|(_, time)| time.ms))
    }

    /// The rank and the milliseconds of a mapping.
    pub fn mapping(&self, rnn: Rnn, mapping: Mapping, size: SequenceSize) -> Option<(u32, f64)> {
        for (ranked, time) in self.mappings(size) {
            if ranked.rnn == rnn && ranked.mapping == mapping {
                return Some((ranked.rank, time.ms));
            }
        }
        None
    }

    /// Compares the model's first mappings with all that ran in the same number of launches. `None` if no mapping was
    /// drawn at random.
    pub fn regret(&self, size: SequenceSize) -> Option<Regret> {
        let (_, one) = self.mappings(size).find(|(ranked, _)| ranked.rank == 1)?;
        let mut best = one.ms;
        let mut best_of_first = one.ms;
        let mut sample = Vec::new();
        let mut has_random_sample = false;
        for (ranked, time) in self.mappings(size) {
            if time.launches != one.launches {
                continue;
            }
            let is_first = ranked.rank <= FIRST;
            best = best.min(time.ms);
            if is_first {
                best_of_first = best_of_first.min(time.ms);
            }
            // The user's choices are not a random sample.
            if is_first || ranked.chosen != MappingChoice::Given {
                sample.push(time.ms);
                has_random_sample |= ranked.chosen == MappingChoice::Drawn;
            }
        }
        if !has_random_sample {
            return None;
        }
        sample.sort_by(f64::total_cmp);
        let again = self.earlier.iter().filter(|old| one.repeats(old));
        let (quickest, longest) = range(again.map(|old| old.ms).chain([one.ms]));
        Some(Regret {
            first: one.ms / best,
            best_of_first: best_of_first / best,
            median: sample[sample.len() / 2] / best,
            slowest: sample[sample.len() - 1] / best,
            run: sample.len(),
            spread: longest / quickest - 1.0,
        })
    }

    /// GRNN, and cuDNN's systems that have a time for this cell.
    pub fn systems(&self, cell: RecurrentCell) -> Vec<RnnSystem> {
        let mut systems = Vec::new();
        for system in RnnSystem::ALL {
            let mut own = self.rows.iter().filter(|time| time.size.cell == cell);
            if system == RnnSystem::Grnn || own.any(|time| RnnSystem::find(time) == Some(system)) {
                systems.push(system);
            }
        }
        systems
    }

    fn times_of(&self, size: SequenceSize) -> impl Iterator<Item = &SequenceTime> {
        self.rows.iter().filter(move |time| time.size == size)
    }

    fn mappings(
        &self,
        size: SequenceSize,
    ) -> impl Iterator<Item = (&MeasuredMapping, &SequenceTime)> {
        self.times_of(size)
            .filter_map(|time| Some((time.mapped.as_ref()?, time)))
    }
}

fn least(times: impl Iterator<Item = f64>) -> Option<f64> {
    times.min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: SequenceSize = SequenceSize {
        cell: RecurrentCell::Gru,
        hidden: 256,
        batch: 20,
        steps: 100,
    };

    fn mapped(groups: u32, constants: &str, ms: f64) -> SequenceTime {
        let mapping = Mapping {
            tile_width: 32,
            tile_height: 2,
            groups,
            group_size: 8,
        };
        let constants = constants.to_string();
        let chosen = MappingChoice::First;
        let ranked = MeasuredMapping {
            rnn: Rnn::GruSingle,
            mapping,
            rank: groups,
            valid: 150,
            cost: 252.5,
            constants,
            chosen,
        };
        SequenceTime {
            size: SIZE,
            way: Way::Grnn,
            mapped: Some(ranked),
            launches: Some(1),
            ms,
        }
    }

    fn called(way: Way, launches: Option<u32>, ms: f64) -> SequenceTime {
        SequenceTime {
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
        let mut written = GpuTimes::open(&path, "A GPU, \"this\"", 4).unwrap();
        for row in [
            mapped(32, "Titan V", 0.5),
            called(Way::Plain, Some(3), 0.25),
            called(Way::Half, None, 0.125),
        ] {
            written.add(row);
        }
        written.write().unwrap();
        let read = GpuTimes::open(&path, "A GPU, \"this\"", 4).unwrap();
        assert_eq!((&read.rows, &read.gpu), (&written.rows, &written.gpu));
        let error = GpuTimes::open(&path, "Another", 4).unwrap_err().to_string();
        assert!(error.ends_with(
            "and this is Another with 4 multiprocessors; a file is of one GPU, so name another"
        ));
    }

    #[test]
    fn a_row_replaces_its_like_and_another_ranking_all_of_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut measured = GpuTimes::open(&folder.path().join("m.csv"), "GPU", 4).unwrap();
        let elsewhere = SequenceTime {
            size: SequenceSize { batch: 1, ..SIZE },
            ..mapped(32, "Titan V", 9.0)
        };
        let in_parts = SequenceTime {
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
            let mut measured = GpuTimes::open(&folder.path().join("m.csv"), "GPU", 4).unwrap();
            let mut ranked = |groups, chosen, ms| {
                let mut row = mapped(groups, "Titan V", ms);
                row.mapped.as_mut().unwrap().chosen = chosen;
                measured.add(row);
            };
            ranked(9, MappingChoice::Drawn, 1.0);
            times
                .iter()
                .for_each(|ms| ranked(1, MappingChoice::First, *ms));
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
        let system = |way, launches| RnnSystem::find(&called(way, launches, 1.0)).unwrap();
        assert_eq!(system(Way::Plain, Some(99)), RnnSystem::Persistent);
        assert_eq!(system(Way::Packed, Some(100)), RnnSystem::Traditional);
        assert_eq!(system(Way::Plain, None), RnnSystem::Uncounted);
        assert_eq!(
            [system(Way::Graph, Some(3)), system(Way::Half, Some(3))],
            [RnnSystem::Graph, RnnSystem::Half]
        );
        assert_eq!(
            RnnSystem::find(&mapped(6, "Titan V", 1.0)),
            None,
            "a mapping of rank 6"
        );
    }
}
