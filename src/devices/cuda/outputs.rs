//! The model's cells, and the requests whose outputs are kept, with the places of these outputs in the host's memory.

use std::collections::BTreeMap;

use super::device::{Device, HostPlace, MemoryNeeds};
use super::slots::GRAPH_PAGE;
use crate::base::error::{Error, Result};
use crate::base::units::{CellId, NodeId, RequestId};
use crate::core::backend::Output;
use crate::core::workload::cell_graph::CellGraph;
use crate::core::workload::dnn::Dnn;
use crate::core::workload::model::Model;
use crate::core::workload::shared_list::SharedList;
use crate::devices::network::{Network, operators};
use crate::devices::task_checks;

/// The requests of a run whose outputs are kept.
#[derive(Debug)]
pub struct KeptOutputs {
    requests: BTreeMap<RequestId, KeptRequest>,
    /// Whether each cell type writes words.
    writes: Vec<bool>,
    has_words: bool,
}

#[derive(Debug)]
struct KeptRequest {
    /// The nodes whose states are copied to the host, ascending, with their places.
    fetched: Vec<(u32, HostPlace)>,
    /// The place of the first node's word.
    words: u32,
}

impl KeptOutputs {
    /// Assigns places to these requests, and returns the memory that the run needs.
    pub fn new(
        keep: &[RequestId],
        graphs: &SharedList<CellGraph>,
        network: &Network,
        cells: &[CellTraits],
    ) -> Result<(KeptOutputs, MemoryNeeds)> {
        let writes: Vec<bool> = cells.iter().map(|cell| cell.writes).collect();
        let has_words = writes.contains(&true);
        let nodes_with_words = |graph: &CellGraph| if has_words { graph.nodes() } else { 0 };
        // Words that are not kept are all written to the same places.
        let mut words = graphs.iter().map(nodes_with_words).max().unwrap_or(0);
        let mut requests = BTreeMap::new();
        let mut count = 0;
        let mut begin = 0;
        for &id in keep {
            let graph = &graphs[id.index()];
            let mut request = KeptRequest {
                fetched: Vec::new(),
                words: place_number(words)?,
            };
            for (node, numbers) in fetched_nodes(network, graph) {
                request.fetched.push((
                    node,
                    HostPlace {
                        number: place_number(count)?,
                        begin,
                        numbers,
                    },
                ));
                count += 1;
                begin += u64::from(numbers);
            }
            requests.insert(id, request);
            words += nodes_with_words(graph);
        }
        let room = graphs.iter().map(|graph| match graph {
            CellGraph::Chains(_) => 1,
            CellGraph::Graph(graph) => (graph.len() as u64).next_multiple_of(GRAPH_PAGE.into()),
        });
        let needs = MemoryNeeds {
            states: room.sum(),
            words: place_number(words)?,
            fetched: place_number(count)?,
            numbers: begin,
        };
        Ok((
            KeptOutputs {
                requests,
                writes,
                has_words,
            },
            needs,
        ))
    }

    /// The place of a request's first word.
    pub fn words(&self, request: RequestId) -> u32 {
        let kept = if self.has_words {
            self.requests.get(&request)
        } else {
            None
        };
        kept.map_or(0, |kept| kept.words)
    }

    /// The place for the state after this node, if it is copied and the request is kept.
    pub fn place(&self, request: RequestId, node: u32) -> Option<HostPlace> {
        let fetched = &self.requests.get(&request)?.fetched;
        fetched
            .binary_search_by_key(&node, |(fetched, _)| *fetched)
            .ok()
            .map(|at| fetched[at].1)
    }

    /// The output of a kept request whose last task has finished.
    pub fn output(
        &self,
        request: RequestId,
        graph: &CellGraph,
        device: &impl Device,
    ) -> Option<Output> {
        let kept = self.requests.get(&request)?;
        let nodes = if self.has_words {
            0..graph.nodes() as u32
        } else {
            0..0
        };
        let writing = nodes.filter(|node| self.writes[cell_of(graph, *node).index()]);
        Some(Output {
            state: kept
                .fetched
                .iter()
                .flat_map(|(_, place)| device.fetched_state(*place).iter().copied())
                .collect(),
            words: writing.map(|node| device.word(kept.words + node)).collect(),
        })
    }
}

/// The number of a place. Fails if the places are too many.
fn place_number(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| {
        Error::failure("the outputs of the requests that are kept are too many to be held at once")
    })
}

/// The nodes whose states are copied, ascending, with their sizes in numbers. They are the nodes without successors. In
/// a listed network they are all nodes, since the output after many operators says little about each.
fn fetched_nodes(network: &Network, graph: &CellGraph) -> Vec<(u32, u32)> {
    if let Some(operators) = network.operators() {
        return (0..)
            .zip(operators.lengths(graph).map(|length| length as u32))
            .collect();
    }
    let width = network.state() as u32;
    match graph {
        CellGraph::Chains(_) => vec![(graph.nodes() as u32 - 1, width)],
        CellGraph::Graph(graph) => {
            let last = (0..graph.len() as u32).filter(|node| graph.successors(*node).is_empty());
            last.map(|node| (node, width)).collect()
        }
    }
}

/// The cell type of a node.
fn cell_of(graph: &CellGraph, node: u32) -> CellId {
    task_checks::find_node(graph, NodeId(node))
        .expect("a node of the graph")
        .0
}

/// Properties of a cell type that affect queuing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellTraits {
    /// Whether it writes words.
    pub writes: bool,
    /// Whether its products have a row for each input state
    /// ([`BatchShape::inputs`](super::device::BatchShape::inputs)).
    pub counts_inputs: bool,
    /// Whether it is an operator whose sizes depend on the tokens
    /// ([`BatchShape::tokens`](super::device::BatchShape::tokens)).
    pub is_sized: bool,
}

/// The properties of all cell types of a network.
pub fn cell_traits(network: &Network) -> Vec<CellTraits> {
    let model = network.model();
    if let Some(listed) = model.network() {
        let operators = listed.distinct().iter().map(|operator| CellTraits {
            is_sized: !operator.form.is_constant(),
            ..CellTraits::default()
        });
        return operators.collect();
    }
    let has_products_of_inputs =
        matches!(model, Model::ChildSumTreeLstm | Model::ChildSumByArity(_));
    let zeros = vec![0.0; network.state()];
    (0..)
        .zip(model.cell_types())
        .map(|(id, cell)| CellTraits {
            writes: network.cell(CellId(id)).word(&zeros).is_some(),
            counts_inputs: has_products_of_inputs && cell.name != "leaf",
            is_sized: false,
        })
        .collect()
}

/// The largest number of values of one query that the kernels can index.
const MOST_NUMBERS: u64 = 1 << 30;

/// Checks that there are kernels for a model's cells.
pub fn check(model: &Model) -> Result<()> {
    match model {
        Model::Dnn(_) | Model::Graph(_) => Err(Error::input(format!(
            "the model {} has no cells for GPUs; run it with --backend cpu, or take lstm, gru, seq2seq, tree-lstm, \
             childsum-tree-lstm or dnn:FILE.csv",
            model.name()
        ))),
        Model::Network(listed) => check_sizes(listed),
        _ => Ok(()),
    }
}

/// Checks that the kernels can index the inputs and outputs of each operator.
fn check_sizes(listed: &Dnn) -> Result<()> {
    for operator in listed.distinct() {
        let work = operator.form.work(listed.most_tokens.unwrap_or(0));
        let largest = operators::reads(&work)
            .max(operators::writes(&work))
            .max(work.inner * work.columns);
        if largest > MOST_NUMBERS {
            return Err(Error::input(format!(
                "the model dnn:{}: the operator \"{}\" has {largest} numbers of a query, and GPUs count up to {MOST_NUMBERS}; \
                 run it with --backend cpu, or take a smaller network",
                listed.given, operator.name
            )));
        }
    }
    Ok(())
}
