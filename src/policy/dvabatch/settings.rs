//! What a scenario says of DVABatch, and what follows from the network.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::conditions::Conditions;
use super::durations::Durations;
use super::input::ByInput;
use super::load::{ByLoad, CompWait};
use super::mechanism::STREAMS;
use super::operator::ByOperator;
use super::policy::Staged;
use super::room::Room;
use super::slicing::Slicing;
use crate::backend::Step;
use crate::cost::CostModel;
use crate::policy::Policy;
use crate::policy::registry::{Batches, Settings, Setup, time_with_unit};
use crate::units::{CellId, Nanos, Share};
use crate::workload::dnn::{self, Dnn, slice};
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
    /// How long the first request of a batch waits for others, even if the device has room. The paper takes what the first stage takes for
    /// the largest batch; at low load that alone is several times what a request takes.
    #[serde(with = "time_with_unit")]
    pub window: Nanos,
    /// T_comp_wait: the age up to which a batch is stretched, for which the paper gives no figure. Without one, a batch is stretched while
    /// the device has no room for another, and while the newcomers gain as much as it loses; and never in a chain, where the next always begins at once.
    #[serde(with = "auto_time")]
    pub comp_wait: Option<Nanos>,
    /// The sets of buffers: with one, stages work one after the other.
    pub buffer_pairs: u8,
    /// The range of lengths that share a batch under input diversity.
    pub bucket_width: u32,
    /// How much longer than a batch its halves may take together, as a share. The paper splits at 0; where each kernel's launch costs time,
    /// halves always take longer.
    pub split_slack: f64,
}

/// Which of the paper's policies is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Diversity {
    /// What the network asks for: `input` where requests differ in length, else `operator-load` where its operators prefer different batches,
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
            window: Nanos::ZERO,
            comp_wait: None,
            buffer_pairs: 2,
            bucket_width: 32,
            split_slack: 0.03,
        }
    }
}

impl Settings for DvaBatch {
    const KIND: &'static str = "dvabatch";
    const ABOUT: &'static str = "networks in stages: batches are joined and split between them (DVABatch)";

    fn build(&self, setup: &Setup<'_>) -> Result<Box<dyn Policy>, String> {
        self.check()?;
        let slicing = Arc::new(self.slicing(setup)?);
        let conditions = self.conditions(setup, &slicing)?;
        Ok(Box::new(Staged::new(setup.workers, &slicing, self.buffer_pairs, conditions)))
    }

    fn streams(&self, setup: &Setup<'_>) -> u16 {
        match self.slicing(setup) {
            Ok(Slicing::Network { stages, .. }) => STREAMS.min(stages.len() as u16),
            _ => STREAMS,
        }
    }

    fn largest_batches(&self, setup: &Setup<'_>) -> Option<Batches> {
        Some(Batches::Nodes(vec![self.max_batch; setup.cells.len()]))
    }
}

impl DvaBatch {
    fn check(&self) -> Result<(), String> {
        for (key, value) in [
            ("steps", self.steps),
            ("max_batch", self.max_batch),
            ("buffer_pairs", self.buffer_pairs.into()),
            ("bucket_width", self.bucket_width),
        ] {
            if value == 0 {
                return Err(format!("{key}: 0 is too small; at least 1"));
            }
        }
        if !(0.0..=1.0).contains(&self.split_slack) {
            return Err(format!("split_slack: {} is no share; from 0 to 1", self.split_slack));
        }
        Ok(())
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
                Ok(slice::by_preferred(&preferred(network, costs()?, self.max_batch), self.max_batch / 8))
            }
        }
    }

    fn conditions(&self, setup: &Setup<'_>, slicing: &Arc<Slicing>) -> Result<Box<dyn Conditions>, String> {
        let network = setup.model.network();
        let durations = |key: &str| match setup.costs {
            Some(costs) => Ok(Durations::new(Arc::clone(slicing), Arc::clone(costs))),
            None => Err(needs_costs(key)),
        };
        // Newcomers need not wait for room where nothing is known of costs; nor in a chain, whose batches shrink as requests end, so that
        // those of the next would wait for the few that are left.
        let room = || Room(network.and_then(|_| durations("").ok()));
        let load = |comp_wait| ByLoad { max_batch: self.max_batch, window: self.window, comp_wait, room: room() };
        let comp_wait = || -> Result<CompWait, String> {
            Ok(match (self.comp_wait, network) {
                (Some(time), _) => CompWait::Age(time),
                (None, Some(_)) => CompWait::Gain(durations("comp_wait")?),
                (None, None) => CompWait::Age(Nanos::ZERO),
            })
        };
        let by_operator = |entry| -> Result<ByOperator, String> {
            let stages = match &**slicing {
                Slicing::Network { stages, .. } => stages.len() as u16,
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
        Ok(match self.diversity(network, setup.costs)? {
            Diversity::Input | Diversity::Auto => Box::new(ByInput {
                width: self.bucket_width,
                sized: network.is_some(),
                max_batch: self.max_batch,
                window: self.window,
                room: room(),
            }),
            Diversity::Operator => Box::new(by_operator(load(CompWait::Age(Nanos::ZERO)))?),
            Diversity::Load => Box::new(load(comp_wait()?)),
            Diversity::OperatorLoad => Box::new(by_operator(load(comp_wait()?))?),
        })
    }

    /// The policy that is followed.
    fn diversity(&self, network: Option<&Dnn>, costs: Option<&Arc<dyn CostModel>>) -> Result<Diversity, String> {
        Ok(match (self.policy, network) {
            (Diversity::Auto, None) => Diversity::Input,
            (Diversity::Auto, Some(network)) if matches!(network.takes(), dnn::Takes::Tokens(_)) => Diversity::Input,
            (Diversity::Auto, Some(network)) => {
                let preferred = preferred(network, &**costs.ok_or_else(|| needs_costs("policy"))?, self.max_batch);
                let small = preferred.iter().any(|batch| *batch <= self.max_batch / 8);
                let large = preferred.iter().any(|batch| *batch > self.max_batch / 2);
                if small && large { Diversity::OperatorLoad } else { Diversity::Load }
            }
            (chosen, _) => chosen,
        })
    }
}

/// The smallest batch at which each operator fills the device, up to a largest, at the most tokens that the network takes.
fn preferred(network: &Dnn, costs: &dyn CostModel, largest: u32) -> Vec<u32> {
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

/// A time with a unit, or `"auto"`.
mod auto_time {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use super::time_with_unit;
    use crate::units::Nanos;

    pub fn serialize<S: Serializer>(time: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => time_with_unit::serialize(time, serializer),
            None => serializer.serialize_str("auto"),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "auto" => Ok(None),
            text => {
                Nanos::parse(text).map(Some).map_err(|problem| de::Error::custom(format!("{problem}; or \"auto\"")))
            }
        }
    }
}
