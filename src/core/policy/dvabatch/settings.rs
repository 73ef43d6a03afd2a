//! The settings of DVABatch and LazyBatch.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::conditions::Conditions;
use super::mechanism::STREAMS;
use super::policies::{
    Cluster, CompWait, DeviceRoom, InputDiversity, LengthRanges, LoadDiversity, OperatorDiversity,
};
use super::slicing::{Slicing, StageDurations};
use super::{Stage, Staged};
use crate::base::units::Share;
use crate::core::cost::CostModel;
use crate::core::cost::curve::preferred_batch;
use crate::core::cost::slice;
use crate::core::policy::padded::PadTo;
use crate::core::policy::prelude::*;
use crate::core::policy::values::{share, time_with_unit};
use crate::core::workload::dnn::Dnn;
use crate::core::workload::model::Model;

/// `kind = "dvabatch"`.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct DvaBatch {
    #[default(Diversity::Auto)]
    pub policy: Diversity,
    /// The places where a network is cut. Chains are cut by `steps`.
    #[default(Stages::Count(4))]
    pub stages: Stages,
    /// The number of a chain's steps in a stage.
    #[default = 10]
    pub steps: u32,
    /// The largest number of queries in a batch, or in all batches that run at the same time.
    #[default = 64]
    pub max_batch: u32,
    /// The time that the first request waits for others. "first-stage" is the first stage's time for the largest batch
    /// and input, as in the paper.
    #[serde(with = "first_stage")]
    #[default(Some(Nanos::ZERO))]
    pub window: Option<Nanos>,
    /// The age up to which a batch is stretched (T_comp_wait). The paper gives no value. With "auto" a batch is
    /// stretched while the device has no room and newcomers gain as much as the batch loses. Chains are then never
    /// stretched, because their next batch begins at once.
    #[serde(with = "auto")]
    pub comp_wait: Option<Nanos>,
    /// The number of sets of buffers. With one set, stages run one after another.
    #[default = 2]
    pub buffer_pairs: u8,
    /// Whether a new batch waits for room on the device.
    #[default(RoomFor::Room)]
    pub room: RoomFor,
    /// The queries that are divided by length (`input`).
    #[default(Cluster::Batch)]
    pub cluster: Cluster,
    /// The range of lengths that share a batch (`input`).
    #[default = 32]
    pub bucket_width: u32,
    /// The ascending ends of these ranges, instead of their width. The authors' code pads to a list of lengths.
    pub lengths: Vec<u32>,
    /// The length to which queries are padded (`input`).
    #[default(PadTo::Longest)]
    pub pad_to: PadTo,
    /// The share by which a batch's halves may take longer; 0 in the paper. With costs per launch they always take
    /// longer.
    #[default = 0.03]
    pub split_slack: f64,
}

/// The policy of the paper, or the diversity that it addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Diversity {
    /// The policy is `input` if requests differ in length. Otherwise it is `operator-load` if one stage prefers at
    /// least eight times another's batch, and else `load`.
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

/// When a new batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoomFor {
    /// A batch begins once the device has room for it. In chains, and if costs are unknown, it begins at once.
    Room,
    /// A batch begins at once, as in the paper.
    Any,
}

/// The places where a network is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a number of stages, a list of operators before which a stage begins, \"operators\" or \"preferred\""
)]
pub enum Stages {
    /// This number of stages, which take the same time at the square root of `max_batch`. At `max_batch` itself, all
    /// operators of constant time would share one stage.
    Count(u32),
    /// The operators before which a stage begins.
    At(Vec<String>),
    By(StageRule),
}

/// The rule by which a network is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageRule {
    /// Every operator is a stage.
    Operators,
    /// A stage begins where the preferred batch falls to an eighth of `max_batch` or less (Figure 6: 64 to 8).
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
            Ok(Slicing::Network(stages)) => stages.len().min(STREAMS.into()) as u16,
            _ => STREAMS,
        }
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Nodes(vec![self.max_batch; setup.cells.len()]))
    }

    fn full_batch(&self) -> Option<u32> {
        (self.window != Some(Nanos::ZERO)).then_some(self.max_batch)
    }

    fn runs_parts(&self) -> bool {
        true
    }
}

impl DvaBatch {
    fn check(&self) -> Result<(), String> {
        require_positive([
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

    /// The stages of the model.
    pub fn slicing(&self, setup: &Setup<'_>) -> Result<Slicing, String> {
        if let Some(network) = setup.model.network() {
            return Ok(Slicing::network(network, &self.ranges(network, setup)?));
        }
        match (setup.model, setup.cells) {
            (Model::Lstm | Model::Gru, [_]) => Ok(Slicing::Chain {
                cell: CellId(0),
                steps: self.steps,
            }),
            (Model::Dnn(cell), _) => Err(format!(
                "dvabatch and lazy take networks in a file (dnn:FILE.csv) and chains of one cell (lstm, gru), and the model is \
                 dnn:{cell}; batchlab import stages COSTS.csv --cell {cell} --stages 4 -o staged divides its measured times"
            )),
            (model, _) => Err(format!(
                "dvabatch takes networks in a file (dnn:FILE.csv) and chains of one cell (lstm, gru), and the model is {}",
                model.name()
            )),
        }
    }

    /// The operators of each stage of a network.
    fn ranges(&self, network: &Dnn, setup: &Setup<'_>) -> Result<Vec<Range<usize>>, String> {
        match &self.stages {
            Stages::Count(stages) => {
                let costs = &**setup.costs_for("stages")?;
                let batch = self.max_batch.isqrt();
                let times = slice::times(network, costs, batch, most_tokens(Some(network)));
                slice::even(&times, *stages as usize)
                    .map_err(|problem| format!("stages: {problem}"))
            }
            Stages::At(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                slice::stages_by_name(network, &names)
                    .map_err(|problem| format!("stages: {problem}"))
            }
            Stages::By(StageRule::Operators) => {
                let places = 0..network.operators().len();
                Ok(places.map(|place| place..place + 1).collect())
            }
            Stages::By(StageRule::Preferred) => {
                let costs = &**setup.costs_for("stages")?;
                let preferred = preferred_by_operator(network, costs, self.max_batch);
                Ok(slice::stages_by_preferred_batch(
                    &preferred,
                    self.max_batch / 8,
                ))
            }
        }
    }

    fn conditions(
        &self,
        setup: &Setup<'_>,
        slicing: &Arc<Slicing>,
    ) -> Result<Box<dyn Conditions>, String> {
        let network = setup.model.network();
        let max_batch = self.max_batch;
        // A chain's batch shrinks, and the next one would wait for its last few queries.
        let waits = network.is_some() && self.room == RoomFor::Room;
        let room = DeviceRoom(if waits {
            durations("room", setup, slicing).ok()
        } else {
            None
        });
        let window = match self.window {
            Some(time) => time,
            None => slicing.time(
                Stage(0),
                max_batch,
                most_tokens(network),
                &**setup.costs_for("window")?,
            ),
        };
        let padded = self.padding_limit(network)?;
        let diversity = self.diversity(setup, slicing)?;
        if diversity == Diversity::Input {
            return Ok(Box::new(InputDiversity {
                ranges: LengthRanges {
                    width: self.bucket_width,
                    ends: self.lengths.clone(),
                },
                sized: network.is_some(),
                padded,
                max_batch,
                window,
                room,
                cluster: self.cluster,
                accepted: VecDeque::new(),
            }));
        }
        let comp_wait = match (self.comp_wait, network) {
            _ if diversity == Diversity::Operator => CompWait::Age(Nanos::ZERO),
            (Some(time), _) => CompWait::Age(time),
            (None, Some(_)) => CompWait::Gain(durations("comp_wait", setup, slicing)?),
            (None, None) => CompWait::Age(Nanos::ZERO),
        };
        let entry = LoadDiversity {
            max_batch,
            window,
            comp_wait,
            room,
        };
        if diversity == Diversity::Load {
            return Ok(Box::new(entry));
        }
        let Slicing::Network(stages) = &**slicing else {
            return Err(
                "policy: the steps of a chain are all alike and prefer the same batch; use input or load".into()
            );
        };
        Ok(Box::new(OperatorDiversity {
            entry,
            durations: durations("policy", setup, slicing)?,
            stages: stages.len() as u32,
            slack_permille: (self.split_slack * 1000.0).round() as u32,
        }))
    }

    /// The limit of padding to the end of a range of lengths, or `None` if queries are padded to the longest query.
    fn padding_limit(&self, network: Option<&Dnn>) -> Result<Option<u32>, String> {
        match (self.pad_to, network) {
            (PadTo::Longest, _) => Ok(None),
            (PadTo::Bucket, Some(_)) => Ok(Some(most_tokens(network))),
            (PadTo::Bucket, None) => {
                Err("pad_to: the requests of a chain leave where they end and are not padded; use longest".into())
            }
        }
    }

    /// The policy that is meant, which is never [`Diversity::Auto`].
    fn diversity(&self, setup: &Setup<'_>, slicing: &Slicing) -> Result<Diversity, String> {
        if self.policy != Diversity::Auto {
            return Ok(self.policy);
        }
        let network = setup.model.network();
        if network.is_none_or(|network| network.most_tokens.is_some()) {
            return Ok(Diversity::Input);
        }
        let costs = &**setup.costs_for("policy")?;
        let mut batches = Vec::new();
        for stage in (0..slicing.stages(0) as u32).map(Stage) {
            let batch = preferred_batch(|batch| slicing.time(stage, batch, 0, costs));
            batches.push(batch.min(self.max_batch));
        }
        let least = batches.iter().min().copied().unwrap_or(1);
        let most = batches.iter().max().copied().unwrap_or(1);
        Ok(if most / 8 >= least {
            Diversity::OperatorLoad
        } else {
            Diversity::Load
        })
    }
}

/// The times of stages, from which the value of a key is computed.
fn durations(
    key: &str,
    setup: &Setup<'_>,
    slicing: &Arc<Slicing>,
) -> Result<StageDurations, String> {
    let costs = setup.costs_for(key)?;
    Ok(StageDurations::new(Arc::clone(slicing), Arc::clone(costs)))
}

/// The largest input of a network, or 0 if it has none.
fn most_tokens(network: Option<&Dnn>) -> u32 {
    network.and_then(|network| network.most_tokens).unwrap_or(0)
}

/// The smallest batch at which each operator fills the device, at most `largest`.
fn preferred_by_operator(network: &Dnn, costs: &dyn CostModel, largest: u32) -> Vec<u32> {
    let tokens = most_tokens(Some(network));
    let mut preferred = Vec::new();
    for operator in network.operators() {
        let input = network.input(operator, tokens);
        let sizes = (0..31).map(|power| 1u32 << power);
        let mut smaller = sizes.take_while(|batch| *batch < largest);
        let fills = smaller.find(|batch| fills_device(operator.cell, *batch, input, costs));
        preferred.push(fills.unwrap_or(largest));
    }
    preferred
}

fn fills_device(cell: CellId, batch: u32, input: u32, costs: &dyn CostModel) -> bool {
    let step = Step {
        cell,
        batch,
        times: 1,
        input,
    };
    costs.demand(&step) == Share::WHOLE
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

/// `kind = "lazy"`: LazyBatch (Choi, Kim and Rhu, 2021) as DVABatch describes it. Every operator is a stage, and
/// batches are never split.
#[derive(Clone, Debug, Serialize, Deserialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct Lazy {
    /// The largest number of queries in a batch.
    #[default = 64]
    pub max_batch: u32,
    /// The age up to which a batch is stretched.
    #[serde(with = "time_with_unit")]
    #[default(Nanos(50_000_000))]
    pub comp_wait: Nanos,
}

impl Lazy {
    fn as_dvabatch(&self) -> DvaBatch {
        DvaBatch {
            policy: Diversity::Load,
            stages: Stages::By(StageRule::Operators),
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
        self.as_dvabatch().build(setup)
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        self.as_dvabatch().streams(setup)
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        self.as_dvabatch().largest_batches(setup)
    }

    fn runs_parts(&self) -> bool {
        true
    }
}
