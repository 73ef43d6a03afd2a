//! `batchlab network`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Format;
use crate::cost::CostModel;
use crate::cost::roofline::Roofline;
use crate::cost::slice;
use crate::cost::table::{CostTable, Overhead, TableModel};
use crate::error::{Error, Result};
use crate::gpu_settings::Precision;
use crate::results::table::aligned;
use crate::scenario::gpu;
use crate::task::Step;
use crate::units::Nanos;
use crate::workload::dnn::{Dnn, Kind, Operator, Work};
use crate::workload::model::Model;
use crate::workload::operator::Sizes;

/// Show a network's operators: shapes, times by batch size on a device, preferred batches, and stages
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The network, a CSV file of operators (docs/NETWORKS.md)
    network: PathBuf,
    /// Show the times on this device, a TOML file such as scenarios/devices/titan-rtx.toml
    #[arg(long, value_name = "DEVICE")]
    roofline: Option<PathBuf>,
    /// The precision of the device's arithmetic: f32, tf32, bf16 or f16
    #[arg(long, default_value = "f32", value_parser = |name: &str| gpu::parse(&gpu::precisions(), name))]
    precision: Precision,
    /// A cost table, whose rows replace the times computed for the device
    #[arg(long, value_name = "TABLE")]
    costs: Option<PathBuf>,
    /// The batch sizes to show
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64], value_parser = clap::value_parser!(u32).range(1..))]
    batch: Vec<u32>,
    /// Tokens of each query [default: the most that the network takes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    /// Slice the network into N stages of even time, at the largest batch size that is shown
    #[arg(long, value_name = "N")]
    stages: Option<usize>,
    /// Slice the network before these operators
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "stages")]
    at: Vec<String>,
    /// Slice the network where the preferred batch falls from above BATCH to at most BATCH
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["stages", "at"])]
    preferred: Option<u32>,
    /// How the network is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

pub fn run(args: &Args) -> Result<()> {
    let given = args.network.display().to_string();
    let network = Arc::new(Dnn::read(&given, &args.network).map_err(Error::input)?);
    let tokens = tokens(args, &network)?;
    let model = Model::Network(Arc::clone(&network));
    let device = args.roofline.as_ref().map(|file| Roofline::read(file, args.precision)).transpose()?.map(Arc::new);
    let costs = costs(args, &model, device.as_ref())?;
    let shown = Shown { args, network: &network, tokens, costs };
    let stages = shown.stages()?;
    args.format.show(|| shown.table(&stages), || shown.json(device.as_deref(), &stages))
}

/// 0 for requests of one fixed size.
fn tokens(args: &Args, network: &Dnn) -> Result<u32> {
    match (network.most_tokens(), args.tokens) {
        (None, Some(tokens)) => {
            Err(Error::input(format!("--tokens {tokens}: {} takes requests of a fixed size", args.network.display())))
        }
        (Some(most), Some(tokens)) if tokens > most => {
            Err(Error::input(format!("--tokens {tokens}: {} takes up to {most}", args.network.display())))
        }
        (most, tokens) => Ok(tokens.or(most).unwrap_or(0)),
    }
}

/// The simulator's times; `None` without a device and a cost table.
fn costs(args: &Args, model: &Model, device: Option<&Arc<Roofline>>) -> Result<Option<TableModel>> {
    let table = match (&args.costs, device) {
        (None, None) => return Ok(None),
        (Some(file), _) => CostTable::read(file)?,
        (None, Some(_)) => CostTable::empty(),
    };
    let table = match device {
        // Unused: the file defines all sizes.
        Some(device) => table.or_computed(device, model, &Sizes::square(1))?,
        None => table,
    };
    table.device(&model.cell_types(), Overhead::default()).map(Some)
}

struct Shown<'a> {
    args: &'a Args,
    network: &'a Dnn,
    tokens: u32,
    costs: Option<TableModel>,
}

impl Shown<'_> {
    fn stages(&self) -> Result<Vec<Range<usize>>> {
        let needs = |option: &str| {
            Error::input(format!(
                "{option}: needs the times of operators; name a device (--roofline) or a cost table (--costs)"
            ))
        };
        let Args { stages, at, preferred, batch, .. } = self.args;
        match (stages, at.as_slice(), preferred) {
            (Some(count), ..) => {
                let costs = self.costs.as_ref().ok_or_else(|| needs("--stages"))?;
                let largest = batch.iter().copied().max().unwrap_or(1);
                let times = slice::times(self.network, costs, largest, self.tokens);
                slice::even(&times, *count).map_err(|problem| Error::input(format!("--stages: {problem}")))
            }
            (_, _, Some(threshold)) => {
                let costs = self.costs.as_ref().ok_or_else(|| needs("--preferred"))?;
                let preferred: Vec<u32> =
                    self.network.operators().map(|operator| self.preferred(costs, operator)).collect();
                Ok(slice::by_preferred(&preferred, *threshold))
            }
            (_, [], _) => Ok(Vec::new()),
            (_, names, _) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                slice::at(self.network, &names).map_err(|problem| Error::input(format!("--at: {problem}")))
            }
        }
    }

    fn preferred(&self, costs: &TableModel, operator: &Operator) -> u32 {
        costs.preferred(operator.cell, self.network.input(operator, self.tokens)).unwrap_or(1)
    }

    fn time(&self, costs: &TableModel, operator: &Operator, batch: u32) -> Nanos {
        let input = self.network.input(operator, self.tokens);
        costs.cell(&Step { cell: operator.cell, batch, times: 1, input })
    }

    fn times(&self, costs: &TableModel, operators: Range<usize>) -> Vec<Nanos> {
        let of_range = |batch: &u32| {
            let operators = self.network.operators().skip(operators.start).take(operators.len());
            operators.map(|operator| self.time(costs, operator, *batch)).sum()
        };
        self.args.batch.iter().map(of_range).collect()
    }

    /// Multiply-adds of one query, and weights.
    fn totals(&self) -> (u128, u128) {
        let macs = self.network.operators().map(|operator| operator.form.at(self.tokens).flops(1) / 2).sum();
        (macs, self.network.distinct().iter().map(|operator| operator.form.at(self.tokens).weights()).sum())
    }

    fn table(&self, stages: &[Range<usize>]) -> String {
        let mut header =
            vec!["operator".to_string(), "kind".into(), "for one query".into(), "MMAC".into(), "elements".into()];
        if self.costs.is_some() {
            header.push("preferred".into());
            header.extend(self.args.batch.iter().map(|batch| format!("µs at {batch}")));
        }
        let mut lines = vec![header];
        let micros = |time: Nanos| format!("{:.1}", time.0 as f64 / 1e3);
        for operator in self.network.operators() {
            let work = operator.form.at(self.tokens);
            let macs = format!("{:.2}", work.flops(1) as f64 / 2e6);
            let mut line = vec![
                operator.name.clone(),
                operator.form.kind.name().into(),
                products(&work),
                macs,
                work.elements.to_string(),
            ];
            if let Some(costs) = &self.costs {
                line.push(self.preferred(costs, operator).to_string());
                line.extend(self.args.batch.iter().map(|batch| micros(self.time(costs, operator, *batch))));
            }
            lines.push(line);
        }
        let all = 0..self.network.operators().len();
        let (macs, weights) = self.totals();
        if let Some(costs) = &self.costs {
            let mut line: Vec<String> = ["all", "", "", "", "", ""].map(String::from).to_vec();
            line[3] = format!("{:.2}", macs as f64 / 1e6);
            line.extend(self.times(costs, all.clone()).into_iter().map(micros));
            lines.push(line);
        }
        let mut text = aligned(&lines);
        let of_tokens = if self.tokens > 0 { format!(" for {} tokens", self.tokens) } else { String::new() };
        text.push_str(&format!(
            "\n{} operators, {:.3} G multiply-adds{of_tokens}, {:.3} M weights\n",
            all.len(),
            macs as f64 / 1e9,
            weights as f64 / 1e6
        ));
        if !stages.is_empty() {
            let mut lines = vec![["stage", "operators", "from", "to"].map(String::from).to_vec()];
            if self.costs.is_some() {
                lines[0].extend(self.args.batch.iter().map(|batch| format!("µs at {batch}")));
            }
            for (number, stage) in (1..).zip(stages) {
                let [first, last] = self.ends(stage);
                let mut line = vec![format!("{number}"), stage.len().to_string(), first, last];
                if let Some(costs) = &self.costs {
                    line.extend(self.times(costs, stage.clone()).into_iter().map(micros));
                }
                lines.push(line);
            }
            text.push('\n');
            text.push_str(&aligned(&lines));
        }
        text
    }

    fn ends(&self, stage: &Range<usize>) -> [String; 2] {
        let name = |place| self.network.operators().nth(place).expect("the stage is one of the network's").name.clone();
        [name(stage.start), name(stage.end - 1)]
    }

    fn json(&self, device: Option<&Roofline>, stages: &[Range<usize>]) -> Value {
        let by_batch = |times: Vec<Nanos>| -> Value {
            self.args
                .batch
                .iter()
                .zip(times)
                .map(|(batch, time)| (batch.to_string(), json!(time)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let costs = self.costs.as_ref();
        let operator = |(place, operator): (usize, &Operator)| {
            let Work { kind, count, rows, inner, columns, elements } = operator.form.at(self.tokens);
            json!({
                "name": operator.name,
                "kind": kind.name(),
                "count": count,
                "rows": rows,
                "inner": inner,
                "columns": columns,
                "elements": elements,
                "preferred_batch": costs.map(|costs| self.preferred(costs, operator)),
                "times_ns": costs.map(|costs| by_batch(self.times(costs, place..place + 1))),
            })
        };
        let stage = |stage: &Range<usize>| {
            let [first, last] = self.ends(stage);
            json!({
                "from": first,
                "to": last,
                "operators": stage.len(),
                "times_ns": costs.map(|costs| by_batch(self.times(costs, stage.clone()))),
            })
        };
        let (macs, weights) = self.totals();
        let all = 0..self.network.operators().len();
        json!({
            "network": self.network.given(),
            "device": device.map(Roofline::name),
            "precision": device.map(|_| self.args.precision.name()),
            "tokens": (self.tokens > 0).then_some(self.tokens),
            "multiply_adds": macs as u64,
            "weights": weights as u64,
            "times_ns": costs.map(|costs| by_batch(self.times(costs, all))),
            "operators": self.network.operators().enumerate().map(operator).collect::<Vec<_>>(),
            "stages": stages.iter().map(stage).collect::<Vec<_>>(),
        })
    }
}

/// Of one query: `12 x [128, 64] x [64, 128]`.
fn products(work: &Work) -> String {
    let Work { kind, count, rows, inner, columns, .. } = work;
    let product = format!("[{rows}, {inner}] x [{inner}, {columns}]");
    match (kind, count) {
        (Kind::Memory, _) => String::new(),
        (_, 1) => product,
        _ => format!("{count} x {product}"),
    }
}
