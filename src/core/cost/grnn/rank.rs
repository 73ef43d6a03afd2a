//! All valid mappings for a network, the cheapest first (GRNN, section 7.2), and the launches of the best ones.

use std::fmt::Write as _;

use super::space::LARGEST_GROUP;
use super::{Cost, DataSheet, KernelTimes, Mapping, Rnn, RnnSizes, Space};
use crate::base::error::{Error, Result};
use crate::base::units::Nanos;
use crate::core::cost::curve::Best;
use crate::core::workload::model::Model;

/// The cells that persistent kernels compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecurrentCell {
    /// An LSTM: one synchronisation per step.
    Lstm,
    /// A GRU: one or two synchronisations per step.
    Gru,
}

impl RecurrentCell {
    pub const ALL: [RecurrentCell; 2] = [RecurrentCell::Lstm, RecurrentCell::Gru];

    /// The kinds of kernels that compute the cell.
    pub fn kernels(self) -> &'static [Rnn] {
        match self {
            RecurrentCell::Lstm => &[Rnn::Lstm],
            RecurrentCell::Gru => &[Rnn::GruSingle, Rnn::GruDouble],
        }
    }

    pub fn from_model(model: &Model) -> Result<RecurrentCell> {
        match model {
            Model::Lstm => Ok(RecurrentCell::Lstm),
            Model::Gru => Ok(RecurrentCell::Gru),
            other => Err(Error::input(format!(
                "device.grnn: persistent kernels run lstm and gru, and the model is {}; leave it out",
                other.name()
            ))),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            RecurrentCell::Lstm => "lstm",
            RecurrentCell::Gru => "gru",
        }
    }
}

/// A mapping in a ranking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankedMapping {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub cost: Cost,
}

/// The mappings of a batch by ascending cost, then by tile width, tile height, groups, group size and synchronisations.
/// There are none if no kernel runs this batch: [`KernelLaunches`] then runs another one.
pub fn rank(
    cell: RecurrentCell,
    hidden: u32,
    batch: u32,
    device: &DataSheet,
    space: &Space,
) -> Vec<RankedMapping> {
    let kernels = cell
        .kernels()
        .iter()
        .map(|&rnn| RnnSizes { rnn, hidden, batch });
    rank_all(kernels, device, space, |_| true)
}

/// The mappings of one of several LSTM layers that run at once, each on its share of the multiprocessors. Its dot
/// products cover the output of the layer before as well as its own state, so they are twice as long: they are those of
/// a state of twice the width, of which half of the elements are on twice the share. Tiles divide the state evenly, so
/// that this is exact.
fn rank_layer(
    hidden: u32,
    batch: u32,
    layers: u32,
    device: &DataSheet,
    space: &Space,
) -> Vec<RankedMapping> {
    let sizes = RnnSizes {
        rnn: Rnn::Lstm,
        hidden: 2 * hidden,
        batch,
    };
    let device = DataSheet {
        multiprocessors: 2 * (device.multiprocessors / layers),
        ..device.clone()
    };
    rank_all([sizes], &device, space, |mapping| {
        hidden.is_multiple_of(mapping.tile_width)
    })
}

fn rank_all(
    kernels: impl IntoIterator<Item = RnnSizes>,
    device: &DataSheet,
    space: &Space,
    is_allowed: impl Fn(&Mapping) -> bool,
) -> Vec<RankedMapping> {
    let mut all = Vec::new();
    for sizes in kernels {
        space.each_valid(&sizes, device, |mapping| {
            if is_allowed(&mapping) {
                all.push(RankedMapping {
                    rnn: sizes.rnn,
                    mapping,
                    cost: Cost::estimate(&mapping, &sizes, device),
                });
            }
        });
    }
    all.sort_by(|a, b| {
        let by_cost = a.cost.total().total_cmp(&b.cost.total());
        by_cost
            .then_with(|| a.mapping.cmp(&b.mapping))
            .then_with(|| a.rnn.synchronisations().cmp(&b.rnn.synchronisations()))
    });
    all
}

/// A ranking as a CSV file.
pub fn csv(cell: RecurrentCell, hidden: u32, batch: u32, ranked: &[RankedMapping]) -> String {
    let mut text = String::from(
        "rank,tile_width,tile_height,work_groups,group_size,sync,sub_tile_width,threads,sms,mem_cost,sync_cost,reduction_cost,mul_cost,cost\n",
    );
    for (rank, RankedMapping { rnn, mapping, cost }) in (1..).zip(ranked) {
        let sync = match cell {
            RecurrentCell::Lstm => String::new(),
            RecurrentCell::Gru => rnn.synchronisations().to_string(),
        };
        let outputs = mapping.sub_tile_width(*rnn);
        let threads = mapping.threads();
        let blocks = mapping.blocks(&RnnSizes {
            rnn: *rnn,
            hidden,
            batch,
        });
        let [memory, product] = [cost.memory, cost.product].map(|term| format!("{term:?}"));
        let Cost {
            synchronisation,
            reduction,
            ..
        } = cost;
        let total = cost.total();
        writeln!(
            text,
            "{rank},{mapping},{sync},{outputs},{threads},{blocks},{memory},{synchronisation},\
             {reduction:.6},{product},{total:.6}"
        )
        .expect("a string takes all");
    }
    text
}

/// The best kernel for each batch. Few batches have good kernels, since rows of the grid hold equal numbers of
/// sequences: a batch is padded to the cheapest larger one if that costs less. A batch larger than all runs in the
/// smallest number of launches, of even sizes (Table 3: the GRU of 1024 takes twice as long at batch 20 as at 10).
#[derive(Clone, Debug)]
pub struct KernelLaunches {
    /// The padded batch and its mapping, for each batch from 1 on.
    kernels: Vec<(u32, RankedMapping)>,
}

impl KernelLaunches {
    pub fn new(
        cell: RecurrentCell,
        hidden: u32,
        device: &DataSheet,
        space: &Space,
    ) -> KernelLaunches {
        KernelLaunches::from_ranking(device, |batch| rank(cell, hidden, batch, device, space))
    }

    fn from_ranking(
        device: &DataSheet,
        rank: impl Fn(u32) -> Vec<RankedMapping>,
    ) -> KernelLaunches {
        // A work group holds a column of its tile, so tiles are at most a warp high; each row has a block.
        let most = LARGEST_GROUP * device.multiprocessors;
        let mut kernels = Vec::new();
        let mut best: Option<(u32, RankedMapping)> = None;
        for batch in (1..=most).rev() {
            if let Some(first) = rank(batch).first()
                && best.is_none_or(|(_, best)| first.cost.total() <= best.cost.total())
            {
                best = Some((batch, *first));
            }
            kernels.extend(best);
        }
        kernels.reverse();
        KernelLaunches { kernels }
    }

    /// The largest batch of one launch; `None` if the weights do not fit.
    pub fn largest(&self) -> Option<u32> {
        u32::try_from(self.kernels.len())
            .ok()
            .filter(|largest| *largest > 0)
    }

    /// The reason if no kernel runs any batch. Traditional kernels run then (section 4).
    pub fn refusal(&self, cell: RecurrentCell, hidden: u32, device: &str) -> Option<String> {
        if !self.kernels.is_empty() {
            return None;
        }
        Some(format!(
            "no persistent kernel runs {} with hidden {hidden} on the {device}: its registers do not hold the weights",
            cell.name()
        ))
    }

    /// The sequences of each launch; empty if the weights do not fit.
    pub fn sizes(&self, batch: u32) -> impl Iterator<Item = u32> + use<> {
        let count = self.largest().map_or(0, |largest| batch.div_ceil(largest));
        // The first launches take the remainder.
        (0..count).map(move |launch| batch / count + u32::from(launch < batch % count))
    }

    /// The kernels that run a batch, one for each launch.
    pub fn kernels(&self, batch: u32) -> impl Iterator<Item = &(u32, RankedMapping)> {
        self.sizes(batch)
            .map(|size| &self.kernels[size as usize - 1])
    }
}

/// The times of persistent kernels by the performance model.
#[derive(Clone, Debug)]
pub struct PersistentTimes {
    launches: KernelLaunches,
    launch: Nanos,
    /// The time of a step of each batch from 1 on.
    steps: Vec<Nanos>,
    /// The steps of a launch in addition to those of its sequences.
    more_steps: u32,
}

impl PersistentTimes {
    /// The times of the kernels of these launches.
    ///
    /// # Errors
    /// There are no kernels, or the device has no times.
    pub fn new(launches: KernelLaunches, device: &DataSheet) -> Result<PersistentTimes> {
        PersistentTimes::from_launches(launches, device, 0)
    }

    /// The times of several LSTM layers in one launch, all as wide as their input. A layer is one step behind the layer
    /// before it, so a launch has `layers - 1` more steps than its sequences. One of the later layers takes the time of
    /// a step: the first one's dot products are half as long. The paper does not say how its networks of several layers
    /// run (section 8.5); this is a definition of this project.
    pub fn from_layers(hidden: u32, layers: u32, device: &DataSheet) -> Result<PersistentTimes> {
        if layers < 2 {
            return PersistentTimes::new(
                KernelLaunches::new(RecurrentCell::Lstm, hidden, device, &Space::default()),
                device,
            );
        }
        let space = Space::default();
        let launches = KernelLaunches::from_ranking(device, |batch| {
            rank_layer(hidden, batch, layers, device, &space)
        });
        PersistentTimes::from_launches(launches, device, layers - 1)
    }

    fn from_launches(
        launches: KernelLaunches,
        device: &DataSheet,
        more_steps: u32,
    ) -> Result<PersistentTimes> {
        let name = &device.name;
        let times: &KernelTimes = device.constants.time.as_ref().ok_or_else(|| {
            Error::input(format!(
                "no table [grnn.time] for the {name}, so the times of its persistent kernels are unknown; \
                 scenarios/devices/titan-v.toml has one; of another GPU batchlab profile --grnn measures rows for the cost table"
            ))
        })?;
        let Some(largest) = launches.largest() else {
            return Err(Error::input(format!(
                "the registers of the {name} hold the weights of no persistent kernel"
            )));
        };
        let mut steps = Vec::with_capacity(largest as usize);
        for batch in 1..=largest {
            let kernels = launches.kernels(batch);
            let times_of_kernels = kernels.map(|(_, best)| times.step(best.rnn, best.cost.total()));
            steps.push(times_of_kernels.sum());
        }
        Ok(PersistentTimes {
            launch: times.launch,
            steps,
            launches,
            more_steps,
        })
    }

    /// The time of these steps of a batch, in as many launches as it takes.
    pub fn runs(&self, batch: u32, steps: u32) -> Nanos {
        let sizes = self.launches.sizes(batch);
        let steps = u64::from(steps) + u64::from(self.more_steps);
        let each = sizes.map(|size| {
            self.launch
                .saturating_add(self.steps[size as usize - 1].saturating_mul(steps))
        });
        each.fold(Nanos::ZERO, Nanos::saturating_add)
    }

    /// The least times of a step in batches up to `largest`, without launches.
    pub fn best(&self, largest: u32) -> Best {
        let batches = (1..=largest.max(1))
            .zip(&self.steps)
            .map(|(batch, time)| Best::new(batch, *time));
        batches
            .reduce(Best::or)
            .expect("there is a kernel for some batch")
    }
}
