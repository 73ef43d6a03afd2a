//! Random scenarios, each with other features.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum as _;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use toml::de::DeTable;

use super::faults::Fault;
use crate::base::error::{Error, Result};
use crate::core::conformance::case::{draw_model, draw_shape};
use crate::core::cost::CostModel;
use crate::core::cost::table::{CostTable, Overhead};
use crate::core::policy::registry::{Registry, Setup};
use crate::core::workload::arrivals::LAST_ARRIVAL;
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::core::workload::operator::catalogue::Catalogue;
use crate::core::workload::random::{self, RandomSequence};

/// A scenario, the files beside it by their names, and the faults of its device.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub scenario: toml::Table,
    /// As lines, of which the first is a heading. Those of the trace lack their ids.
    pub files: BTreeMap<&'static str, Vec<String>>,
    pub faults: Vec<Fault>,
}

pub(super) const TRACE: &str = "trace.csv";

impl Case {
    /// Writes the files into a folder, and returns the scenario's.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text)
                .map_err(|cause| Error::unwritable(&path, &cause))
                .map(|()| path)
        };
        fs::create_dir_all(folder).map_err(|cause| Error::unwritable(folder, &cause))?;
        for (name, lines) in &self.files {
            let line = |(number, line): (usize, &String)| match (*name, number) {
                (TRACE, 0) => format!("id,{line}\n"),
                (TRACE, _) => format!("{},{line}\n", number - 1),
                _ => format!("{line}\n"),
            };
            write(name, lines.iter().enumerate().map(line).collect())?;
        }
        write("swarm.toml", self.scenario.to_string())
    }

    pub fn draw(seed: u64, registry: &Registry) -> Case {
        let grammar = include_str!("grammar.toml")
            .parse()
            .expect("the grammar is TOML");
        let mut text = Text {
            rules: grammar,
            random: random::sequence(seed, 0, "swarm"),
        };
        let number = text.random.random();
        let (model, file) = match number / 10 % 7 {
            0 => (Model::Llm(None), None),
            _ => draw_model(number, &mut text.random),
        };
        let model = if model == Model::Lstm && text.happens(50) {
            Model::Gru
        } else {
            model
        };
        let costs = costs(&model, &mut text);
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let mut files = BTreeMap::from([("costs.csv", lines(&costs))]);
        if let Some(file) = file {
            files.insert(
                if model.graph_model().is_some() {
                    "graph.json"
                } else {
                    "network.csv"
                },
                lines(&file),
            );
        }
        let (name, with_classes) = (model.name(), text.happens(30));
        let mut scenario =
            format!("name = 'swarm'\nseed = {seed}\n[workload]\nmodel = '{name}'\nhidden = 8\n");
        match text
            .rule(&format!("dataset {name}"))
            .filter(|_| text.happens(40))
        {
            Some(dataset) => {
                scenario += &format!("dataset = '{dataset}'\n{}", text.expand("<drawn>"))
            }
            None => {
                let of_requests = with_classes && text.happens(50);
                files.insert(TRACE, trace(&model, of_requests, &mut text.random));
                scenario += &format!("trace = '{TRACE}'\n{}", text.expand("<traced>"));
            }
        }
        let kv_tokens = if name == "llm" {
            text.random.random_range(10..200)
        } else {
            0
        };
        scenario += &match &*name {
            "lstm" => text.expand("<device lstm>"),
            "llm" => format!(
                "[device]\nkv_tokens = {kv_tokens}\n{}",
                text.expand("<device llm>")
            ),
            _ => text.expand("<device>"),
        };
        if scenario.contains("noise.csv") {
            files.insert("noise.csv", noise(&mut text));
        }
        scenario += &text.expand(if with_classes { "<classes>" } else { "" });
        scenario += &policies(&model, &costs, kv_tokens, registry, &mut text);
        let faults = Fault::value_variants()
            .iter()
            .copied()
            .filter(|_| text.happens(20))
            .collect();
        let scenario = scenario
            .parse()
            .unwrap_or_else(|error| panic!("not valid TOML: {error}\n{scenario}"));
        Case {
            scenario,
            files,
            faults,
        }
    }
}

/// Draws texts by the rules of the grammar.
struct Text {
    rules: toml::Table,
    random: RandomSequence,
}

impl Text {
    fn happens(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    fn rule(&mut self, name: &str) -> Option<String> {
        let choice = self
            .rules
            .get(name)?
            .as_array()?
            .choose(&mut self.random)?
            .as_str()?
            .to_string();
        Some(self.expand(&choice))
    }

    fn expand(&mut self, text: &str) -> String {
        let Some((before, rest)) = text.split_once('<') else {
            return text.to_string();
        };
        let (symbol, rest) = rest.split_once('>').expect("a symbol ends");
        let bounds = symbol
            .split_once('-')
            .and_then(|(from, to)| Some((from.parse().ok()?, to.parse::<u64>().ok()?)));
        let (name, percent) = symbol.split_once('?').unwrap_or((symbol, "100"));
        let drawn = match bounds {
            Some((from, to)) => self.random.random_range(from..=to).to_string(),
            None if self.happens(percent.parse().expect("a number")) => {
                self.rule(name).expect("a rule")
            }
            None => String::new(),
        };
        format!("{before}{drawn}{}", self.expand(rest))
    }
}

fn costs(model: &Model, text: &mut Text) -> String {
    let mut rows = String::from("cell,batch,ns\n");
    let scale: u64 = *[1, 1, 1, 1, 1, 0, 1 << 40, 1 << 50]
        .choose(&mut text.random)
        .expect("there are scales");
    if matches!(model, Model::Llm(_)) {
        rows = String::from("cell,tokens,context,ns\n");
        for (tokens, context) in [(1, 0), (64, 0), (1, 256), (64, 256)] {
            let ns = text.random.random_range(1..100) * (3 + tokens + context / 8) * scale;
            let _ = writeln!(rows, "iteration,{tokens},{context},{ns}");
        }
        return rows;
    }
    for cell in model.cell_types() {
        for batch in [1, 4, 16] {
            let _ = writeln!(
                rows,
                "{},{batch},{}",
                cell.name,
                text.random.random_range(1..100) * (3 + batch) * scale
            );
        }
    }
    rows + &text.expand("<extras>")
}

/// Bursts, gaps of about a task and long silences; all at one instant; times at the limits of the clock.
fn trace(model: &Model, classes: bool, rng: &mut RandomSequence) -> Vec<String> {
    let mut clock: u64 = match rng.random_range(0..20) {
        0..2 => LAST_ARRIVAL.0 - rng.random_range(0..300_000),
        2 => u64::MAX - rng.random_range(0..9_000),
        _ => 0,
    };
    let gaps = *[[0, 0], [0, 300], [0, 5_000], [300, 5_000], [300, 1 << 56]]
        .choose(rng)
        .expect("there are gaps");
    let mut lines = vec![format!(
        "arrival_ns,shape{}",
        if classes { ",class" } else { "" }
    )];
    for _ in 0..rng.random_range(1..60) {
        let gap = gaps[rng.random_range(0..2)];
        clock = clock.saturating_add(rng.random_range(0..=gap));
        let class = if classes {
            [",a", ",b"][rng.random_range(0..2)]
        } else {
            ""
        };
        lines.push(format!("{clock},{}{class}", draw_shape(model, rng)));
    }
    lines
}

/// Tasks as short as those of the case and up to pauses of seconds, in stretches.
fn noise(text: &mut Text) -> Vec<String> {
    let mut clock: u64 = 0;
    let mut lines = vec!["time_ns,size,factor,ns".to_string()];
    for _ in 0..text.random.random_range(1..30) {
        let took: u64 = text.expand("<took>").parse().expect("a number");
        lines.push(text.expand(&format!("{clock},1,<factor>,{took}")));
        clock += took + if text.happens(20) { 1 << 30 } else { 0 };
    }
    lines
}

/// Up to three that serve the model.
fn policies(
    model: &Model,
    costs: &str,
    kv_tokens: u64,
    registry: &Registry,
    text: &mut Text,
) -> String {
    let iterates = |kind: &str| {
        DeTable::parse("").is_ok_and(|keys| {
            registry
                .parse(kind, keys)
                .is_ok_and(|settings| settings.iterates())
        })
    };
    let is_llm = matches!(model, Model::Llm(_));
    let kinds: Vec<&str> = registry
        .kinds()
        .filter(|kind| iterates(kind) == is_llm)
        .collect();
    let cells = model.cell_types();
    let operators = Catalogue::new(model, &Sizes::square(8));
    let device = CostTable::parse(costs, "costs")
        .and_then(|table| {
            table.with_kv_tokens(Some(kv_tokens)).device_with(
                &cells,
                &operators,
                Overhead::default(),
            )
        })
        .map(|device| Arc::new(device) as Arc<dyn CostModel>);
    let setup = Setup {
        model,
        cells: &cells,
        workers: 1,
        costs: device.as_ref().ok(),
        longest: Some(99),
    };
    let serves = |kind: &str, keys: &str| {
        registry
            .parse(kind, DeTable::parse(keys).ok()?)
            .ok()?
            .build(&setup)
            .ok()
    };
    let mut tables = String::new();
    // Most kinds serve few models.
    for attempt in 0..20 {
        let Some(kind) = kinds.choose(&mut text.random) else {
            break;
        };
        let mut keys = String::new();
        for key in registry.keys(kind).expect("it is registered") {
            let value = text
                .rule(&format!("{kind} {key}"))
                .or_else(|| text.rule(key));
            if let Some(value) = value.filter(|_| text.happens(40)) {
                let _ = writeln!(keys, "{key} = {value}");
            }
        }
        if serves(kind, &keys).is_some() {
            let _ = write!(
                tables,
                "[[policy]]\nkind = '{kind}'\nlabel = '{attempt}'\n{keys}"
            );
            if text.happens(50) {
                break;
            }
        }
    }
    tables
}
