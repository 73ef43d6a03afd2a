//! The settings of DVABatch and LazyBatch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::conditions::Conditions;
use super::mechanism::STREAMS;
use super::policies::{ByInput, ByLoad, ByOperator, CompWait, Room};
use super::slicing::{Durations, Slicing};
use super::{Stage, Staged};
use crate::cost::curve::preferred;
use crate::cost::slice;
use crate::cost::{CostModel, MemberKind};
use crate::policy::Policy;
use crate::policy::padded::PadTo;
use crate::policy::registry::{Batches, PolicyKind, Settings, Setup};
use crate::policy::values::{at_least_1, share, time_with_unit};
use crate::task::Step;
use crate::units::{CellId, Nanos, Share};
use crate::workload::dnn;
use crate::workload::dnn::Dnn;
use crate::workload::model::Model;

/// `kind = "dvabatch"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DvaBatch {
    pub policy: Diversity,
    /// Where a network is cut; chains are cut by `steps`.
    pub stages: Stages,
    /// Steps of a chain in a stage.
    pub steps: u32,
    /// Queries in a batch, or in all batches side by side.
    pub max_batch: u32,
    /// How long the first request waits for others.
    #[serde(with = "window")]
    pub window: Window,
    /// T_comp_wait, the age up to which a batch is stretched; the paper gives no value. "auto": while the device has no
    /// room and newcomers gain as much as the batch loses; never for chains, whose next batch begins at once.
    #[serde(with = "auto")]
    pub comp_wait: Option<Nanos>,
    /// Sets of buffers; with one, stages run one after another.
    pub buffer_pairs: u8,
    /// Whether a new batch waits for room on the device.
    pub room: RoomFor,
    /// The range of lengths that share a batch (`input`).
    pub bucket_width: u32,
    /// The padded length (`input`).
    pub pad_to: PadTo,
    /// Share by which a batch's halves may take longer; 0 in the paper. With costs per launch they always do.
    pub split_slack: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Diversity {
    /// `input` if requests differ in length; `operator-load` if one stage prefers at most an eighth of `max_batch` and
    /// another at least half; else `load`.
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

impl Default for DvaBatch {
    fn default() -> Self {
        DvaBatch {
            policy: Diversity::Auto,
            stages: Stages::Count(4),
            steps: 10,
            max_batch: 64,
            window: Window::Time(Nanos::ZERO),
            comp_wait: None,
            buffer_pairs: 2,
            room: RoomFor::Room,
            bucket_width: 32,
            pad_to: PadTo::Longest,
            split_slack: 0.03,
        }
    }
}

impl Settings for DvaBatch {
    fn describe(&self) -> PolicyKind {
        PolicyKind::new("dvabatch", "networks in stages: batches are joined and split between them (DVABatch)")
    }

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.check()?;
        let slicing = Arc::new(self.slicing(setup)?);
        let conditions = self.conditions(setup, &slicing)?;
        Ok(Box::new(Staged::new(setup.workers, &slicing, self.buffer_pairs, conditions)))
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        match self.slicing(setup) {
            Ok(Slicing::Network { stages, .. }) => stages.len().min(STREAMS.into()) as u16,
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
        share("split_slack", self.split_slack)
    }

    pub fn slicing(&self, setup: &Setup<'_>) -> Result<Slicing, String> {
        if let Some(network) = setup.model.network() {
            let ranges = self.ranges(network, setup.costs)?;
            let operators: Vec<(CellId, bool)> =
                network.operators().map(|operator| (operator.cell, !operator.form.is_constant())).collect();
            return Ok(Slicing::network(&operators, &ranges));
        }
        match (setup.model, setup.cells) {
            (Model::Lstm | Model::Gru, [_]) => Ok(Slicing::Chain { cell: CellId(0), steps: self.steps }),
            (model, _) => Err(format!(
                "dvabatch takes networks in a file (dnn:FILE.csv) and chains of one cell (lstm, gru), and the model is {}",
                model.name()
            )),
        }
    }

    fn ranges(&self, network: &Dnn, costs: Option<&Arc<dyn CostModel>>) -> Result<Vec<Range<usize>>, String> {
        let costs = || costs.map(|costs| &**costs).ok_or_else(|| needs_costs("stages"));
        let count = network.operators().len();
        match &self.stages {
            Stages::Count(stages) => {
                let times = slice::times(network, costs()?, self.max_batch.isqrt(), network.most_tokens().unwrap_or(0));
                slice::even(&times, *stages as usize).map_err(|problem| format!("stages: {problem}"))
            }
            Stages::At(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                slice::at(network, &names).map_err(|problem| format!("stages: {problem}"))
            }
            Stages::By(Rule::Operators) => Ok((0..count).map(|place| place..place + 1).collect()),
            Stages::By(Rule::Preferred) => {
                Ok(slice::by_preferred(&preferred_by_operator(network, costs()?, self.max_batch), self.max_batch / 8))
            }
        }
    }

    fn conditions(&self, setup: &Setup<'_>, slicing: &Arc<Slicing>) -> Result<Box<dyn Conditions>, String> {
        let network = setup.model.network();
        let known = || setup.costs.map(|costs| Durations::new(Arc::clone(slicing), Arc::clone(costs)));
        let durations = |key: &str| known().ok_or_else(|| needs_costs(key));
        // A chain's batch shrinks; the next would wait for the few left.
        let waits = self.room == RoomFor::Room;
        let room = || Room(network.filter(|_| waits).and_then(|_| known()));
        let (window, padded) = (self.window(setup, slicing)?, self.padded(network)?);
        let load = |comp_wait| ByLoad { max_batch: self.max_batch, window, comp_wait, room: room() };
        let comp_wait = || -> Result<CompWait, String> {
            Ok(match (self.comp_wait, network) {
                (Some(time), _) => CompWait::Age(time),
                (None, Some(_)) => CompWait::Gain(durations("comp_wait")?),
                (None, None) => CompWait::Age(Nanos::ZERO),
            })
        };
        let splitting = |entry| -> Result<ByOperator, String> {
            let stages = match &**slicing {
                Slicing::Network { stages, .. } => stages.len() as u32,
                Slicing::Chain { .. } => {
                    return Err(
                        "policy: the steps of a chain are all alike and prefer the same batch; use input or load"
                            .into(),
                    );
                }
            };
            let slack_permille = (self.split_slack * 1000.0).round() as u32;
            Ok(ByOperator { entry, durations: durations("policy")?, stages, slack_permille })
        };
        Ok(match self.diversity(setup, slicing)? {
            Diversity::Input | Diversity::Auto => Box::new(ByInput {
                width: self.bucket_width,
                sized: network.is_some(),
                padded,
                max_batch: self.max_batch,
                window,
                room: room(),
            }),
            Diversity::Operator => Box::new(splitting(load(CompWait::Age(Nanos::ZERO)))?),
            Diversity::Load => Box::new(load(comp_wait()?)),
            Diversity::OperatorLoad => Box::new(splitting(load(comp_wait()?))?),
        })
    }

    fn window(&self, setup: &Setup<'_>, slicing: &Slicing) -> Result<Nanos, String> {
        match self.window {
            Window::Time(time) => Ok(time),
            Window::FirstStage => {
                let costs = setup.costs.ok_or_else(|| needs_costs("window"))?;
                let input = setup.model.network().and_then(Dnn::most_tokens).unwrap_or(0);
                Ok(time_of(slicing, Stage(0), self.max_batch, input, &**costs))
            }
        }
    }

    fn padded(&self, network: Option<&Dnn>) -> Result<Option<u32>, String> {
        match (self.pad_to, network) {
            (PadTo::Longest, _) => Ok(None),
            (PadTo::Bucket, Some(network)) => Ok(Some(network.most_tokens().unwrap_or(0))),
            (PadTo::Bucket, None) => {
                Err("pad_to: the requests of a chain leave where they end and are not padded; use longest".into())
            }
        }
    }

    fn diversity(&self, setup: &Setup<'_>, slicing: &Slicing) -> Result<Diversity, String> {
        let costs = setup.costs;
        Ok(match (self.policy, setup.model.network()) {
            (Diversity::Auto, None) => Diversity::Input,
            (Diversity::Auto, Some(network)) if matches!(network.takes(), dnn::Takes::Tokens(_)) => Diversity::Input,
            (Diversity::Auto, Some(network)) => {
                let costs = &**costs.ok_or_else(|| needs_costs("policy"))?;
                let prefers = |stage| {
                    let tokens = network.most_tokens().unwrap_or(0);
                    preferred(|batch| time_of(slicing, stage, batch, tokens, costs)).min(self.max_batch)
                };
                let stages: Vec<u32> = (0..slicing.stages(0) as u32).map(|stage| prefers(Stage(stage))).collect();
                let small = stages.iter().any(|batch| *batch <= self.max_batch / 8);
                let large = stages.iter().any(|batch| *batch >= self.max_batch / 2);
                if small && large { Diversity::OperatorLoad } else { Diversity::Load }
            }
            (chosen, _) => chosen,
        })
    }
}

fn time_of(slicing: &Slicing, stage: Stage, batch: u32, input: u32, costs: &dyn CostModel) -> Nanos {
    let mut steps = Vec::new();
    slicing.steps(stage, batch, u32::MAX, input, &mut steps);
    let times = steps.iter().map(|step| costs.runs(step, MemberKind::Parts).time);
    times.fold(Nanos::ZERO, Nanos::saturating_add)
}

/// The smallest batch that fills the device, at most `largest`.
fn preferred_by_operator(network: &Dnn, costs: &dyn CostModel, largest: u32) -> Vec<u32> {
    let fills =
        |cell: CellId, input: u32, batch: u32| costs.demand(&Step { cell, batch, times: 1, input }) == Share::WHOLE;
    let tokens = network.most_tokens().unwrap_or(0);
    let of_operator = |operator: &dnn::Operator| {
        let input = network.input(operator, tokens);
        let mut sizes = (0..31).map(|power| 1u32 << power).take_while(|batch| *batch < largest);
        sizes.find(|batch| fills(operator.cell, input, *batch)).unwrap_or(largest)
    };
    network.operators().map(of_operator).collect()
}

fn needs_costs(key: &str) -> String {
    format!(
        "{key}: can't be computed, because the costs of the device are unknown; name a cost table (device.costs) or a data sheet \
         (device.roofline), or give a value"
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    Time(Nanos),
    /// The first stage's time for the largest batch and input, as in the paper.
    FirstStage,
}

mod auto {
    use serde::{Deserializer, Serializer};

    use super::{time_or_word, time_with_unit};
    use crate::units::Nanos;

    pub fn serialize<S: Serializer>(time: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => time_with_unit::serialize(time, serializer),
            None => serializer.serialize_str("auto"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
        time_or_word("auto", deserializer)
    }
}

mod window {
    use serde::{Deserializer, Serializer};

    use super::{Window, time_or_word, time_with_unit};

    pub fn serialize<S: Serializer>(window: &Window, serializer: S) -> Result<S::Ok, S::Error> {
        match window {
            Window::Time(time) => time_with_unit::serialize(time, serializer),
            Window::FirstStage => serializer.serialize_str("first-stage"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Window, D::Error> {
        Ok(time_or_word("first-stage", deserializer)?.map_or(Window::FirstStage, Window::Time))
    }
}

fn time_or_word<'de, D: Deserializer<'de>>(word: &'static str, deserializer: D) -> Result<Option<Nanos>, D::Error> {
    struct Wanted(&'static str);

    impl Visitor<'_> for Wanted {
        type Value = Option<Nanos>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a time with its unit in quotes, such as \"2ms\", or \"{}\"", self.0)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Nanos>, E> {
            if text == self.0 {
                return Ok(None);
            }
            Nanos::parse(text).map(Some).map_err(|problem| E::custom(format!("{problem}; or \"{}\"", self.0)))
        }
    }

    deserializer.deserialize_str(Wanted(word))
}

/// `kind = "lazy"`: LazyBatch (Choi, Kim and Rhu, 2021) as DVABatch describes it: every operator is a stage, and
/// batches are never split.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lazy {
    /// Queries in a batch.
    pub max_batch: u32,
    /// The age up to which a batch is stretched.
    #[serde(with = "time_with_unit")]
    pub comp_wait: Nanos,
}

impl Default for Lazy {
    fn default() -> Self {
        Lazy { max_batch: 64, comp_wait: Nanos(50_000_000) }
    }
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
