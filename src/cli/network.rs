//! `batchlab network`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{find, render};
use crate::base::error::{Context, Error, Result, refuse_if};
use crate::base::precision::Precision;
use crate::base::shipped::Shipped;
use crate::base::units::Nanos;
use crate::core::cost::roofline::Roofline;
use crate::core::cost::slice;
use crate::core::cost::table::{CostTable, Overhead, TableCosts};
use crate::core::workload::dnn::{Dnn, FormKind, ListedOperator, QueryWork};
use crate::core::workload::model::Model;
use crate::core::workload::operator::Sizes;
use crate::lab::results::table::align;
use crate::lab::scenario::parse_name;

/// Show a network's operators: shapes, times by batch size on a device, preferred batches, and stages
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The network, a CSV file of operators (docs/NETWORKS.md), or a built-in one such as bert-base
    network: PathBuf,
    /// Show the times on this device, a TOML file or a built-in one: h200, titan-rtx, titan-v or v100
    #[arg(long, value_name = "DEVICE")]
    roofline: Option<PathBuf>,
    #[arg(long, help = format!("The precision of the device's arithmetic: {}", Precision::ALL.map(|one| one.to_string()).join(", ")),
          default_value = "f32", value_parser = parse_name::<Precision>)]
    precision: Precision,
    /// A cost table, whose rows replace the times computed for the device
    #[arg(long, value_name = "TABLE")]
    costs: Option<PathBuf>,
    /// The batch sizes to show
    #[arg(long = "batches", alias = "batch", value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64], value_parser = clap::value_parser!(u32).range(1..))]
    batch: Vec<u32>,
    /// Tokens of each query [default: the most that the network takes]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    /// Slice the network into N stages of even time, at the largest batch size that is shown
    #[arg(long, value_name = "N")]
    stages: Option<usize>,
    /// Slice the network before these operators
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        conflicts_with = "stages"
    )]
    at: Vec<String>,
    /// Slice the network where the preferred batch falls from above BATCH to at most BATCH
    #[arg(long, value_name = "BATCH", conflicts_with_all = ["stages", "at"])]
    preferred: Option<u32>,
    #[command(flatten)]
    shown: render::Shown,
}

pub fn run(args: &Args) -> Result<()> {
    let given = args.network.display().to_string();
    let file = find(Shipped::Network, &args.network, false)?;
    let network = Arc::new(Dnn::read(&given, &file).map_err(Error::input)?);
    let tokens = tokens(args, &network)?;
    let model = Model::Network(Arc::clone(&network));
    let roofline =
        |device: &PathBuf| Roofline::read(&find(Shipped::Device, device, false)?, args.precision);
    let device = args
        .roofline
        .as_ref()
        .map(roofline)
        .transpose()?
        .map(Arc::new);
    let costs = costs(args, &model, device.as_ref())?;
    let sizes = args
        .batch
        .iter()
        .flat_map(|batch| costs.iter().map(move |costs| (*batch, costs)));
    let times = sizes
        .map(|(batch, costs)| (batch, slice::times(&network, costs, batch, tokens)))
        .collect();
    let view = NetworkView {
        args,
        network: &network,
        tokens,
        times,
        costs,
    };
    let stages = view.stages()?;
    args.shown.show(
        || view.table(&stages),
        || view.json(device.as_deref(), &stages),
    )
}

/// The tokens of a query, or 0 for requests of one fixed size.
fn tokens(args: &Args, network: &Dnn) -> Result<u32> {
    match (network.most_tokens, args.tokens) {
        (most, Some(tokens)) if tokens > most.unwrap_or(0) => {
            let takes = most.map_or("requests of a fixed size".into(), |most| {
                format!("up to {most}")
            });
            Err(Error::input(format!(
                "--tokens {tokens}: {} takes {takes}",
                args.network.display()
            )))
        }
        (most, tokens) => Ok(tokens.or(most).unwrap_or(0)),
    }
}

/// The simulator's times, or `None` without a device and a cost table.
fn costs(args: &Args, model: &Model, device: Option<&Arc<Roofline>>) -> Result<Option<TableCosts>> {
    let table = match &args.costs {
        None if device.is_none() => return Ok(None),
        None => CostTable::empty(),
        Some(file) => CostTable::read(&find(Shipped::Costs, file, false)?)?,
    };
    let table = match device {
        // The sizes have no effect: the network's file defines all of them.
        Some(device) => table.or_computed(device, model, &Sizes::square(1))?,
        None => table,
    };
    table
        .costs_for(&model.cell_types(), Overhead::default())
        .map(Some)
}

struct NetworkView<'a> {
    args: &'a Args,
    network: &'a Dnn,
    tokens: u32,
    costs: Option<TableCosts>,
    /// The batch sizes with the times of the operators. Empty without a device and a cost table.
    times: Vec<(u32, Vec<Nanos>)>,
}

impl NetworkView<'_> {
    fn stages(&self) -> Result<Vec<Range<usize>>> {
        let Args {
            stages,
            at,
            preferred,
            ..
        } = self.args;
        if let Some(count) = stages {
            self.require_times("--stages")?;
            let (_, times) = self
                .times
                .iter()
                .max_by_key(|(batch, _)| *batch)
                .expect("there is a batch");
            slice::even(times, *count)
                .map_err(Error::input)
                .within("--stages")
        } else if let Some(threshold) = preferred {
            self.require_times("--preferred")?;
            let preferred: Vec<u32> = self
                .network
                .operators()
                .filter_map(|one| self.preferred_batch(one))
                .collect();
            Ok(slice::stages_by_preferred_batch(&preferred, *threshold))
        } else if at.is_empty() {
            Ok(Vec::new())
        } else {
            let names: Vec<&str> = at.iter().map(String::as_str).collect();
            slice::stages_by_name(self.network, &names)
                .map_err(Error::input)
                .within("--at")
        }
    }

    fn require_times(&self, option: &str) -> Result<()> {
        refuse_if(self.costs.is_none(), || {
            Error::input(format!(
                "{option}: needs the times of operators; name a device (--roofline) or a cost table (--costs)"
            ))
        })
    }

    /// The preferred batch of an operator, or `None` without times.
    fn preferred_batch(&self, operator: &ListedOperator) -> Option<u32> {
        let input = self.network.input(operator, self.tokens);
        self.costs
            .as_ref()
            .map(|costs| costs.preferred_batch(operator.cell, input).unwrap_or(1))
    }

    /// The sum of the times of these operators, for each batch size.
    fn times(&self, operators: &Range<usize>) -> impl Iterator<Item = (u32, Nanos)> {
        self.times
            .iter()
            .map(|(batch, times)| (*batch, times[operators.clone()].iter().copied().sum()))
    }

    /// A line of a table: texts, then the times of these operators.
    fn line<T: ToString>(&self, texts: &[T], operators: &Range<usize>) -> Vec<String> {
        let mut line: Vec<String> = texts.iter().map(ToString::to_string).collect();
        for (_, time) in self.times(operators) {
            line.push(format!("{:.1}", time.0 as f64 / 1e3));
        }
        line
    }

    /// A line of headings, the last ones for times.
    fn headings(&self, names: &[&str]) -> Vec<String> {
        let mut headings: Vec<String> = names.iter().map(ToString::to_string).collect();
        for (batch, _) in &self.times {
            headings.push(format!("µs at {batch}"));
        }
        headings
    }

    /// The multiply-adds of one query, and the number of weights.
    fn totals(&self) -> (u128, u128) {
        let macs = self
            .network
            .operators()
            .map(|operator| operator.form.work(self.tokens).flops(1) / 2)
            .sum();
        let weights = self
            .network
            .distinct()
            .iter()
            .map(|operator| operator.form.work(self.tokens).weights())
            .sum();
        (macs, weights)
    }

    fn table(&self, stages: &[Range<usize>]) -> String {
        let names = [
            "operator",
            "kind",
            "for one query",
            "MMAC",
            "elements",
            "preferred",
        ];
        let mut lines = vec![self.headings(&names[..if self.costs.is_some() { 6 } else { 5 }])];
        for (place, operator) in self.network.operators().enumerate() {
            let work = operator.form.work(self.tokens);
            let mut texts = vec![
                operator.name.clone(),
                work.kind.name().into(),
                products(&work),
            ];
            texts.extend([
                format_millions(work.flops(1) / 2),
                work.elements.to_string(),
            ]);
            texts.extend(
                self.preferred_batch(operator)
                    .map(|batch| batch.to_string()),
            );
            lines.push(self.line(&texts, &(place..place + 1)));
        }
        let all = 0..self.network.operators().len();
        let (macs, weights) = self.totals();
        if self.costs.is_some() {
            lines.push(self.line(&["all", "", "", &format_millions(macs), "", ""], &all));
        }
        let of_tokens = if self.tokens > 0 {
            format!(" for {} tokens", self.tokens)
        } else {
            String::new()
        };
        let text = format!(
            "{}\n{} operators, {:.3} G multiply-adds{of_tokens}, {:.3} M weights\n",
            align(&lines),
            all.len(),
            macs as f64 / 1e9,
            weights as f64 / 1e6
        );
        if stages.is_empty() {
            return text;
        }
        let mut lines = vec![self.headings(&["stage", "operators", "from", "to"])];
        for (number, stage) in (1..).zip(stages) {
            let [first, last] = self.ends(stage);
            lines.push(self.line(
                &[&format!("{number}"), &stage.len().to_string(), first, last],
                stage,
            ));
        }
        text + "\n" + &align(&lines)
    }

    fn ends(&self, stage: &Range<usize>) -> [&str; 2] {
        [stage.start, stage.end - 1].map(|place| {
            let operator = self.network.operators().nth(place);
            &*operator.expect("the stage is one of the network's").name
        })
    }

    fn json(&self, device: Option<&Roofline>, stages: &[Range<usize>]) -> Value {
        let times = |operators: &Range<usize>| -> Option<Value> {
            let times = self
                .times(operators)
                .map(|(batch, time)| (batch.to_string(), json!(time)));
            self.costs.is_some().then(|| times.collect())
        };
        let operator = |(place, operator): (usize, &ListedOperator)| {
            let QueryWork {
                kind,
                count,
                rows,
                inner,
                columns,
                elements,
            } = operator.form.work(self.tokens);
            json!({
                "name": operator.name,
                "kind": kind.name(),
                "count": count,
                "rows": rows,
                "inner": inner,
                "columns": columns,
                "elements": elements,
                "preferred_batch": self.preferred_batch(operator),
                "times_ns": times(&(place..place + 1)),
            })
        };
        let stage = |stage: &Range<usize>| {
            let [first, last] = self.ends(stage);
            json!({ "from": first, "to": last, "operators": stage.len(), "times_ns": times(stage) })
        };
        let (macs, weights) = self.totals();
        json!({
            "network": self.network.given,
            "device": device.map(|device| &device.name),
            "precision": device.map(|_| self.args.precision),
            "tokens": (self.tokens > 0).then_some(self.tokens),
            "multiply_adds": macs as u64,
            "weights": weights as u64,
            "times_ns": times(&(0..self.network.operators().len())),
            "operators": self.network.operators().enumerate().map(operator).collect::<Vec<_>>(),
            "stages": stages.iter().map(stage).collect::<Vec<_>>(),
        })
    }
}

fn format_millions(macs: u128) -> String {
    format!("{:.2}", macs as f64 / 1e6)
}

/// The products of one query, such as `12 x [128, 64] x [64, 128]`.
fn products(work: &QueryWork) -> String {
    let QueryWork {
        kind,
        count,
        rows,
        inner,
        columns,
        ..
    } = work;
    let product = format!("[{rows}, {inner}] x [{inner}, {columns}]");
    match (kind, count) {
        (FormKind::Memory, _) => String::new(),
        (_, 1) => product,
        _ => format!("{count} x {product}"),
    }
}
