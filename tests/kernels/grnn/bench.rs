//! A persistent kernel with its memory, and a network on the CPU beside it.

use batchlab::cost::grnn::{Exchange, Mapping, Rnn, RnnSizes};
use batchlab::cuda::gpu::grnn::{Configuration, headers};
use batchlab::network::weights::Weights;
use batchlab::network::{Network, Spec};
use batchlab::units::{CellId, RequestId};
use batchlab::workload::cell_graph::CellGraph;
use batchlab::workload::model::Model;

use crate::host_cuda::{Argument, Grid, Kernels, Wrong};
use crate::memory::{Memory, floats, words};

/// How far a state may be from the CPU's, whose sums are added up in another order.
const TOLERANCE: f32 = 2e-5;

/// A kernel and the sequences that run in it.
pub struct Bench {
    pub configuration: Configuration,
    kernels: Kernels,
    network: Network,
    weights: Weights,
    spec: Spec,
    arrived: Memory<u32>,
}

/// A part of a source, and what is to stand there.
pub type Change<'a> = (&'a str, &'a str);

/// The states of a batch: h, and c of an LSTM, a row for each sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    pub h: Vec<f32>,
    pub c: Vec<f32>,
}

/// A kernel for any GPU.
pub fn configuration(
    rnn: Rnn,
    hidden: u32,
    batch: u32,
    [tile_width, tile_height, groups, group_size]: [u32; 4],
) -> Configuration {
    let mapping = Mapping {
        tile_width,
        tile_height,
        groups,
        group_size,
    };
    Configuration::new(RnnSizes { rnn, hidden, batch }, mapping).expect("a mapping")
}

impl Bench {
    /// The kernel as it is. None where kernels can't run.
    pub fn new(configuration: Configuration) -> Option<Bench> {
        Bench::changed(configuration, "", &[])
    }

    /// The kernel with changes of its sources, each of which must be there; `fault` names them.
    pub fn changed(
        configuration: Configuration,
        fault: &str,
        changes: &[Change<'_>],
    ) -> Option<Bench> {
        let RnnSizes { rnn, hidden, batch } = configuration.sizes();
        let mut sources: Vec<(&str, String)> = headers()
            .into_iter()
            .chain([configuration.source()])
            .map(|(name, text)| (name, text.to_string()))
            .collect();
        for (from, to) in changes {
            let changed = sources
                .iter_mut()
                .rev()
                .find(|(_, text)| text.contains(from));
            let (_, text) = changed.unwrap_or_else(|| panic!("no kernel has {from}"));
            *text = text.replacen(from, to, 1);
        }
        let texts: Vec<(&str, &str)> = sources
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        let Mapping {
            tile_width: w,
            tile_height: h,
            groups: g,
            group_size: s,
        } = configuration.mapping();
        let way = match configuration.exchange() {
            Exchange::Memory => "",
            Exchange::Block => "-block",
            Exchange::Cluster => "-cluster",
        };
        let name = format!("{rnn}-{hidden}-{w}-{h}-{g}-{s}{way}{fault}");
        let kernels = Kernels::variant(&name, &texts, &configuration.constants())?;
        let model = if rnn == Rnn::Lstm {
            Model::Lstm
        } else {
            Model::Gru
        };
        let spec = Spec {
            hidden,
            embedding: 6,
            vocabulary: 50,
            seed: 11,
            weights: None,
        };
        Some(Bench {
            configuration,
            kernels,
            network: Network::new(&model, &spec).expect("a network"),
            weights: Weights::open(&model, &spec).expect("weights from a seed"),
            spec,
            arrived: words(batch as usize, 0),
        })
    }

    /// The states that sequences begin with.
    pub fn zeros(&self, batch: usize) -> States {
        let zeros = vec![0.0; batch * self.spec.hidden as usize];
        States {
            h: zeros.clone(),
            c: if self.is_lstm() { zeros } else { Vec::new() },
        }
    }

    fn is_lstm(&self) -> bool {
        self.configuration.sizes().rnn == Rnn::Lstm
    }

    fn tensor(&self, name: &str) -> Vec<f32> {
        self.weights.take(&format!(
            "{}.{name}",
            if self.is_lstm() { "lstm" } else { "gru" }
        ))
    }

    /// What the inputs of steps come to, as phase 1 leaves it: the words of sequence n are those of request n, from a step on.
    fn inputs(&self, batch: usize, from: u32, steps: u32) -> Memory<f32> {
        let (table, matrix) = (
            self.weights.take("embedding.weight"),
            self.tensor("weight_ih"),
        );
        let (bias, embedding) = (self.tensor("bias"), self.spec.embedding as usize);
        let mut products = Vec::new();
        for step in from..from + steps {
            for sequence in 0..batch as u32 {
                let word = self.network.token(RequestId(sequence.into()), step) as usize;
                let x = &table[word * embedding..][..embedding];
                let product = |row: &[f32]| {
                    row.iter()
                        .zip(x)
                        .map(|(w, x)| f64::from(*w) * f64::from(*x))
                        .sum::<f64>()
                };
                let products_and_biases = matrix.chunks_exact(embedding).zip(&bias);
                products.extend(
                    products_and_biases.map(|(row, bias)| (product(row) + f64::from(*bias)) as f32),
                );
            }
        }
        memory(&products)
    }

    /// Runs steps of sequences from given states, of each as many as its length says. Gives the h of all steps, the first of
    /// which are those given, and the states that are left.
    pub fn run(
        &mut self,
        begin: &States,
        from: u32,
        lengths: &[u32],
        seed: u64,
    ) -> Result<(Vec<f32>, States), Wrong> {
        let (batch, hidden) = (lengths.len(), self.spec.hidden as usize);
        let steps = *lengths.iter().max().expect("a sequence");
        let sizes = RnnSizes {
            batch: batch as u32,
            ..self.configuration.sizes()
        };
        let mut inputs = self.inputs(batch, from, steps);
        let mut weights = memory(&self.tensor("weight_hh"));
        let mut lengths_memory = words(batch, 0);
        lengths_memory.copy_from_slice(lengths);
        // Unwritten values are NaN.
        let mut all = floats((steps as usize + 1) * batch * hidden);
        all[..batch * hidden].copy_from_slice(&begin.h);
        let mut beside = if self.is_lstm() {
            memory(&begin.c)
        } else {
            floats(self.configuration.extra_numbers(batch as u32))
        };
        let mapping = self.configuration.mapping();
        let arguments: [Argument; 8] = [
            steps.into(),
            (batch as u32).into(),
            lengths_memory.pointer().into(),
            inputs.pointer().into(),
            weights.pointer().into(),
            all.pointer().into(),
            beside.pointer().into(),
            self.arrived.pointer().into(),
        ];
        let grid = Grid {
            blocks: [mapping.columns(&sizes), mapping.rows(&sizes), 1],
            threads: mapping.threads(),
            shared: self.configuration.shared_bytes() as usize,
            seed,
            together: self.configuration.exchange() == Exchange::Memory,
            cluster: match self.configuration.exchange() {
                Exchange::Cluster => mapping.columns(&sizes),
                Exchange::Memory | Exchange::Block => 1,
            },
        };
        // SAFETY: both kernels take these arguments; all memory is as large as the sizes say, and outlives the launch.
        unsafe {
            self.kernels
                .of_variant(self.configuration.kernel())
                .launch(grid, &arguments)
        }?;
        let h = all[steps as usize * batch * hidden..].to_vec();
        let c = if self.is_lstm() {
            beside.to_vec()
        } else {
            Vec::new()
        };
        Ok((all.to_vec(), States { h, c }))
    }

    /// Runs sequences from their beginning, and says what is wrong with any of their states, if something is.
    pub fn check(&mut self, lengths: &[u32], seed: u64) -> Result<(), String> {
        let hidden = self.spec.hidden as usize;
        let (all, left) = self
            .run(&self.zeros(lengths.len()), 0, lengths, seed)
            .map_err(|wrong| wrong.to_string())?;
        for (sequence, length) in lengths.iter().enumerate() {
            for (step, states) in all.chunks_exact(lengths.len() * hidden).enumerate().skip(1) {
                let expected = self.alone(sequence, (step as u32).min(*length));
                let found = &states[sequence * hidden..][..hidden];
                near(found, &expected.h)
                    .map_err(|what| format!("h of {sequence} after {step}: {what}"))?;
            }
            if self.is_lstm() {
                let found = &left.c[sequence * hidden..][..hidden];
                near(found, &self.alone(sequence, *length).c)
                    .map_err(|what| format!("c of {sequence}: {what}"))?;
            }
        }
        if self.arrived.iter().any(|count| *count != 0) {
            return Err(format!(
                "counts are left for the next launch: {:?}",
                &*self.arrived
            ));
        }
        Ok(())
    }

    /// The state of a sequence after some of its steps, by the CPU.
    pub fn alone(&self, sequence: usize, steps: u32) -> States {
        let hidden = self.spec.hidden as usize;
        if steps == 0 {
            return self.zeros(1);
        }
        let mut h = self
            .network
            .alone(
                RequestId(sequence as u64),
                &CellGraph::chain(CellId(0), steps),
            )
            .state;
        let c = h.split_off(hidden);
        States { h, c }
    }
}

/// Numbers in memory of a kernel's.
fn memory(numbers: &[f32]) -> Memory<f32> {
    let mut memory = floats(numbers.len());
    memory.copy_from_slice(numbers);
    memory
}

pub fn near(found: &[f32], expected: &[f32]) -> Result<(), String> {
    assert_eq!(found.len(), expected.len());
    // A NaN is not near any number.
    let near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= TOLERANCE;
    match found.iter().zip(expected).position(|pair| !near(pair)) {
        Some(at) => Err(format!("{} for {} at {at}", found[at], expected[at])),
        None => Ok(()),
    }
}
