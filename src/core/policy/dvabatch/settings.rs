//! The settings of DVABatch and LazyBatch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::conditions::Conditions;
use super::mechanism::STREAMS;
use super::policies::{ByInput, ByLoad, ByOperator, CompWait, Ranges, Room};
use super::slicing::{Durations, Slicing};
use super::{Stage, Staged};
use crate::base::units::Share;
use crate::core::cost::CostModel;
use crate::core::cost::curve::preferred;
use crate::core::cost::slice;
use crate::core::policy::padded::PadTo;
use crate::core::policy::prelude::*;
use crate::core::policy::values::{share, time_with_unit};
use crate::core::workload::dnn;
use crate::core::workload::dnn::Dnn;
use crate::core::workload::model::Model;

/// `kind = "dvabatch"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct DvaBatch {
    #[default(Diversity::Auto)]
    pub policy: Diversity,
    /// Where a network is cut; chains are cut by `steps`.
    #[default(Stages::Count(4))]
    pub stages: Stages,
    /// Steps of a chain in a stage.
    #[default = 10]
    pub steps: u32,
    /// Queries in a batch, or in all batches side by side.
    #[default = 64]
    pub max_batch: u32,
    /// How long the first request waits for others. "first-stage": the first stage's time for the largest batch and
    /// input, as in the paper.
    #[serde(with = "first_stage")]
    #[default(Some(Nanos::ZERO))]
    pub window: Option<Nanos>,
    /// T_comp_wait, the age up to which a batch is stretched; the paper gives no value. "auto": while the device has no
    /// room and newcomers gain as much as the batch loses; never for chains, whose next batch begins at once.
    #[serde(with = "auto")]
    pub comp_wait: Option<Nanos>,
    /// Sets of buffers; with one, stages run one after another.
    #[default = 2]
    pub buffer_pairs: u8,
    /// Whether a new batch waits for room on the device.
    #[default(RoomFor::Room)]
    pub room: RoomFor,
    /// What is divided by length (`input`).
    #[default(Cluster::Batch)]
    pub cluster: Cluster,
    /// The range of lengths that share a batch (`input`).
    #[default = 32]
    pub bucket_width: u32,
    /// The ends of these ranges, ascending, instead of their width. The authors' code pads to a list of lengths.
    pub lengths: Vec<u32>,
    /// The padded length (`input`).
    #[default(PadTo::Longest)]
    pub pad_to: PadTo,
    /// Share by which a batch's halves may take longer; 0 in the paper. With costs per launch they always do.
    #[default = 0.03]
    pub split_slack: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Diversity {
    /// `input` if requests differ in length; `operator-load` if one stage prefers at least eight times another's batch;
    /// else `load`.
    Auto,
    /// Policy I.
    Input,
    /// Policy II.
    Operator,
    /// Policy III.
    Load,
    /// Policies II and III.
    OperatorLoad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoomFor {
    /// At once if costs are unknown, and in chains.
    Room,
    /// At once, as in the paper.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cluster {
    /// The queries that the server accepts as one batch, as in the paper: those that came first. Later ones do not join
    /// its parts.
    Batch,
    /// All that wait; the range whose first query came earliest is next.
    Queue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a number of stages, a list of operators before which a stage begins, \"operators\" or \"preferred\""
)]
pub enum Stages {
    /// Cuts into stages equal in time at the square root of `max_batch`. At `max_batch` itself, all operators of
    /// constant time would share one stage.
    Count(u32),
    At(Vec<String>),
    By(Rule),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Operators,
    /// Where the preferred batch falls to an eighth of `max_batch` or less (Figure 6: 64 to 8).
    Preferred,
}

impl Settings for DvaBatch {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "dvabatch",
            "networks in stages: batches are joined and split between them (DVABatch)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.check()?;
        let slicing = Arc::new(self.slicing(setup)?);
        let conditions = self.conditions(setup, &slicing)?;
        Ok(Box::new(Staged::new(
            setup.workers,
            &slicing,
            self.buffer_pairs,
            conditions,
        )))
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        match self.slicing(setup) {
            Ok(Slicing::Network(cuts)) => cuts.len().min(STREAMS.into()) as u16,
            _ => STREAMS,
        }
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Nodes(vec![self.max_batch; setup.cells.len()]))
    }

    fn runs_parts(&self) -> bool {
        true
    }
}

impl DvaBatch {
    fn check(&self) -> Result<(), String> {
        at_least_1([
            ("steps", self.steps),
            ("max_batch", self.max_batch),
            ("buffer_pairs", self.buffer_pairs.into()),
            ("bucket_width", self.bucket_width),
        ])?;
        if !self.lengths.is_sorted_by(|one, next| one < next) || self.lengths.first() == Some(&0) {
            return Err(format!(
                "lengths: {:?}; lengths from 1 on, each above the one before",
                self.lengths
            ));
        }
        share("split_slack", self.split_slack)
    }

    pub fn slicing(&self, setup: &Setup<'_>) -> Result<Slicing, String> {
        if let Some(network) = setup.model.network() {
            return Ok(Slicing::network(network, &self.ranges(network, setup)?));
        }
        match (setup.model, setup.cells) {
            (Model::Lstm | Model::Gru, [_]) => Ok(Slicing::Chain {
                cell: CellId(0),
                steps: self.steps,
            }),
            (model, _) => Err(format!(
                "dvabatch takes networks in a file (dnn:FILE.csv) and chains of one cell (lstm, gru), and the model is {}",
                model.name()
            )),
        }
    }

    fn ranges(&self, network: &Dnn, setup: &Setup<'_>) -> Result<Vec<Range<usize>>, String> {
        let costs = || setup.costs_for("stages").map(|costs| &**costs);
        match &self.stages {
            Stages::Count(stages) => {
                let times = slice::times(
                    network,
                    costs()?,
                    self.max_batch.isqrt(),
                    most_tokens(Some(network)),
                );
                slice::even(&times, *stages as usize)
                    .map_err(|problem| format!("stages: {problem}"))
            }
            Stages::At(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                slice::at(network, &names).map_err(|problem| format!("stages: {problem}"))
            }
            Stages::By(Rule::Operators) => Ok((0..network.operators().len())
                .map(|place| place..place + 1)
                .collect()),
            Stages::By(Rule::Preferred) => Ok(slice::by_preferred(
                &preferred_by_operator(network, costs()?, self.max_batch),
                self.max_batch / 8,
            )),
        }
    }

    fn conditions(
        &self,
        setup: &Setup<'_>,
        slicing: &Arc<Slicing>,
    ) -> Result<Box<dyn Conditions>, String> {
        let (network, max_batch) = (setup.model.network(), self.max_batch);
        let durations = |key| {
            setup
                .costs_for(key)
                .map(|costs| Durations::new(Arc::clone(slicing), Arc::clone(costs)))
        };
        // A chain's batch shrinks; the next would wait for the few left.
        let waits = network.is_some() && self.room == RoomFor::Room;
        let room = Room(durations("room").ok().filter(|_| waits));
        let window = match self.window {
            Some(time) => time,
            None => slicing.time(
                Stage(0),
                max_batch,
                most_tokens(network),
                &**setup.costs_for("window")?,
            ),
        };
        let padded = self.padded(network)?;
        let diversity = self.diversity(setup, slicing)?;
        if diversity == Diversity::Input {
            let ranges = Ranges {
                width: self.bucket_width,
                ends: self.lengths.clone(),
            };
            let (sized, cluster, accepted) = (network.is_some(), self.cluster, VecDeque::new());
            return Ok(Box::new(ByInput {
                ranges,
                sized,
                padded,
                max_batch,
                window,
                room,
                cluster,
                accepted,
            }));
        }
        let comp_wait = match (self.comp_wait, network) {
            _ if diversity == Diversity::Operator => CompWait::Age(Nanos::ZERO),
            (Some(time), _) => CompWait::Age(time),
            (None, Some(_)) => CompWait::Gain(durations("comp_wait")?),
            (None, None) => CompWait::Age(Nanos::ZERO),
        };
        let entry = ByLoad {
            max_batch,
            window,
            comp_wait,
            room,
        };
        if diversity == Diversity::Load {
            return Ok(Box::new(entry));
        }
        let Slicing::Network(cuts) = &**slicing else {
            return Err(
                "policy: the steps of a chain are all alike and prefer the same batch; use input or load".into()
            );
        };
        let slack_permille = (self.split_slack * 1000.0).round() as u32;
        let (stages, durations) = (cuts.len() as u32, durations("policy")?);
        Ok(Box::new(ByOperator {
            entry,
            durations,
            stages,
            slack_permille,
        }))
    }

    fn padded(&self, network: Option<&Dnn>) -> Result<Option<u32>, String> {
        match (self.pad_to, network) {
            (PadTo::Longest, _) => Ok(None),
            (PadTo::Bucket, Some(_)) => Ok(Some(most_tokens(network))),
            (PadTo::Bucket, None) => {
                Err("pad_to: the requests of a chain leave where they end and are not padded; use longest".into())
            }
        }
    }

    /// Never [`Diversity::Auto`].
    fn diversity(&self, setup: &Setup<'_>, slicing: &Slicing) -> Result<Diversity, String> {
        if self.policy != Diversity::Auto {
            return Ok(self.policy);
        }
        if setup
            .model
            .network()
            .is_none_or(|network| network.most_tokens.is_some())
        {
            return Ok(Diversity::Input);
        }
        let costs = &**setup.costs_for("policy")?;
        let prefers = |stage| {
            preferred(|batch| slicing.time(Stage(stage), batch, 0, costs)).min(self.max_batch)
        };
        let stages: Vec<u32> = (0..slicing.stages(0) as u32).map(prefers).collect();
        let (least, most) = (
            stages.iter().min().copied().unwrap_or(1),
            stages.iter().max().copied().unwrap_or(1),
        );
        Ok(if most / 8 >= least {
            Diversity::OperatorLoad
        } else {
            Diversity::Load
        })
    }
}

fn most_tokens(network: Option<&Dnn>) -> u32 {
    network.and_then(|network| network.most_tokens).unwrap_or(0)
}

/// The smallest batch that fills the device, at most `largest`.
fn preferred_by_operator(network: &Dnn, costs: &dyn CostModel, largest: u32) -> Vec<u32> {
    let fills = |cell: CellId, input: u32, batch: u32| {
        costs.demand(&Step {
            cell,
            batch,
            times: 1,
            input,
        }) == Share::WHOLE
    };
    let tokens = most_tokens(Some(network));
    let of_operator = |operator: &dnn::ListedOperator| {
        let input = network.input(operator, tokens);
        let mut sizes = (0..31)
            .map(|power| 1u32 << power)
            .take_while(|batch| *batch < largest);
        sizes
            .find(|batch| fills(operator.cell, input, *batch))
            .unwrap_or(largest)
    };
    network.operators().map(of_operator).collect()
}

/// A module for `#[serde(with)]`: a time with its unit, or a word for `None`.
macro_rules! time_or {
    ($module:ident, $word:literal) => {
        mod $module {
            use serde::{Deserializer, Serializer};

            use crate::base::units::Nanos;
            use crate::core::policy::values::time_or;

            pub fn serialize<S: Serializer>(
                time: &Option<Nanos>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match time {
                    Some(time) => serializer.collect_str(time),
                    None => serializer.serialize_str($word),
                }
            }

            pub fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<Nanos>, D::Error> {
                time_or(Some($word), deserializer)
            }
        }
    };
}

time_or!(auto, "auto");
time_or!(first_stage, "first-stage");

/// `kind = "lazy"`: LazyBatch (Choi, Kim and Rhu, 2021) as DVABatch describes it: every operator is a stage, and
/// batches are never split.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Lazy {
    /// Queries in a batch.
    #[default = 64]
    pub max_batch: u32,
    /// The age up to which a batch is stretched.
    #[serde(with = "time_with_unit")]
    #[default(Nanos(50_000_000))]
    pub comp_wait: Nanos,
}

impl Lazy {
    fn settings(&self) -> DvaBatch {
        DvaBatch {
            policy: Diversity::Load,
            stages: Stages::By(Rule::Operators),
            steps: 1,
            max_batch: self.max_batch,
            comp_wait: Some(self.comp_wait),
            ..DvaBatch::default()
        }
    }
}

impl Settings for Lazy {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new(
            "lazy",
            "networks operator by operator; requests that arrive later join running batches (LazyBatch)",
        )
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.settings().build(setup)
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        self.settings().streams(setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.settings().largest_batches(setup)
    }

    fn runs_parts(&self) -> bool {
        true
    }
}
