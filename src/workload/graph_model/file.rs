//! The JSON file of a graph model.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::expression::{Item, Linear, Relative, Scope, Size};
use super::operators::{self, Operator};
use super::rule::{Family, Need, Range, Rule};
use super::{Cell, Given, Takes, Unfolding};
use crate::units::CellId;
use crate::workload::cell_graph::{Graph, GraphError};
use crate::workload::row_names;

const MAX_BATCH: u32 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    #[serde(rename = "about")]
    _about: Option<String>,
    cells: Vec<CellEntry>,
    unfold: Option<RuleEntry>,
    graphs: Option<Vec<GraphEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellEntry {
    name: String,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    batches: Vec<u32>,
    #[serde(default)]
    operators: Vec<Operator>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    shape: ShapeEntry,
    nodes: Vec<FamilyEntry>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ShapeEntry {
    Chain,
    Seq2seq,
    Tree,
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
    #[serde(default = "one")]
    weight: u32,
}

fn one() -> u32 {
    1
}

pub(super) fn parse(text: &str) -> Result<(Vec<Cell>, Unfolding), String> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        // The place comes first, as in all messages.
        let problem = message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem);
        format!("line {}: {problem}", error.line())
    })?;
    let cells = cells(file.cells)?;
    let unfolding = match (file.unfold, file.graphs) {
        (Some(rule), None) => Unfolding::Rule(rule_of(rule, &cells)?),
        (None, Some(graphs)) => Unfolding::Graphs(graphs_of(graphs, &cells)?),
        (Some(_), Some(_)) => {
            return Err("graphs: there is an unfolding rule too; a model has either unfold or graphs".into());
        }
        (None, None) => {
            return Err("does not say how requests unfold; it needs unfold (a rule) or graphs (a list of them)".into());
        }
    };
    Ok((cells, unfolding))
}

fn cells(entries: Vec<CellEntry>) -> Result<Vec<Cell>, String> {
    if entries.is_empty() || entries.len() > usize::from(u16::MAX) {
        return Err(format!("cells: {} are listed; a model has from 1 to {}", entries.len(), u16::MAX));
    }
    let mut cells: Vec<Cell> = Vec::with_capacity(entries.len());
    for (place, entry) in entries.into_iter().enumerate() {
        let CellEntry { name, priority, batches, operators } = entry;
        let at = format!("cells[{place}]");
        cell_name(&name).map_err(|problem| format!("{at}.name: {problem}"))?;
        if cells.iter().any(|cell| cell.name == name) {
            return Err(format!("{at}.name: a second cell \"{name}\"; names must be unique"));
        }
        if let Some(wrong) = (0..batches.len())
            .find(|i| !(1..=MAX_BATCH).contains(&batches[*i]) || (*i > 0 && batches[*i] <= batches[i - 1]))
        {
            return Err(format!(
                "{at}.batches[{wrong}]: {} is out of place; the sizes ascend, from 1 to {MAX_BATCH}",
                batches[wrong]
            ));
        }
        operators::check(&operators, &at)?;
        cells.push(Cell { name, priority, batches, operators });
    }
    cells.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cells)
}

fn cell_name(name: &str) -> Result<(), String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match () {
        () if name.is_empty() || !name.chars().all(letters) => {
            Err(format!("\"{name}\" is not a name; a name consists of letters, digits, _ and -"))
        }
        () if row_names::RESERVED.contains(&name) => Err(format!(
            "\"{name}\" is an overhead in cost tables; reserved names are {}",
            row_names::RESERVED.join(", ")
        )),
        () => Ok(()),
    }
}

fn cell_id(name: &str, cells: &[Cell]) -> Result<CellId, String> {
    match cells.iter().position(|cell| cell.name == name) {
        Some(id) => Ok(CellId(id as u16)),
        None => {
            let known: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
            Err(format!("unknown cell \"{name}\"; the file's cells: {}", known.join(", ")))
        }
    }
}

fn at(path: impl std::fmt::Display) -> impl Fn(String) -> String {
    move |problem| format!("{path}: {problem}")
}

fn rule_of(entry: RuleEntry, cells: &[Cell]) -> Result<Rule, String> {
    let (takes, sizes): (Takes, &[Size]) = match entry.shape {
        ShapeEntry::Chain => (Takes::Chains, &[Size::N]),
        ShapeEntry::Seq2seq => (Takes::Pairs, &[Size::S, Size::T]),
        ShapeEntry::Tree => (Takes::Trees, &[]),
    };
    if entry.nodes.is_empty() {
        return Err("unfold.nodes: is empty; a rule has at least one family of nodes".into());
    }
    let mut scopes: Vec<Indices> = Vec::with_capacity(entry.nodes.len());
    for (place, family) in entry.nodes.iter().enumerate() {
        let path = format!("unfold.nodes[{place}]");
        if !is_name(&family.name) {
            return Err(format!("{path}.name: \"{}\" is not a name; {NAMES}", family.name));
        }
        if entry.nodes[..place].iter().any(|other| other.name == family.name) {
            return Err(format!("{path}.name: a second family \"{}\"; names must be unique", family.name));
        }
        scopes.push(Indices::of(family, takes, sizes).map_err(at(&path))?);
    }
    let names: Vec<&str> = entry.nodes.iter().map(|family| family.name.as_str()).collect();
    let mut families = Vec::with_capacity(entry.nodes.len());
    for (place, family) in entry.nodes.iter().enumerate() {
        let path = format!("unfold.nodes[{place}]");
        let own = &scopes[place];
        let scope = Scope { indices: &own.names, tree: own.tree.as_deref(), sizes };
        let need = |(number, text): (usize, &String)| {
            need(text, &scope, &names, &scopes).map_err(at(format_args!("{path}.needs[{number}]: \"{text}\"")))
        };
        families.push(Family {
            name: family.name.clone(),
            cell: cell_id(&family.cell, cells).map_err(at(format_args!("{path}.cell")))?,
            range: own.range.clone(),
            needs: family.needs.iter().enumerate().map(need).collect::<Result<_, _>>()?,
        });
    }
    Rule::new(takes, families).map_err(at("unfold"))
}

struct Indices {
    names: Vec<String>,
    tree: Option<String>,
    range: Range,
}

impl Indices {
    fn of(family: &FamilyEntry, takes: Takes, sizes: &[Size]) -> Result<Indices, String> {
        if let Some(name) = family.over.keys().find(|name| !is_name(name) || *name == "root") {
            return Err(format!("over: \"{name}\" is not the name of an index; {NAMES}, and root is reserved"));
        }
        if let Some((name, _)) = family.over.iter().find(|(_, over)| over.as_str() == Some("tree")) {
            if takes != Takes::Trees {
                return Err(format!("over.{name}: there is no tree; unfold.shape must be \"tree\""));
            }
            if family.over.len() > 1 {
                return Err("over: an index over a tree must be the only index".into());
            }
            let children = children(family.children.as_ref()).map_err(at("children"))?;
            return Ok(Indices { names: Vec::new(), tree: Some(name.clone()), range: Range::Tree(children) });
        }
        if family.children.is_some() {
            return Err("children: needs an index over a tree, as \"over\": { \"v\": \"tree\" }".into());
        }
        let bare = Scope { indices: &[], tree: None, sizes };
        let last = |(name, last): (&String, &Value)| {
            let last = match last {
                Value::Number(number) => Linear::parse(&number.to_string(), &bare),
                Value::String(text) => Linear::parse(text, &bare),
                _ => Err("must be a number, or a sum such as \"N\" or \"S + 1\"".into()),
            };
            last.map_err(at(format_args!("over.{name}")))
        };
        let range = Range::Indices(family.over.iter().map(last).collect::<Result<_, _>>()?);
        Ok(Indices { names: family.over.keys().cloned().collect(), tree: None, range })
    }

    fn len(&self) -> usize {
        self.names.len() + usize::from(self.tree.is_some())
    }
}

/// `2`, `"1.."`, `"2..3"`; all if not given.
fn children(given: Option<&Value>) -> Result<std::ops::RangeInclusive<u32>, String> {
    let refuse = || "must be a number of children, or a range such as \"1..\" or \"2..3\"".to_string();
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| refuse());
    match given {
        None => Ok(0..=u32::MAX),
        Some(Value::Number(count)) => {
            count.as_u64().and_then(|n| u32::try_from(n).ok()).map(|n| n..=n).ok_or_else(refuse)
        }
        Some(Value::String(text)) => match text.split_once("..") {
            Some((from, "")) => Ok(number(from)?..=u32::MAX),
            Some((from, to)) => Ok(number(from)?..=number(to)?),
            None => number(text).map(|n| n..=n),
        },
        Some(_) => Err(refuse()),
    }
}

/// `fwd[i-1]`, `enc[*]`, or a family of one node.
fn need(text: &str, scope: &Scope<'_>, names: &[&str], scopes: &[Indices]) -> Result<Need, String> {
    let (name, items) = match text.trim().strip_suffix(']').map(|open| open.split_once('[')) {
        Some(Some((name, items))) => (name.trim(), items),
        None if !text.contains('[') => (text.trim(), ""),
        _ => return Err("is not a reference; write FAMILY[INDEX], as fwd[i-1] or enc[*]".into()),
    };
    let family = names
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| format!("unknown family \"{name}\"; known: {}", names.join(", ")))?;
    let items: Vec<&str> = if items.trim().is_empty() { Vec::new() } else { items.split(',').collect() };
    let target = &scopes[family];
    if items.len() != target.len() {
        return Err(format!("has {} indices, but \"{name}\" has {}", items.len(), target.len()));
    }
    let items = items.into_iter().map(|item| Item::parse(item, scope)).collect::<Result<Vec<_>, _>>()?;
    for item in &items {
        match (item, target.tree.is_some()) {
            (Item::Span(..), true) => {
                return Err(format!(
                    "\"{name}\" ranges over a tree; its indices are v, v.children, v.parent, root or *"
                ));
            }
            (Item::Tree(relative), false) => {
                let what = if *relative == Relative::Root { "root" } else { "a node of a tree" };
                return Err(format!("\"{name}\" does not range over a tree; {what} is not an index of it"));
            }
            _ => {}
        }
    }
    Ok(Need { family, items })
}

const NAMES: &str = "a name consists of small letters, digits and _, and begins with a letter";

fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
}

fn graphs_of(entries: Vec<GraphEntry>, cells: &[Cell]) -> Result<Vec<Given>, String> {
    if entries.iter().all(|entry| entry.weight == 0) {
        return Err("graphs: no weight is above 0; at least one must be".into());
    }
    entries
        .into_iter()
        .enumerate()
        .map(|(place, entry)| graph_of(entry, cells).map_err(at(format_args!("graphs[{place}]"))))
        .collect()
}

fn graph_of(entry: GraphEntry, cells: &[Cell]) -> Result<Given, String> {
    let cell = |(place, name): (usize, &String)| cell_id(name, cells).map_err(at(format_args!("nodes[{place}]")));
    let nodes = entry.nodes.iter().enumerate().map(cell).collect::<Result<Vec<CellId>, _>>()?;
    let within = |edge: &[u32; 2]| edge.iter().all(|node| (1..=nodes.len() as u32).contains(node));
    if let Some(place) = entry.edges.iter().position(|edge| !within(edge)) {
        let [from, to] = entry.edges[place];
        return Err(format!(
            "edges[{place}]: [{from}, {to}] leads out of the graph; its nodes are 1 to {}",
            nodes.len()
        ));
    }
    let edges: Vec<(u32, u32)> = entry.edges.iter().map(|[from, to]| (from - 1, to - 1)).collect();
    match Graph::new(nodes.clone(), &edges) {
        Ok(_) => Ok(Given { nodes, edges, weight: entry.weight }),
        Err(GraphError::Empty) => Err("nodes: is empty; a graph has at least one node".into()),
        Err(GraphError::Cycle(cycle)) => {
            let names: Vec<String> = cycle.iter().chain(&cycle[..1]).map(|node| (node + 1).to_string()).collect();
            Err(format!("edges: nodes need each other: {}", names.join(" -> ")))
        }
        Err(other) => Err(other.to_string()),
    }
}
