//! Reference outputs: a request run alone, node after node. Batched CPU runs must equal them bit for bit; another
//! device's words are followed, because either of two words with nearly equal scores may be its best.

use super::{BatchInputs, Network, Scratch};
use crate::base::units::{CellId, RequestId};
use crate::core::backend::Output;
use crate::core::workload::cell_graph::CellGraph;

/// The result of [`Network::follow`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FollowedOutput {
    pub output: Output,
    /// The distance of each given word's score from the best of its step, in root mean squares of the scores.
    pub shortfalls: Vec<f64>,
}

impl Network {
    /// The output of a request that runs alone. The graph must pass [`Network::check`].
    pub fn alone(&self, request: RequestId, graph: &CellGraph) -> Output {
        self.follow(request, graph, &[]).output
    }

    /// Runs a request alone. Cells read the next of `words` in place of their own word, until `words` ends.
    pub fn follow(&self, request: RequestId, graph: &CellGraph, words: &[u32]) -> FollowedOutput {
        if let Some(operators) = self.operators() {
            let output = Output {
                state: operators.alone(request, graph),
                words: Vec::new(),
            };
            return FollowedOutput {
                output,
                shortfalls: Vec::new(),
            };
        }
        let mut scratch = Scratch::default();
        match graph {
            CellGraph::Chains(runs) => {
                let mut followed = FollowedOutput::default();
                let output = &mut followed.output;
                let nodes = runs
                    .iter()
                    .flat_map(|run| (0..run.length).map(move |_| run));
                for (node, run) in (0..).zip(nodes) {
                    let tokens = if run.input > 0 {
                        (0..run.input)
                            .map(|place| self.token(request, place))
                            .collect()
                    } else {
                        vec![self.token(request, node)]
                    };
                    let before = std::mem::take(&mut output.state);
                    output.state = self.run_node(run.cell, &tokens, &before, &mut scratch);
                    let Some(own) = self.cell(run.cell).word(&output.state) else {
                        continue;
                    };
                    if let Some(other) = words.get(output.words.len()) {
                        let shortfall = if *other == own {
                            // The cell's own word is the best, so the other scores need not be computed.
                            0.0
                        } else {
                            self.cell(run.cell).replace_word(&mut output.state, *other)
                        };
                        followed.shortfalls.push(shortfall);
                    }
                    output.words.push(own);
                }
                followed
            }
            CellGraph::Graph(graph) => {
                let mut order: Vec<u32> = (0..graph.len() as u32).collect();
                order.sort_by_key(|node| graph.depths()[*node as usize]);
                let mut states: Vec<Vec<f32>> = vec![Vec::new(); graph.len()];
                for node in order {
                    let taken: Vec<f32> = graph
                        .inputs(node)
                        .iter()
                        .flat_map(|input| states[*input as usize].iter().copied())
                        .collect();
                    let cell = graph.cells()[node as usize];
                    states[node as usize] =
                        self.run_node(cell, &[self.token(request, node)], &taken, &mut scratch);
                }
                let cells = graph.cells().iter().zip(&states);
                let words = cells
                    .filter_map(|(cell, state)| self.cell(*cell).word(state))
                    .collect();
                let last =
                    (0..graph.len()).filter(|node| graph.successors(*node as u32).is_empty());
                let state = last.flat_map(|node| states[node].iter().copied()).collect();
                FollowedOutput {
                    output: Output { state, words },
                    shortfalls: Vec::new(),
                }
            }
        }
    }

    /// The state after one node.
    fn run_node(
        &self,
        cell: CellId,
        tokens: &[u32],
        states: &[f32],
        scratch: &mut Scratch,
    ) -> Vec<f32> {
        let mut out = vec![0.0; self.state()];
        let all = 0..(states.len() / self.state()) as u32;
        let batch = BatchInputs {
            rows: 1,
            tokens,
            token_ends: &[tokens.len() as u32],
            padded_to: 0,
            states,
            states_at: &[all],
        };
        self.cell(cell).run(&batch, &mut out, scratch);
        out
    }
}
