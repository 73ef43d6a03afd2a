//! The JSON file of a graph model.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expression::{IndexValues, Linear};
use super::operators;
use super::rule::{self, Need, NodeFamily, UnfoldingRule};
use super::{GivenGraph, GraphCell, Takes, Unfolding};
use crate::base::units::CellId;
use crate::core::workload::cell_graph::{Graph, GraphError, circle};
use crate::core::workload::input::locate;
use crate::core::workload::row_names;

const MAX_BATCH: u32 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    #[serde(rename = "about")]
    _about: Option<String>,
    cells: Vec<GraphCell>,
    unfold: Option<RuleEntry>,
    graphs: Option<Vec<GraphEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    shape: Takes,
    nodes: Vec<FamilyEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyEntry {
    name: String,
    cell: String,
    #[serde(default)]
    over: Map<String, Value>,
    children: Option<Value>,
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphEntry {
    nodes: Vec<String>,
    #[serde(default)]
    edges: Vec<[u32; 2]>,
    /// The weight, which is 1 if it is not given.
    weight: Option<u32>,
}

pub(super) fn parse(text: &str) -> Result<(Vec<GraphCell>, Unfolding), String> {
    let file: ModelFile = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place comes first, as in all messages.
        let problem = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(problem, _)| problem);
        format!("line {}: {problem}", error.line())
    })?;
    let cells = check_cells(file.cells)?;
    let unfolding = match (file.unfold, file.graphs) {
        (Some(rule), None) => Unfolding::Rule(rule_of(&rule, &cells)?),
        (None, Some(graphs)) => Unfolding::Graphs(graphs_of(graphs, &cells)?),
        (Some(_), Some(_)) => {
            return Err(
                "graphs: there is an unfolding rule too; a model has either unfold or graphs"
                    .into(),
            );
        }
        (None, None) => {
            return Err("does not say how requests unfold; it needs unfold (a rule) or graphs (a list of them)".into());
        }
    };
    Ok((cells, unfolding))
}

fn check_cells(mut cells: Vec<GraphCell>) -> Result<Vec<GraphCell>, String> {
    if cells.is_empty() || cells.len() > usize::from(u16::MAX) {
        return Err(format!(
            "cells: {} are listed; a model has from 1 to {}",
            cells.len(),
            u16::MAX
        ));
    }
    for (
        place,
        GraphCell {
            name,
            batches,
            operators,
            ..
        },
    ) in cells.iter().enumerate()
    {
        let at = format!("cells[{place}]");
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(letters) {
            return Err(format!(
                "{at}.name: \"{name}\" is not a name; a name consists of letters, digits, _ and -"
            ));
        }
        row_names::refuse_reserved(name).map_err(|problem| format!("{at}.name: {problem}"))?;
        if cells[..place].iter().any(|cell| cell.name == *name) {
            return Err(format!(
                "{at}.name: a second cell \"{name}\"; names must be unique"
            ));
        }
        let ascends = |i: usize| {
            (1..=MAX_BATCH).contains(&batches[i]) && (i == 0 || batches[i] > batches[i - 1])
        };
        if let Some(wrong) = (0..batches.len()).find(|i| !ascends(*i)) {
            return Err(format!(
                "{at}.batches[{wrong}]: {} is out of place; the sizes ascend, from 1 to {MAX_BATCH}",
                batches[wrong]
            ));
        }
        operators::check(operators, &at)?;
    }
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cells)
}

fn cell_id(name: &str, cells: &[GraphCell]) -> Result<CellId, String> {
    let id = cells
        .iter()
        .position(|cell| cell.name == name)
        .map(|id| CellId(id as u16));
    id.ok_or_else(|| {
        let known: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
        format!(
            "unknown cell \"{name}\"; the file's cells: {}",
            known.join(", ")
        )
    })
}

fn rule_of(entry: &RuleEntry, cells: &[GraphCell]) -> Result<UnfoldingRule, String> {
    if entry.nodes.is_empty() {
        return Err("unfold.nodes: is empty; a rule has at least one family of nodes".into());
    }
    let sizes = rule::sizes(entry.shape);
    let mut families: Vec<NodeFamily> = Vec::with_capacity(entry.nodes.len());
    for (
        place,
        FamilyEntry {
            name,
            cell,
            over,
            children,
            ..
        },
    ) in entry.nodes.iter().enumerate()
    {
        let path = format!("unfold.nodes[{place}]");
        if !is_name(name) {
            return Err(format!("{path}.name: \"{name}\" is not a name; {NAMES}"));
        }
        if families.iter().any(|other| other.name == *name) {
            return Err(format!(
                "{path}.name: a second family \"{name}\"; names must be unique"
            ));
        }
        let cell = cell_id(cell, cells).map_err(locate(format_args!("{path}.cell")))?;
        let (lasts, children) =
            range(over, children.as_ref(), entry.shape).map_err(locate(path))?;
        let indices = over.keys().cloned().collect();
        families.push(NodeFamily {
            name: name.clone(),
            cell,
            indices,
            lasts,
            children,
            needs: Vec::new(),
        });
    }
    for (place, entry) in entry.nodes.iter().enumerate() {
        let need = |(number, text): (usize, &String)| {
            let path = format!("unfold.nodes[{place}].needs[{number}]: \"{text}\"");
            need(text, &families[place], &families, sizes).map_err(locate(path))
        };
        families[place].needs = entry
            .needs
            .iter()
            .enumerate()
            .map(need)
            .collect::<Result<_, _>>()?;
    }
    UnfoldingRule::new(entry.shape, families).map_err(locate("unfold"))
}

type Range = (Vec<Linear>, Option<RangeInclusive<u32>>);

/// The last value of each index and, for a tree, the numbers of children.
fn range(
    over: &Map<String, Value>,
    children: Option<&Value>,
    takes: Takes,
) -> Result<Range, String> {
    if let Some(name) = over.keys().find(|name| !is_name(name) || *name == "root") {
        return Err(format!(
            "over: \"{name}\" is not the name of an index; {NAMES}, and root is reserved"
        ));
    }
    match over.iter().find(|(_, over)| over.as_str() == Some("tree")) {
        Some((name, _)) if takes != Takes::Trees => Err(format!(
            "over.{name}: there is no tree; unfold.shape must be \"tree\""
        )),
        Some(_) if over.len() > 1 => {
            Err("over: an index over a tree must be the only index".into())
        }
        Some(_) => {
            let wanted = children
                .map_or(Ok(0..=u32::MAX), number_of_children)
                .map_err(locate("children"))?;
            // The index has one value for each node of the tree.
            Ok((
                vec![Linear {
                    times: vec![1],
                    constant: 0,
                }],
                Some(wanted),
            ))
        }
        None if children.is_some() => {
            Err("children: needs an index over a tree, as \"over\": { \"v\": \"tree\" }".into())
        }
        None => {
            let last = |(name, last): (&String, &Value)| {
                let text = text_of(last)
                    .ok_or("must be a number, or a sum such as \"N\" or \"S + 1\"".into());
                let last = text.and_then(|text| Linear::parse(&text, rule::sizes(takes)));
                last.map_err(locate(format_args!("over.{name}")))
            };
            Ok((over.iter().map(last).collect::<Result<_, String>>()?, None))
        }
    }
}

/// The text of a number, which may also be given as a text.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// The numbers of children by `2`, `"1.."` or `"2..3"`.
fn number_of_children(given: &Value) -> Result<RangeInclusive<u32>, String> {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let range = text_of(given).and_then(|text| match text.split_once("..") {
        Some((from, "")) => Some(number(from)?..=u32::MAX),
        Some((from, to)) => Some(number(from)?..=number(to)?),
        None => number(&text).map(|n| n..=n),
    });
    range.ok_or_else(|| {
        "must be a number of children, or a range such as \"1..\" or \"2..3\"".into()
    })
}

/// Reads a need: `fwd[i-1]`, `enc[*]`, or a family of one node.
fn need(
    text: &str,
    of: &NodeFamily,
    families: &[NodeFamily],
    sizes: &[&str],
) -> Result<Need, String> {
    let (name, items) = match text
        .trim()
        .strip_suffix(']')
        .map(|open| open.split_once('['))
    {
        Some(Some((name, items))) => (name.trim(), items),
        None if !text.contains('[') => (text.trim(), ""),
        _ => return Err("is not a reference; write FAMILY[INDEX], as fwd[i-1] or enc[*]".into()),
    };
    let family = families
        .iter()
        .position(|known| known.name == name)
        .ok_or_else(|| {
            let known: Vec<&str> = families.iter().map(|known| known.name.as_str()).collect();
            format!("unknown family \"{name}\"; known: {}", known.join(", "))
        })?;
    let items: Vec<&str> = if items.trim().is_empty() {
        Vec::new()
    } else {
        items.split(',').collect()
    };
    let target = &families[family];
    if items.len() != target.indices.len() {
        return Err(format!(
            "has {} indices, but \"{name}\" has {}",
            items.len(),
            target.indices.len()
        ));
    }
    let items = items
        .into_iter()
        .map(|item| IndexValues::parse(item, of, sizes))
        .collect::<Result<Vec<_>, _>>()?;
    for item in &items {
        match (item, target.node()) {
            (IndexValues::Span(..), Some(_)) => {
                return Err(format!(
                    "\"{name}\" ranges over a tree; its indices are v, v.children, v.parent, root or *"
                ));
            }
            (
                IndexValues::Itself
                | IndexValues::Children
                | IndexValues::Parent
                | IndexValues::Root,
                None,
            ) => {
                let what = if *item == IndexValues::Root {
                    "root"
                } else {
                    "a node of a tree"
                };
                return Err(format!(
                    "\"{name}\" does not range over a tree; {what} is not an index of it"
                ));
            }
            _ => {}
        }
    }
    Ok(Need { family, items })
}

const NAMES: &str = "a name consists of small letters, digits and _, and begins with a letter";

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn graphs_of(entries: Vec<GraphEntry>, cells: &[GraphCell]) -> Result<Vec<GivenGraph>, String> {
    if entries.iter().all(|entry| entry.weight == Some(0)) {
        return Err("graphs: no weight is above 0; at least one must be".into());
    }
    let graph =
        |(place, entry)| graph_of(entry, cells).map_err(locate(format_args!("graphs[{place}]")));
    entries.into_iter().enumerate().map(graph).collect()
}

fn graph_of(entry: GraphEntry, cells: &[GraphCell]) -> Result<GivenGraph, String> {
    let mut nodes: Vec<CellId> = Vec::with_capacity(entry.nodes.len());
    for (place, name) in entry.nodes.iter().enumerate() {
        let cell = cell_id(name, cells).map_err(locate(format_args!("nodes[{place}]")))?;
        nodes.push(cell);
    }
    let count = nodes.len();
    let within = |edge: &[u32; 2]| edge.iter().all(|node| (1..=count as u32).contains(node));
    if let Some(place) = entry.edges.iter().position(|edge| !within(edge)) {
        let [from, to] = entry.edges[place];
        return Err(format!(
            "edges[{place}]: [{from}, {to}] leads out of the graph; its nodes are 1 to {count}"
        ));
    }
    let edges: Vec<(u32, u32)> = entry
        .edges
        .iter()
        .map(|[from, to]| (from - 1, to - 1))
        .collect();
    match Graph::new(nodes.clone(), &edges) {
        Ok(_) => Ok(GivenGraph {
            nodes,
            edges,
            weight: entry.weight.unwrap_or(1),
        }),
        Err(GraphError::Empty) => Err("nodes: is empty; a graph has at least one node".into()),
        Err(GraphError::Cycle(cycle)) => Err(format!(
            "edges: nodes need each other: {}",
            circle(&cycle, |node| (node + 1).to_string())
        )),
    }
}
