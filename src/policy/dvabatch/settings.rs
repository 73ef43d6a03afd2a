//! What a scenario says of DVABatch, and what follows from the network.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Stage;
use super::conditions::Conditions;
use super::durations::Durations;
use super::input::ByInput;
use super::load::{ByLoad, CompWait};
use super::mechanism::STREAMS;
use super::operator::ByOperator;
use super::policy::Staged;
use super::room::Room;
use super::slicing::Slicing;
use super::times;
pub use super::times::Window;
use crate::cost::CostModel;
use crate::cost::preferred::preferred;
use crate::cost::slice;
use crate::cost::timing::Of;
use crate::policy::Policy;
use crate::policy::padded::PadTo;
use crate::policy::registry::{Batches, PolicyKind, Settings, Setup};
use crate::policy::values::{at_least_1, share};
use crate::task::Step;
use crate::units::{CellId, Nanos, Share};
use crate::workload::dnn;
use crate::workload::dnn::Dnn;
use crate::workload::model::Model;

/// `kind = "dvabatch"`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DvaBatch {
    /// The diversities that are dealt with.
    pub policy: Diversity,
    /// How a network is cut into stages; a chain is cut by `steps`.
    pub stages: Stages,
    /// The steps of a stage of a chain.
    pub steps: u32,
    /// The most queries in a batch; where batches run side by side, in all of them.
    pub max_batch: u32,
    /// How long the first request of a batch waits for others, even if the device has room.
    #[serde(with = "times::window")]
    pub window: Window,
    /// T_comp_wait: the age up to which a batch is stretched, for which the paper gives no figure. Without one, a batch is stretched while
    /// the device has no room for another, and while the newcomers gain as much as it loses; and never in a chain, where the next always begins
    /// at once.
    #[serde(with = "times::auto")]
    pub comp_wait: Option<Nanos>,
    /// The sets of buffers: with one, stages work one after the other.
    pub buffer_pairs: u8,
    /// Whether a new batch waits until the device has room for it.
    pub room: RoomFor,
    /// The range of lengths that share a batch under input diversity.
    pub bucket_width: u32,
    /// What the inputs of a batch are padded to under input diversity. Chains have none, and end where they end.
    pub pad_to: PadTo,
    /// How much longer than a batch its halves may take together, as a share. The paper splits at 0; where each kernel's launch costs time,
    /// halves always take longer.
    pub split_slack: f64,
}

/// Which of the paper's policies is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Diversity {
    /// What the network asks for: `input` where requests differ in length, else `operator-load` where one stage prefers an eighth of `max_batch`
    /// or less and another half of it or more, else `load`. Batches are split between stages, so that it is these that count.
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

/// When a new batch begins beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoomFor {
    /// When they leave room on the device: on a full one batches only slow each other down. Where no costs are known, and in chains, at once.
    Room,
    /// At once, as the paper has it.
    Any,
}

/// How a network is cut into stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a number of stages, a list of operators before which a stage begins, \"operators\" or \"preferred\""
)]
pub enum Stages {
    /// Into so many, as even in time as they can be for a batch in the middle: at the root of `max_batch`. At the largest, what takes the same
    /// for all smaller ones would stand in one stage, and that stage would hold up the others.
    Count(u32),
    /// Before each of these operators.
    At(Vec<String>),
    /// `"operators"`: each is a stage. `"preferred"`: where the preferred batch falls.
    By(Rule),
}

/// A rule for stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// A stage for each operator.
    Operators,
    /// A cut where the preferred batch falls to an eighth of `max_batch` or less: with 64 where it falls to 8, as in the paper's figure 6.
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

    /// The stages of the scenario's model.
    ///
    /// # Errors
    /// A model that has none; stages that it can't be cut into, or that need costs which nobody knows.
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
        // Newcomers need not wait for room where nothing is known of costs; nor in a chain, whose batches shrink as requests end, so that
        // those of the next would wait for the few that are left.
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
                        "policy: the steps of a chain are all alike, and prefer the same batch; take input or load"
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

    /// The batch window.
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

    /// Up to which input a batch of a line may be padded beyond its longest.
    fn padded(&self, network: Option<&Dnn>) -> Result<Option<u32>, String> {
        match (self.pad_to, network) {
            (PadTo::Longest, _) => Ok(None),
            (PadTo::Bucket, Some(network)) => Ok(Some(network.most_tokens().unwrap_or(0))),
            (PadTo::Bucket, None) => {
                Err("pad_to: the requests of a chain leave where they end, and are not padded; take longest".into())
            }
        }
    }

    /// The policy that is followed.
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

/// What a stage takes alone; of a chain, a stage of all its steps.
fn time_of(slicing: &Slicing, stage: Stage, batch: u32, input: u32, costs: &dyn CostModel) -> Nanos {
    let mut steps = Vec::new();
    slicing.steps(stage, batch, u32::MAX, input, &mut steps);
    let times = steps.iter().map(|step| Of::Parts.runs(costs, step).0);
    times.fold(Nanos::ZERO, Nanos::saturating_add)
}

/// The smallest batch at which each operator fills the device, up to a largest, at the most tokens that the network takes.
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
        "{key}: can't be worked out, since no costs are known of the device; name a cost table (device.costs) or a data sheet \
         (device.roofline), or say it outright"
    )
}
