//! All valid mappings for a network, the cheapest first (GRNN, section 7.2).

use std::fmt::Write as _;

use super::{Cost, Device, Mapping, Rnn, Sizes, Space};
use crate::error::{Error, Result};
use crate::workload::model::Model;

/// A cell, whose kernels are ranked together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    Lstm,
    Gru,
}

impl Cell {
    /// Its kernels, in the order in which equal costs are ranked.
    pub fn kernels(self) -> &'static [Rnn] {
        match self {
            Cell::Lstm => &[Rnn::Lstm],
            Cell::Gru => &[Rnn::GruSingle, Rnn::GruDouble],
        }
    }

    /// The only cell of a model.
    ///
    /// # Errors
    /// The model has other cells.
    pub fn of(model: &Model) -> Result<Cell> {
        match model {
            Model::Lstm => Ok(Cell::Lstm),
            Model::Gru => Ok(Cell::Gru),
            other => Err(Error::input(format!(
                "device.grnn: persistent kernels run lstm and gru, and the model is {}; leave it out",
                other.name()
            ))),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
        }
    }
}

/// A mapping with its cost per step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub cost: Cost,
}

/// The valid mappings by ascending cost; equal costs by tile width, tile height, work groups, group size and number of
/// synchronisations. Empty if no kernel runs this batch: [`Launches`] then runs another one.
pub fn rank(cell: Cell, hidden: u32, batch: u32, device: &Device, space: &Space) -> Vec<Ranked> {
    let mut all = Vec::new();
    for &rnn in cell.kernels() {
        let sizes = Sizes { rnn, hidden, batch };
        space.each_valid(&sizes, device, |mapping| {
            all.push(Ranked { rnn, mapping, cost: Cost::of(&mapping, &sizes, device) });
        });
    }
    all.sort_by(|a, b| {
        let place = |one: &Ranked| (one.mapping, one.rnn.synchronisations());
        a.cost.total().total_cmp(&b.cost.total()).then_with(|| place(a).cmp(&place(b)))
    });
    all
}

/// A ranked list as a CSV file.
pub fn csv(cell: Cell, hidden: u32, batch: u32, ranked: &[Ranked]) -> String {
    let mut text = String::from(
        "rank,tile_width,tile_height,work_groups,group_size,sync,sub_tile_width,threads,sms,mem_cost,sync_cost,reduction_cost,mul_cost,cost\n",
    );
    for (rank, Ranked { rnn, mapping, cost }) in (1..).zip(ranked) {
        let Mapping { tile_width, tile_height, groups, group_size } = *mapping;
        let sync = match cell {
            Cell::Lstm => String::new(),
            Cell::Gru => rnn.synchronisations().to_string(),
        };
        let (outputs, threads) = (mapping.sub_tile_width(*rnn), mapping.threads());
        let blocks = mapping.blocks(&Sizes { rnn: *rnn, hidden, batch });
        // `{:?}` prints these terms with at least one decimal.
        let [memory, product] = [cost.memory, cost.product].map(|term| format!("{term:?}"));
        let Cost { synchronisation, reduction, .. } = cost;
        let total = cost.total();
        writeln!(
            text,
            "{rank},{tile_width},{tile_height},{groups},{group_size},{sync},{outputs},{threads},{blocks},{memory},{synchronisation},\
             {reduction:.6},{product},{total:.6}"
        )
        .expect("a string takes all");
    }
    text
}
