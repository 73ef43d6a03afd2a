//! A fake device that computes with the CPU's network, late and in any order that streams and events permit, and
//! detects missing synchronisation.
//!
//! When the host queues more work or reads a signal, a random part of the queued work runs, from any stream that does
//! not wait. Vector clocks check every access to a slot: two accesses of which one writes must be ordered by their
//! stream, by an event, or by a signal that the host has seen, in whichever order they happened to run. The exception
//! is a worker that dies before it has run an access. Nothing can be ordered after that access, so the request is lost
//! with the worker, and its slots may be in disorder until they are returned.

mod calls;
mod slots;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use rand::RngExt as _;

use self::slots::{Clock, Place};
use crate::base::units::{CellId, RequestId, WorkerId};
use crate::core::workload::random;
use crate::devices::cuda::device::{
    BatchShape, DeviceFault, DeviceStream, Event, GatherRow, HostPlace, PlanId, RowUpdate,
    StateSlot,
};
use crate::devices::network::operators::{Activations, Operators};
use crate::devices::network::{self, Network, Scratch};

/// The faults of a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// The number of the launch that fails, from 1.
    pub launch: Option<u64>,
    /// The number of the first plan, from 1, that can't be prepared while this number of plans is held.
    pub prepare: Option<(u64, usize)>,
    /// The worker stops after this number of operations, and reports its loss when queried.
    pub dies: Option<(WorkerId, u64)>,
    /// Whether the dead worker also refuses all later calls.
    pub refuses: bool,
    /// Whether the worker hangs instead: queries find nothing wrong, its states can be read, and its events wait until
    /// it is given up.
    pub hangs: bool,
    /// The node after which the state is a NaN.
    pub not_a_number: Option<(RequestId, u32)>,
}

pub struct Fake {
    /// The number of states in a worker's pool.
    pub slots: u32,
    /// The most steps of a persistent kernel; 0 for a device without any.
    pub most_steps: u32,
    pub trouble: Trouble,
    network: Arc<Network>,
    trees: bool,
    plans: Vec<Option<BatchShape>>,
    /// The largest number of plans held at any time.
    pub most_plans: usize,
    prepared: u64,
    launches: u64,
    engine: RefCell<Engine>,
    fetched: Vec<OnceCell<Vec<f32>>>,
}

struct Engine {
    rng: random::RandomSequence,
    queues: Vec<Queue>,
    /// The operations that the host knows to be done.
    host: Clock,
    places: BTreeMap<(WorkerId, StateSlot), Place>,
    tables: BTreeMap<(DeviceStream, CellId), Table>,
    words: Vec<Option<u32>>,
    events: BTreeMap<(DeviceStream, u64), Clock>,
    /// The number of operations that each worker has run.
    ran: BTreeMap<WorkerId, u64>,
    given_up: bool,
    /// The number of gathers of whole batches.
    gathers: u64,
    /// The number of rows that were gathered, in whole batches and by changes.
    gathered: u64,
    /// The number of computed rows, padding included.
    computed: u64,
}

struct Queue {
    stream: DeviceStream,
    operations: VecDeque<(u64, Clock, Operation)>,
    queued: u64,
    clock: Clock,
    events: u64,
    /// The operations known to be done at each count of the signal.
    signals: Vec<Clock>,
}

#[derive(Debug)]
enum Operation {
    Gather(BatchShape, Vec<GatherRow>, Vec<StateSlot>),
    Change(BatchShape, Vec<RowUpdate>),
    Launch(BatchShape),
    Signal,
    Record(u64),
    Wait(Event),
    CopyPeer((WorkerId, StateSlot), StateSlot),
    CopyToHost(StateSlot, HostPlace),
}

impl Operation {
    fn uses(&self, worker: WorkerId, at: (WorkerId, StateSlot)) -> bool {
        let of = |slot: &StateSlot| (worker, *slot) == at;
        match self {
            Operation::Gather(_, rows, inputs) => {
                rows.iter().any(|row| of(&row.state)) || inputs.iter().any(of)
            }
            Operation::Change(_, changes) => changes
                .iter()
                .filter_map(|change| change.row)
                .any(|row| of(&row.state)),
            Operation::CopyPeer(from, to) => *from == at || of(to),
            Operation::CopyToHost(slot, _) => of(slot),
            Operation::Launch(_)
            | Operation::Signal
            | Operation::Record(_)
            | Operation::Wait(_) => false,
        }
    }
}

struct Table {
    shape: BatchShape,
    /// The rows; `None` is padding.
    rows: Vec<Option<FakeRow>>,
    /// The launches since the gather.
    age: u32,
}

#[derive(Clone)]
struct FakeRow {
    /// The row, with the node that it would have run in the first launch after the gather.
    row: GatherRow,
    /// The age of the table when the row was gathered.
    from: u32,
    inputs: Vec<StateSlot>,
    /// The gathered states.
    taken: Vec<Vec<f32>>,
}

impl Fake {
    pub fn new(network: &Arc<Network>, rng: random::RandomSequence) -> Fake {
        Fake {
            slots: 100_000,
            most_steps: 0,
            trouble: Trouble::default(),
            trees: network.model().takes_trees(),
            network: Arc::clone(network),
            plans: Vec::new(),
            most_plans: 0,
            prepared: 0,
            launches: 0,
            engine: RefCell::new(Engine {
                rng,
                queues: Vec::new(),
                host: Clock::default(),
                places: BTreeMap::new(),
                tables: BTreeMap::new(),
                words: Vec::new(),
                events: BTreeMap::new(),
                ran: BTreeMap::new(),
                given_up: false,
                gathers: 0,
                gathered: 0,
                computed: 0,
            }),
            fetched: Vec::new(),
        }
    }

    /// Changes the order in which queued work runs.
    pub fn shuffle(&mut self, rng: random::RandomSequence) {
        self.engine.get_mut().rng = rng;
    }

    /// The number of plans held.
    pub fn plans(&self) -> usize {
        self.plans.iter().flatten().count()
    }

    pub fn shapes(&self) -> impl Iterator<Item = &BatchShape> {
        self.plans.iter().flatten()
    }

    /// The number of gathers, and of computed rows with padding.
    pub fn counts(&self) -> (u64, u64) {
        let engine = self.engine.borrow();
        (engine.gathers, engine.computed)
    }

    /// The number of rows that were gathered.
    pub fn gathered(&self) -> u64 {
        self.engine.borrow().gathered
    }

    /// Whether all work queued on live workers has run, except events for which no stream waits.
    pub fn is_idle(&self) -> bool {
        let engine = self.engine.borrow();
        let events = |queue: &Queue| {
            queue
                .operations
                .iter()
                .all(|(_, _, left)| matches!(left, Operation::Record(_)))
        };
        engine
            .queues
            .iter()
            .all(|queue| events(queue) || self.is_dead(&engine, queue.stream.worker))
    }

    pub fn has_died(&self, worker: WorkerId) -> bool {
        self.is_dead(&self.engine.borrow(), worker)
    }

    fn is_dead(&self, engine: &Engine, worker: WorkerId) -> bool {
        let ran = engine.ran.get(&worker).copied().unwrap_or(0);
        self.trouble
            .dies
            .is_some_and(|(who, after)| who == worker && ran >= after)
    }

    /// Whether a worker is dead and no longer hangs.
    fn is_gone(&self, engine: &Engine, worker: WorkerId) -> bool {
        self.is_dead(engine, worker) && (engine.given_up || !self.trouble.hangs)
    }

    fn push(&self, stream: DeviceStream, operation: Operation) -> Result<(), DeviceFault> {
        let mut engine = self.engine.borrow_mut();
        if self.trouble.refuses && self.is_dead(&engine, stream.worker) {
            engine.give_up(stream.worker, self.network.state());
            return Err(DeviceFault {
                reason: "it fell off the bus".into(),
                lost: true,
            });
        }
        let host = engine.host.clone();
        let at = engine.place_of(stream);
        let queue = &mut engine.queues[at];
        queue.queued += 1;
        let number = queue.queued;
        queue.operations.push_back((number, host, operation));
        // The device need not wait until the host has queued everything.
        for _ in 0..engine.rng.random_range(0..3) {
            self.run_one(&mut engine);
        }
        Ok(())
    }

    /// Fails if another worker is dead. Such a fault is not one of the stream's own worker.
    fn ask_other(&mut self, other: WorkerId, stream: DeviceStream) -> Result<(), DeviceFault> {
        let dead = self.trouble.refuses
            && other != stream.worker
            && self.is_dead(&self.engine.borrow(), other);
        if dead {
            Err(DeviceFault {
                reason: "its neighbour is gone".into(),
                lost: false,
            })
        } else {
            Ok(())
        }
    }

    fn shape(&self, plan: PlanId) -> BatchShape {
        self.plans[plan.0 as usize].expect("a plan that is launched is held")
    }

    /// Runs the first operation of a stream that does not wait. Returns whether there was one.
    fn run_one(&self, engine: &mut Engine) -> bool {
        let ready = |queue: &Queue| match queue.operations.front() {
            // An event that follows what has run needs no kernel, so that it does not hang.
            Some((_, _, Operation::Record(_))) if self.trouble.hangs && !engine.given_up => true,
            _ if self.is_dead(engine, queue.stream.worker) => false,
            None => false,
            Some((_, _, Operation::Wait(event))) => {
                engine.events.contains_key(&(event.stream, event.number))
                    || self.is_gone(engine, event.stream.worker)
            }
            Some(_) => true,
        };
        let streams: Vec<usize> = (0..engine.queues.len())
            .filter(|stream| ready(&engine.queues[*stream]))
            .collect();
        if streams.is_empty() {
            return false;
        }
        let at = streams[engine.rng.random_range(0..streams.len())];
        let queue = &mut engine.queues[at];
        let stream = queue.stream;
        let (number, host, operation) =
            queue.operations.pop_front().expect("an operation is ready");
        let mut clock = std::mem::take(&mut queue.clock);
        clock.join(&host);
        clock.set(at, number);
        if let Operation::Wait(event) = &operation {
            match engine.events.get(&(event.stream, event.number)) {
                Some(other) => clock.join(other),
                None => engine.bury(event.stream.worker, &mut clock, self.network.state()),
            }
        }
        *engine.ran.entry(stream.worker).or_default() += 1;
        self.run_operation(engine, (at, number), stream, &clock, operation);
        engine.queues[at].clock = clock;
        true
    }

    fn run_operation(
        &self,
        engine: &mut Engine,
        by: (usize, u64),
        stream: DeviceStream,
        clock: &Clock,
        operation: Operation,
    ) {
        let worker = stream.worker;
        match operation {
            Operation::Wait(_) => {}
            Operation::Signal => engine.queues[by.0].signals.push(clock.clone()),
            Operation::Record(number) => {
                engine.events.insert((stream, number), clock.clone());
            }
            Operation::CopyPeer((from, slot), to) => {
                let state = match self.is_gone(engine, from) {
                    true => vec![0.5; self.network.state()],
                    false => engine.place(from, slot).read(by, clock, (from, slot)),
                };
                engine
                    .place(worker, to)
                    .write(by, clock, state, (worker, to));
            }
            Operation::CopyToHost(slot, place) => {
                let state = engine.place(worker, slot).read(by, clock, (worker, slot));
                assert_eq!(
                    place.numbers as usize,
                    state.len(),
                    "there is room for the state, and for no more"
                );
                self.fetched[place.number as usize]
                    .set(state)
                    .expect("a place is fetched to once");
            }
            Operation::Gather(shape, rows, inputs) => {
                engine.gathers += 1;
                let mut begin = 0;
                let mut gathered = Vec::new();
                for row in rows {
                    let own = inputs[begin as usize..row.inputs_end as usize].to_vec();
                    begin = row.inputs_end;
                    gathered.push(Some(
                        self.gather_row(engine, by, worker, clock, row, own, 0),
                    ));
                }
                gathered.resize(shape.rows as usize, None);
                engine.tables.insert(
                    (stream, shape.cell),
                    Table {
                        shape,
                        rows: gathered,
                        age: 0,
                    },
                );
            }
            Operation::Change(shape, changes) => {
                let mut table = engine
                    .tables
                    .remove(&(stream, shape.cell))
                    .expect("a gather comes before changes");
                let known = table.rows.len();
                let further = changes.iter().filter(|change| change.at as usize >= known);
                assert_eq!(
                    further.count(),
                    (shape.rows as usize).saturating_sub(known),
                    "each further row is named"
                );
                table.rows.resize(known.max(shape.rows as usize), None);
                for RowUpdate { at, row } in changes {
                    table.rows[at as usize] = row.map(|row| {
                        let own = if row.node > 0 {
                            vec![row.state]
                        } else {
                            Vec::new()
                        };
                        self.gather_row(engine, by, worker, clock, row, own, table.age)
                    });
                }
                engine.tables.insert((stream, shape.cell), table);
            }
            Operation::Launch(shape) => {
                match shape.steps {
                    0 => self.compute(engine, by, stream, clock, shape),
                    _ => self.compute_sequences(engine, by, stream, clock, shape),
                }
                if shape.signals {
                    engine.queues[by.0].signals.push(clock.clone());
                }
            }
        }
    }

    /// Gathers a row into a table that is this many launches old.
    #[expect(clippy::too_many_arguments, reason = "the access and the row")]
    fn gather_row(
        &self,
        engine: &mut Engine,
        by: (usize, u64),
        worker: WorkerId,
        clock: &Clock,
        row: GatherRow,
        inputs: Vec<StateSlot>,
        age: u32,
    ) -> FakeRow {
        engine.gathered += 1;
        let taken = inputs
            .iter()
            .map(|slot| engine.place(worker, *slot).read(by, clock, (worker, slot)))
            .collect();
        if !self.trees {
            match &inputs[..] {
                [] => {
                    let zero = vec![0.0; self.network.state()];
                    let at = (worker, row.state);
                    engine.place(worker, row.state).write(by, clock, zero, at);
                }
                [slot] => assert_eq!(*slot, row.state, "a chain goes on in its slot"),
                more => panic!("a node of a chain takes {} states", more.len()),
            }
        }
        FakeRow {
            row: GatherRow {
                node: row.node.wrapping_sub(age),
                ..row
            },
            from: age,
            inputs,
            taken,
        }
    }

    /// The results of a cell on these rows.
    fn stepped(
        &self,
        shape: BatchShape,
        tokens: &[u32],
        states: &[f32],
        states_at: &[Range<u32>],
    ) -> Vec<Vec<f32>> {
        let rows = tokens.len();
        let token_ends: Vec<u32> = (1..=rows as u32).collect();
        let batch = network::BatchInputs {
            rows,
            tokens,
            token_ends: &token_ends,
            padded_to: 0,
            states,
            states_at,
        };
        let mut out = vec![0.0; rows * self.network.state()];
        if rows > 0 {
            self.network
                .cell(shape.cell)
                .run(&batch, &mut out, &mut Scratch::default());
        }
        out.chunks_exact(self.network.state())
            .map(<[f32]>::to_vec)
            .collect()
    }

    fn compute(
        &self,
        engine: &mut Engine,
        by: (usize, u64),
        stream: DeviceStream,
        clock: &Clock,
        shape: BatchShape,
    ) {
        let worker = stream.worker;
        let mut table = engine
            .tables
            .remove(&(stream, shape.cell))
            .expect("a gather comes before the first launch");
        assert_eq!(
            BatchShape {
                rows: table.shape.rows,
                ..shape
            },
            BatchShape {
                signals: shape.signals,
                ..table.shape
            },
            "the plan that is launched is for the gathered batch"
        );
        assert!(
            shape.rows as usize <= table.rows.len(),
            "all rows are known"
        );
        // The host no longer knows of rows that a smaller plan leaves behind.
        let behind = table.rows.iter().skip(shape.rows as usize);
        let is_live = |row: &Option<FakeRow>| {
            row.as_ref()
                .is_some_and(|FakeRow { row, .. }| row.node.wrapping_add(table.age) <= row.last)
        };
        if behind.clone().any(is_live) {
            table.rows.truncate(shape.rows as usize);
        }
        engine.computed += u64::from(shape.rows);
        let mut tokens = vec![];
        let mut states = Vec::<Vec<f32>>::new();
        let mut states_at = vec![];
        let mut live = vec![];
        let mut read = vec![];
        for FakeRow {
            row,
            from,
            inputs,
            taken,
        } in table.rows.iter().flatten()
        {
            let node = row.node.wrapping_add(table.age);
            if node > row.last {
                continue;
            }
            tokens.push(self.network.token(row.request, node));
            let begun = states.len() as u32;
            let is_first = table.age == *from;
            let slots = if is_first {
                inputs.clone()
            } else {
                vec![row.state]
            };
            for (place, slot) in slots.iter().enumerate() {
                let state = engine.place(worker, *slot).read(by, clock, (worker, slot));
                if is_first {
                    let taken = &taken[place];
                    let same = state
                        .iter()
                        .zip(taken)
                        .all(|(now, then)| now.to_bits() == then.to_bits());
                    assert!(
                        same || engine.place(worker, *slot).disorderly,
                        "{slot:?} changed"
                    );
                }
                states.push(state);
                read.push((live.len(), *slot));
            }
            states_at.push(begun..states.len() as u32);
            live.push((*row, node));
        }
        for (place, (row, _)) in live.iter().enumerate() {
            let others = read
                .iter()
                .filter(|(reader, slot)| *slot == row.state && *reader != place)
                .count()
                + live
                    .iter()
                    .enumerate()
                    .filter(|(other, (r, _))| r.state == row.state && *other != place)
                    .count();
            assert_eq!(
                others, 0,
                "{:?} is written by one row and used by another of the same launch",
                row.state
            );
        }
        table.age += 1;
        let came = match self.network.operators() {
            Some(operators) => operated(operators, shape, &live, &states),
            None => self.stepped(shape, &tokens, &states.concat(), &states_at),
        };
        for ((row, node), mut out) in live.into_iter().zip(came) {
            if self.network.operators().is_none()
                && let Some(word) = self.network.cell(shape.cell).word(&out)
            {
                engine.words[(row.words + node) as usize] = Some(word);
            }
            if self.trouble.not_a_number == Some((row.request, node)) {
                out[0] = f32::NAN;
            }
            engine
                .place(worker, row.state)
                .write(by, clock, out, (worker, row.state));
        }
        engine.tables.insert((stream, shape.cell), table);
    }

    /// Runs all steps of a launch of a persistent kernel. No launch continues from it.
    fn compute_sequences(
        &self,
        engine: &mut Engine,
        by: (usize, u64),
        stream: DeviceStream,
        clock: &Clock,
        shape: BatchShape,
    ) {
        let table = engine
            .tables
            .remove(&(stream, shape.cell))
            .expect("a gather comes before a launch");
        assert_eq!(
            table.shape, shape,
            "the plan that is launched is for the gathered batch"
        );
        assert!(
            shape.steps <= self.most_steps,
            "a launch has no more steps than the device can run"
        );
        engine.computed += u64::from(shape.rows) * u64::from(shape.steps);
        for FakeRow { row, taken, .. } in table.rows.iter().flatten() {
            assert!(
                row.last - row.node < shape.steps,
                "a row ends with the launch"
            );
            let mut state: Vec<f32> = taken.first().cloned().unwrap_or_default();
            assert_eq!(
                state.is_empty(),
                row.node == 0,
                "all but a first node take a state"
            );
            if row.node > 0 {
                engine
                    .place(stream.worker, row.state)
                    .read(by, clock, (stream.worker, row.state));
            }
            for node in row.node..=row.last {
                let at = 0..u32::from(node > 0);
                let token = self.network.token(row.request, node);
                state = self.stepped(shape, &[token], &state, &[at]).remove(0);
                if self.trouble.not_a_number == Some((row.request, node)) {
                    state[0] = f32::NAN;
                }
            }
            engine.place(stream.worker, row.state).write(
                by,
                clock,
                state,
                (stream.worker, row.state),
            );
        }
    }
}

/// The results of an operator of a listed network on these nodes; all but first nodes have a state.
fn operated(
    operators: &Operators,
    shape: BatchShape,
    live: &[(GatherRow, u32)],
    states: &[Vec<f32>],
) -> Vec<Vec<f32>> {
    let mut from = Activations::default();
    let mut into = Activations::default();
    let mut states = states.iter();
    for (row, node) in live {
        from.push(row.tokens, |numbers| match node {
            0 => operators.draw(row.request, row.tokens, numbers),
            _ => numbers.extend(
                states
                    .next()
                    .expect("a node that is no first one takes a state"),
            ),
        });
    }
    from.pad(shape.rows as usize);
    let sized = !operators.network().distinct()[shape.cell.index()]
        .form
        .is_constant();
    assert!(
        !sized || shape.tokens >= from.longest(),
        "the batch is padded to its longest"
    );
    assert!(
        sized || shape.tokens == 0,
        "an operator of one size has one plan for a batch"
    );
    operators.run(
        shape.cell,
        shape.tokens,
        &from,
        &mut into,
        &mut Scratch::default(),
    );
    (0..live.len())
        .map(|place| into.values(place).to_vec())
        .collect()
}

impl Engine {
    fn place_of(&mut self, stream: DeviceStream) -> usize {
        self.queues
            .iter()
            .position(|queue| queue.stream == stream)
            .unwrap_or_else(|| {
                self.queues.push(Queue {
                    stream,
                    operations: VecDeque::new(),
                    queued: 0,
                    clock: Clock::default(),
                    events: 0,
                    signals: Vec::new(),
                });
                self.queues.len() - 1
            })
    }

    /// A dead worker's executed operations happened before its death. Nothing is ever ordered after its other
    /// operations.
    fn bury(&mut self, worker: WorkerId, mourner: &mut Clock, width: usize) {
        let Engine { queues, places, .. } = self;
        for (stream, queue) in queues
            .iter()
            .enumerate()
            .filter(|(_, queue)| queue.stream.worker == worker)
        {
            mourner.join(&queue.clock);
            mourner.set(stream, u64::MAX);
            for (.., left) in &queue.operations {
                if let Operation::CopyPeer(from, _) = left {
                    places.entry(*from).or_default().spoil(&vec![0.5; width]);
                }
            }
        }
    }

    /// Notes that the host knows of a worker's death: the worker no longer uses anything.
    fn give_up(&mut self, worker: WorkerId, width: usize) {
        self.given_up = true;
        let mut host = std::mem::take(&mut self.host);
        self.bury(worker, &mut host, width);
        self.host = host;
    }

    fn place(&mut self, worker: WorkerId, slot: StateSlot) -> &mut Place {
        self.places.entry((worker, slot)).or_default()
    }
}
