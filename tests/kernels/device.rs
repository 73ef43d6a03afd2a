//! A device on the CPU: its memory, and its launches in the order in which the backend queues them.

use batchlab::network::{Network, Spec};
use batchlab::workload::model::Model;

use super::host_cuda::{Argument, Element, Grid, Kernels};
use super::layer::{Kind, Layer, Matrix};
use super::memory::{Elements, Memory, floats, words};

/// The threads of a block.
const THREADS: u32 = 256;

/// The slot of a row that has none.
pub const NOWHERE: u32 = u32::MAX;

/// A row of a batch as kernels have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Row {
    pub request: u32,
    pub node: u32,
    pub last: u32,
    pub state: u32,
    pub words: u32,
    pub tokens: u32,
    pub inputs_end: u32,
}

/// A row that changes, as kernels have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Change {
    pub at: u32,
    pub request: u32,
    pub node: u32,
    pub last: u32,
    pub state: u32,
    pub words: u32,
}

/// The most changes of a launch.
const MOST_CHANGES: usize = 60;

#[repr(C)]
struct Changes {
    count: u32,
    rows: [Change; MOST_CHANGES],
}

/// How launches are cut into blocks, and in which order their threads run.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Blocks that share the units of a row.
    pub units: u32,
    /// Blocks that share the rows, at most one for each.
    pub rows: u32,
    /// The shim's seed.
    pub seed: u64,
}

/// A device with one stream.
pub struct Device {
    kernels: &'static Kernels,
    pub network: Network,
    pub spec: Spec,
    pub element: Element,
    /// The distance of two states in the pool.
    pub width: usize,
    pub pool: Memory<f32>,
    pub broken: Memory<u32>,
    pub words: Memory<u32>,
    pub arrived: Memory<u32>,
    pub counted: Memory<u64>,
    pub host: Memory<u64>,
    pub cut: Cut,
}

/// A cell, with the rows that run in it.
pub struct Station {
    pub kind: Kind,
    pub layer: Layer,
    /// The size of the batch.
    pub size: usize,
    /// The rows of children, for child-sum nodes.
    pub children_size: usize,
    pub rows: Memory<Row>,
    pub inputs: Memory<u32>,
    pub age: Memory<u32>,
    pub operand: Elements,
    pub children: Elements,
    pub candidate: Elements,
    /// The products of the last step, in the order of the layer's matrices.
    pub products: Vec<Vec<f64>>,
    /// What its steps have in addition if they are fused.
    pub fused: Option<Fused>,
}

/// What fused steps have in addition.
pub struct Fused {
    /// The packed weights of each product.
    weights: Vec<Memory<u8>>,
    /// The second place of an LSTM's operand.
    pub next: Elements,
    /// The update gates of a GRU.
    updates: Memory<f32>,
}

impl Station {
    /// Lets fused kernels compute its steps.
    pub fn fuse(&mut self, spec: &Spec, element: Element) {
        let hidden = spec.hidden as usize;
        let weights = self.layer.matrices.iter();
        self.fused = Some(Fused {
            weights: weights.map(|matrix| matrix.pack(element, hidden)).collect(),
            next: Elements::new(element, self.size * self.stride(spec)),
            updates: floats(self.size * hidden),
        });
    }

    /// Whether a step leaves the next operand elsewhere than it reads this one.
    pub fn moves_operand(&self) -> bool {
        self.fused.is_some() && matches!(self.kind, Kind::Lstm | Kind::Encoder)
    }

    /// The numbers in a row of the operand.
    pub fn stride(&self, spec: &Spec) -> usize {
        let (h, e) = (spec.hidden as usize, spec.embedding as usize);
        match self.kind {
            Kind::Leaf | Kind::SumLeaf => e,
            Kind::Pair => 2 * h,
            _ => e + h,
        }
    }
}

impl Device {
    /// A device for a model's cells whose pool has `slots` states, `slack` numbers apart. `None` if kernels can't run.
    pub fn new(
        model: &Model,
        spec: &Spec,
        element: Element,
        slots: usize,
        slack: usize,
        cut: Cut,
    ) -> Option<Device> {
        let kernels = super::host_cuda::kernels()?;
        let network = Network::new(model, spec).expect("a network of the test's sizes");
        let width = network.state() + slack;
        let mut pool = floats(slots * width);
        // Numbers like those of states; where there is a word, it is one.
        for slot in 0..slots {
            for (at, number) in pool[slot * width..(slot + 1) * width]
                .iter_mut()
                .enumerate()
            {
                *number = ((slot * width + at) as f32 * 0.731).sin();
                if *model == Model::Seq2Seq && at == network.state() - 1 {
                    *number = (slot as u32 * 7 % spec.vocabulary) as f32;
                }
            }
        }
        Some(Device {
            kernels,
            network,
            spec: spec.clone(),
            element,
            width,
            pool,
            broken: words(slots, 0),
            words: words(WORDS, u32::MAX),
            arrived: words(1, 0),
            counted: Memory::new(1, 5, 77),
            host: Memory::new(1, 5, 77),
            cut,
        })
    }

    pub fn station(&self, kind: Kind, size: usize, children_size: usize) -> Station {
        let (h, e) = (self.spec.hidden as usize, self.spec.embedding as usize);
        let nothing = Row {
            request: 9,
            node: 9,
            last: 9,
            state: 9,
            words: 9,
            tokens: 0,
            inputs_end: 9,
        };
        let mut station = Station {
            kind,
            layer: Layer::new(kind, &self.spec, self.element),
            size,
            children_size,
            rows: Memory::new(size, nothing, nothing),
            inputs: words(children_size.max(2 * size), 99),
            age: words(1, 99),
            operand: Elements::new(self.element, 0),
            children: Elements::new(self.element, children_size * h),
            candidate: Elements::new(
                self.element,
                if kind == Kind::Gru { size * (e + h) } else { 0 },
            ),
            products: Vec::new(),
            fused: None,
        };
        station.operand = Elements::new(self.element, size * station.stride(&self.spec));
        station
    }

    /// The numbers of a slot.
    pub fn state(&self, slot: u32) -> &[f32] {
        &self.pool[slot as usize * self.width..][..self.network.state()]
    }

    /// Brings rows together as a cell's operand.
    pub fn gather(&mut self, station: &mut Station, rows: &[Row], inputs: &[u32]) {
        assert!(rows.len() <= station.size && inputs.len() <= station.inputs.len());
        let (h, e) = (self.spec.hidden, self.spec.embedding);
        let mut arguments = Arguments::default();
        let embedding = station.layer.embedding.pointer();
        arguments
            .pointer(rows.as_ptr())
            .pointer(inputs.as_ptr())
            .number(rows.len() as u32)
            .table(station);
        let name = match station.kind {
            Kind::Lstm | Kind::Encoder | Kind::Decoder | Kind::Gru => {
                arguments
                    .pointer(self.pool.pointer())
                    .number(self.width as u32)
                    .words(embedding, &self.spec);
                arguments.number((station.kind == Kind::Decoder).into());
                arguments
                    .pointer(station.operand.pointer())
                    .number(e)
                    .number(h);
                "gather_chain"
            }
            Kind::Leaf | Kind::SumLeaf => {
                arguments
                    .words(embedding, &self.spec)
                    .pointer(station.operand.pointer())
                    .number(e);
                "gather_leaf"
            }
            Kind::Pair => {
                arguments
                    .pointer(self.pool.pointer())
                    .number(self.width as u32);
                arguments.pointer(station.operand.pointer()).number(h);
                "gather_pair"
            }
            Kind::Sum => {
                arguments
                    .pointer(self.pool.pointer())
                    .number(self.width as u32)
                    .words(embedding, &self.spec);
                arguments
                    .pointer(station.operand.pointer())
                    .pointer(station.children.pointer());
                arguments
                    .number(station.children_size as u32)
                    .number(e)
                    .number(h);
                "gather_sum"
            }
        };
        arguments.pointer(station.age.pointer());
        self.launch(name, self.grid(station.size), &arguments);
    }

    /// Changes rows of a chain's cell.
    pub fn change(&mut self, station: &mut Station, changes: &[Change]) {
        let mut given = Changes {
            count: changes.len() as u32,
            rows: [Change::default(); MOST_CHANGES],
        };
        given.rows[..changes.len()].copy_from_slice(changes);
        let (h, e) = (self.spec.hidden, self.spec.embedding);
        let mut arguments = Arguments::default();
        arguments.0.push(Argument::Value((&raw const given).cast()));
        arguments
            .pointer(station.rows.pointer())
            .pointer(self.pool.pointer())
            .number(self.width as u32)
            .words(station.layer.embedding.pointer(), &self.spec);
        arguments.number((station.kind == Kind::Decoder).into());
        arguments
            .pointer(station.operand.pointer())
            .number(e)
            .number(h)
            .pointer(station.age.pointer());
        self.launch("change_chain", self.grid(station.size), &arguments);
    }

    /// Runs the cell once over its rows: its products, and behind each of them a kernel.
    pub fn step(&mut self, station: &mut Station, signals: bool) {
        let (h, e) = (self.spec.hidden, self.spec.embedding);
        let stride = station.stride(&self.spec);
        let rows = station.size;
        let operand = station.operand.numbers();
        let times = |matrix: &Matrix, operand: &[f32], from| {
            let product = matrix.times(rows, operand, stride, from);
            let mut narrow = floats(product.len());
            narrow
                .iter_mut()
                .zip(&product)
                .for_each(|(narrow, number)| *narrow = *number as f32);
            (product, narrow)
        };
        let (product, mut narrow) = times(&station.layer.matrices[0], &operand, 0);
        station.products = vec![product];
        if let Some(mut fused) = station.fused.take() {
            self.fused_step(station, &mut fused, signals);
            station.fused = Some(fused);
            return;
        }
        match station.kind {
            Kind::Lstm | Kind::Encoder | Kind::Decoder => {
                let kind = [Kind::Lstm, Kind::Encoder, Kind::Decoder]
                    .iter()
                    .position(|kind| *kind == station.kind);
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .states(self)
                    .words(station.layer.embedding.pointer(), &self.spec);
                arguments
                    .number(kind.expect("one of the three") as u32)
                    .pointer(station.operand.pointer());
                arguments
                    .pointer(narrow.pointer())
                    .pointer(station.layer.biases[0].pointer())
                    .number(e)
                    .number(h);
                arguments.tail(self, station, signals);
                self.launch("step_lstm", self.grid(rows), &arguments);
                if station.kind == Kind::Decoder {
                    let operand = station.operand.numbers();
                    let (product, mut scores) =
                        times(&station.layer.matrices[1], &operand, e as usize);
                    station.products.push(product);
                    self.choose_words(station, &mut scores, signals);
                }
            }
            Kind::Gru => {
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .pointer(self.pool.pointer())
                    .number(self.width as u32);
                arguments
                    .pointer(narrow.pointer())
                    .pointer(station.layer.biases[0].pointer());
                arguments
                    .pointer(station.operand.pointer())
                    .pointer(station.candidate.pointer());
                arguments.number(e).number(h).pointer(station.age.pointer());
                self.launch("gru_reset", self.grid(rows), &arguments);
                let (product, mut candidate) =
                    times(&station.layer.matrices[1], &station.candidate.numbers(), 0);
                station.products.push(product);
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .states(self)
                    .words(station.layer.embedding.pointer(), &self.spec);
                arguments
                    .pointer(station.operand.pointer())
                    .pointer(narrow.pointer())
                    .pointer(candidate.pointer());
                arguments
                    .pointer(station.layer.biases[0].pointer())
                    .number(e)
                    .number(h);
                arguments.tail(self, station, signals);
                self.launch("gru_update", self.grid(rows), &arguments);
            }
            Kind::Leaf | Kind::SumLeaf | Kind::Pair => {
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .states(self)
                    .pointer(narrow.pointer());
                arguments
                    .pointer(station.layer.biases[0].pointer())
                    .number(h)
                    .tail(self, station, signals);
                let name = if station.kind == Kind::Pair {
                    "step_pair"
                } else {
                    "step_leaf"
                };
                self.launch(name, self.grid(rows), &arguments);
            }
            Kind::Sum => {
                let (of_word, mut narrow_of_word) = times(&station.layer.matrices[1], &operand, 0);
                let children = station.children.numbers();
                let of_child = station.layer.matrices[2].times(
                    station.children_size,
                    &children,
                    h as usize,
                    0,
                );
                let mut narrow_of_child = floats(of_child.len());
                narrow_of_child
                    .iter_mut()
                    .zip(&of_child)
                    .for_each(|(narrow, number)| *narrow = *number as f32);
                station.products.extend([of_word, of_child]);
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .states(self)
                    .pointer(narrow.pointer());
                arguments
                    .pointer(station.layer.biases[0].pointer())
                    .pointer(narrow_of_word.pointer());
                arguments
                    .pointer(narrow_of_child.pointer())
                    .pointer(station.layer.biases[1].pointer())
                    .number(h);
                arguments.tail(self, station, signals);
                self.launch("step_sum", self.grid(rows), &arguments);
            }
        }
    }

    /// The same with the fused kernels.
    fn fused_step(&mut self, station: &mut Station, fused: &mut Fused, signals: bool) {
        let (h, e) = (self.spec.hidden, self.spec.embedding);
        let stride = station.stride(&self.spec);
        let grid = Grid {
            blocks: [h.div_ceil(8), self.cut.rows, 1],
            ..self.grid(station.size)
        };
        let bias = station.layer.biases[0].pointer();
        let mut arguments = Arguments::default();
        arguments.table(station);
        match station.kind {
            Kind::Lstm | Kind::Encoder => {
                arguments
                    .states(self)
                    .words(station.layer.embedding.pointer(), &self.spec);
                arguments
                    .number((station.kind == Kind::Encoder).into())
                    .pointer(station.operand.pointer())
                    .pointer(fused.next.pointer())
                    .pointer(fused.weights[0].pointer())
                    .pointer(bias)
                    .number(e)
                    .number(h)
                    .tail(self, station, signals);
                self.launch("fused_lstm", grid, &arguments);
                std::mem::swap(&mut station.operand, &mut fused.next);
            }
            Kind::Gru => {
                arguments
                    .pointer(self.pool.pointer())
                    .number(self.width as u32)
                    .pointer(station.operand.pointer())
                    .pointer(station.candidate.pointer())
                    .pointer(fused.updates.pointer())
                    .pointer(fused.weights[0].pointer())
                    .pointer(bias)
                    .number(e)
                    .number(h)
                    .pointer(station.age.pointer());
                self.launch("fused_gru_reset", grid, &arguments);
                let candidate = station.candidate.numbers();
                let matrix = &station.layer.matrices[1];
                station
                    .products
                    .push(matrix.times(station.size, &candidate, stride, 0));
                let mut arguments = Arguments::default();
                arguments
                    .table(station)
                    .states(self)
                    .words(station.layer.embedding.pointer(), &self.spec);
                arguments
                    .pointer(station.operand.pointer())
                    .pointer(station.candidate.pointer())
                    .pointer(fused.updates.pointer())
                    .pointer(fused.weights[1].pointer())
                    .pointer(bias)
                    .number(e)
                    .number(h)
                    .tail(self, station, signals);
                self.launch("fused_gru_update", grid, &arguments);
            }
            Kind::Leaf | Kind::SumLeaf | Kind::Pair => {
                arguments
                    .states(self)
                    .pointer(station.operand.pointer())
                    .pointer(fused.weights[0].pointer())
                    .pointer(bias)
                    .number(stride as u32)
                    .number(h)
                    .tail(self, station, signals);
                let is_pair = station.kind == Kind::Pair;
                let name = if is_pair { "fused_pair" } else { "fused_leaf" };
                self.launch(name, grid, &arguments);
            }
            Kind::Decoder | Kind::Sum => unreachable!("its steps are never fused"),
        }
    }

    /// The second half of a decoder step, from scores.
    pub fn choose_words(&mut self, station: &mut Station, scores: &mut Memory<f32>, signals: bool) {
        let (h, e) = (self.spec.hidden, self.spec.embedding);
        let mut arguments = Arguments::default();
        arguments
            .table(station)
            .states(self)
            .pointer(scores.pointer());
        arguments
            .pointer(station.layer.biases[1].pointer())
            .number(self.spec.vocabulary);
        arguments
            .pointer(self.words.pointer())
            .pointer(station.layer.embedding.pointer());
        arguments
            .pointer(station.operand.pointer())
            .number(e)
            .number(h)
            .tail(self, station, signals);
        let grid = self.grid(station.size);
        self.launch(
            "decoder_word",
            Grid {
                blocks: [1, grid.blocks[1], 1],
                ..grid
            },
            &arguments,
        );
    }

    /// The signal as a kernel of its own.
    pub fn signal(&mut self) {
        let mut arguments = Arguments::default();
        arguments
            .pointer(self.counted.pointer())
            .pointer(self.host.pointer());
        let grid = Grid {
            blocks: [1, 1, 1],
            threads: 1,
            shared: 0,
            seed: self.cut.seed,
            together: false,
            cluster: 1,
        };
        self.launch("signal", grid, &arguments);
    }

    fn grid(&self, rows: usize) -> Grid {
        let blocks = [self.cut.units, self.cut.rows.min(rows as u32), 1];
        Grid {
            blocks,
            threads: THREADS,
            shared: 0,
            seed: self.cut.seed,
            together: false,
            cluster: 1,
        }
    }

    fn launch(&self, name: &str, grid: Grid, arguments: &Arguments) {
        // SAFETY: `gather`, `step` and the others give each kernel the arguments of its source, in order. Their pointers are
        // those of memory that outlives the launch and has room for what the sizes beside them say.
        let launched = unsafe {
            self.kernels
                .kernel(name, self.element)
                .launch(grid, &arguments.0)
        };
        launched.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    }
}

/// The room for the words that requests write.
const WORDS: usize = 1000;

#[derive(Default)]
struct Arguments(Vec<Argument>);

impl Arguments {
    fn pointer<T>(&mut self, pointer: impl Into<Pointer<T>>) -> &mut Arguments {
        self.0.push(pointer.into().0.into());
        self
    }

    fn number(&mut self, number: u32) -> &mut Arguments {
        self.0.push(number.into());
        self
    }

    /// The table of rows, as steps read it.
    fn table(&mut self, station: &mut Station) -> &mut Arguments {
        self.pointer(station.rows.pointer())
            .pointer(station.inputs.pointer())
            .number(station.size as u32)
    }

    /// Where states go.
    fn states(&mut self, device: &mut Device) -> &mut Arguments {
        self.pointer(device.pool.pointer())
            .number(device.width as u32)
            .pointer(device.broken.pointer())
    }

    /// Where words come from.
    fn words(&mut self, embedding: *mut u8, spec: &Spec) -> &mut Arguments {
        self.pointer(embedding);
        self.0.push(spec.seed.into());
        self.number(spec.vocabulary)
    }

    /// How a cell's last kernel ends.
    fn tail(
        &mut self,
        device: &mut Device,
        station: &mut Station,
        signals: bool,
    ) -> &mut Arguments {
        self.pointer(device.arrived.pointer())
            .pointer(station.age.pointer());
        self.pointer(device.counted.pointer())
            .pointer(device.host.pointer())
            .number(signals.into())
    }
}

/// A pointer that a kernel may or may not write through.
struct Pointer<T>(*mut T);

impl<T> From<*mut T> for Pointer<T> {
    fn from(pointer: *mut T) -> Pointer<T> {
        Pointer(pointer)
    }
}

impl<T> From<*const T> for Pointer<T> {
    fn from(pointer: *const T) -> Pointer<T> {
        Pointer(pointer.cast_mut())
    }
}
