//! Random scenarios, each with other features.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use batchlab::conformance::case::{draw_model, draw_shape};
use batchlab::cost::CostModel;
use batchlab::cost::table::{CostTable, Overhead};
use batchlab::error::{Error, Result};
use batchlab::policy::registry::{Registry, Setup};
use batchlab::workload::arrivals::LAST_ARRIVAL;
use batchlab::workload::model::Model;
use batchlab::workload::operator::Sizes;
use batchlab::workload::operator::catalogue::Catalogue;
use batchlab::workload::random::{self, RandomSequence};
use clap::ValueEnum as _;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use toml::de::DeTable;

use crate::faults::Fault;

/// A scenario, the files that it names, and the faults of its device.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: toml::Table,
    /// The lines of each file, by its name. The first line is a heading; the trace lacks the column of ids.
    pub files: BTreeMap<&'static str, Vec<String>>,
    pub faults: Vec<Fault>,
}

const TRACE: &str = "trace.csv";

impl Case {
    /// Writes the files into a folder, and returns the path of the scenario.
    pub fn write(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder).map_err(|cause| Error::unwritable(folder, &cause))?;
        for (name, lines) in &self.files {
            let mut text = String::new();
            for (number, line) in lines.iter().enumerate() {
                if *name == TRACE && number == 0 {
                    text += "id,";
                } else if *name == TRACE {
                    let _ = write!(text, "{},", number - 1);
                }
                text += line;
                text.push('\n');
            }
            write_file(&folder.join(name), text)?;
        }
        let scenario = folder.join("swarm.toml");
        write_file(&scenario, self.scenario.to_string())?;
        Ok(scenario)
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
        let (mut model, file) = match number / 10 % 7 {
            0 => (Model::Llm(None), None),
            _ => draw_model(number, &mut text.random),
        };
        if model == Model::Lstm && text.happens(50) {
            model = Model::Gru;
        }
        let costs = draw_costs(&model, &mut text);
        let mut files = BTreeMap::from([("costs.csv", to_lines(&costs))]);
        if let Some(file) = file {
            let file_name = if model.graph_model().is_some() {
                "graph.json"
            } else {
                "network.csv"
            };
            files.insert(file_name, to_lines(&file));
        }
        let name = model.name();
        let with_classes = text.happens(30);
        let mut scenario =
            format!("name = 'swarm'\nseed = {seed}\n[workload]\nmodel = '{name}'\nhidden = 8\n");
        let dataset = text.rule(&format!("dataset {name}"));
        match dataset.filter(|_| text.happens(40)) {
            Some(dataset) => {
                scenario += &format!("dataset = '{dataset}'\n{}", text.expand("<drawn>"));
            }
            None => {
                let has_class_column = with_classes && text.happens(50);
                let trace = draw_trace(&model, has_class_column, &mut text.random);
                files.insert(TRACE, trace);
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
            files.insert("noise.csv", draw_noise(&mut text));
        }
        if with_classes {
            scenario += &text.expand("<classes>");
        }
        scenario += &draw_policies(&model, &costs, kv_tokens, registry, &mut text);
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

fn write_file(path: &Path, text: String) -> Result<()> {
    fs::write(path, text).map_err(|cause| Error::unwritable(path, &cause))
}

fn to_lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
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

fn draw_costs(model: &Model, text: &mut Text) -> String {
    let scale: u64 = *[1, 1, 1, 1, 1, 0, 1 << 40, 1 << 50]
        .choose(&mut text.random)
        .expect("there are scales");
    if matches!(model, Model::Llm(_)) {
        let mut rows = String::from("cell,tokens,context,ns\n");
        for (tokens, context) in [(1, 0), (64, 0), (1, 256), (64, 256)] {
            let ns = text.random.random_range(1..100) * (3 + tokens + context / 8) * scale;
            let _ = writeln!(rows, "iteration,{tokens},{context},{ns}");
        }
        return rows;
    }
    let mut rows = String::from("cell,batch,ns\n");
    for cell in model.cell_types() {
        for batch in [1, 4, 16] {
            let ns = text.random.random_range(1..100) * (3 + batch) * scale;
            let _ = writeln!(rows, "{},{batch},{ns}", cell.name);
        }
    }
    rows + &text.expand("<extras>")
}

/// Draws bursts, gaps of about a task and long silences; or all requests at one instant; or times at the limits of the
/// clock.
fn draw_trace(model: &Model, has_class_column: bool, rng: &mut RandomSequence) -> Vec<String> {
    let mut clock: u64 = match rng.random_range(0..20) {
        0..2 => LAST_ARRIVAL.0 - rng.random_range(0..300_000),
        2 => u64::MAX - rng.random_range(0..9_000),
        _ => 0,
    };
    let gaps = *[[0, 0], [0, 300], [0, 5_000], [300, 5_000], [300, 1 << 56]]
        .choose(rng)
        .expect("there are gaps");
    let class_heading = if has_class_column { ",class" } else { "" };
    let mut lines = vec![format!("arrival_ns,shape{class_heading}")];
    for _ in 0..rng.random_range(1..60) {
        let gap = gaps[rng.random_range(0..2)];
        clock = clock.saturating_add(rng.random_range(0..=gap));
        let class = if has_class_column {
            [",a", ",b"][rng.random_range(0..2)]
        } else {
            ""
        };
        lines.push(format!("{clock},{}{class}", draw_shape(model, rng)));
    }
    lines
}

/// Draws stretches of tasks as short as those of the case, with pauses of up to a second, and starts between them.
fn draw_noise(text: &mut Text) -> Vec<String> {
    let mut clock: u64 = 0;
    let mut lines = vec!["time_ns,size,factor,ns,late_ns".to_string()];
    for _ in 0..text.random.random_range(1..30) {
        let took: u64 = text.expand("<took>").parse().expect("a number");
        lines.push(text.expand(&format!("{clock},1,<factor>,{took},")));
        if text.happens(50) {
            let late = text.random.random_range(-(took as i64)..=2 * took as i64);
            lines.push(format!("{clock},1,,{took},{late}"));
        }
        clock += took + if text.happens(20) { 1 << 30 } else { 0 };
    }
    lines
}

/// Draws up to three policies that serve the model.
fn draw_policies(
    model: &Model,
    costs: &str,
    kv_tokens: u64,
    registry: &Registry,
    text: &mut Text,
) -> String {
    let is_llm = matches!(model, Model::Llm(_));
    let kinds: Vec<&str> = registry
        .kinds()
        .filter(|kind| iterates(registry, kind) == is_llm)
        .collect();
    let cells = model.cell_types();
    let operators = Catalogue::new(model, &Sizes::square(8));
    let device = CostTable::parse(costs, "costs")
        .and_then(|table| {
            table.with_kv_tokens(Some(kv_tokens)).costs_for_operators(
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
        if serves(registry, kind, &keys, &setup) {
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

/// Whether policies of a kind serve language models.
fn iterates(registry: &Registry, kind: &str) -> bool {
    DeTable::parse("").is_ok_and(|keys| {
        registry
            .parse(kind, keys)
            .is_ok_and(|settings| settings.iterates())
    })
}

/// Whether a policy with these keys can be built.
fn serves(registry: &Registry, kind: &str, keys: &str, setup: &Setup<'_>) -> bool {
    DeTable::parse(keys).is_ok_and(|keys| {
        registry
            .parse(kind, keys)
            .is_ok_and(|settings| settings.build(setup).is_ok())
    })
}
