//! A device that computes with the network of the CPU, as late and in as odd an order as streams and events leave open, and
//! finds out who relies on more than that.
//!
//! What is queued runs when the host queues more or looks at a signal, some of it, from any stream that need not wait. Every access to
//! a slot is held against those before it by vector clocks: two of which one writes have to be ordered by their stream, by
//! an event, or by a signal that the host has seen, whatever the order in which they happened to run. Only where a worker dies
//! before it has run something that uses a slot, nobody can be behind that: what the request comes to is lost with the
//! worker, and its slots may be in disorder until they are given back.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::RngExt as _;

use crate::backend::cuda::device::{Batch, Device, Event, Fault, HostPlace, Needs, Plan, Row, Shape, Slot, Stream};
use crate::network::operators::{Activations, Operators};
use crate::network::{self, Network, Scratch};
use crate::units::{CellId, RequestId, WorkerId};
use crate::workload::random;

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// The launch of this number, from 1, fails.
    pub launch: Option<u64>,
    /// The plan of this number, from 1, can't be prepared, nor can those behind it while so many are held.
    pub prepare: Option<(u64, usize)>,
    /// The worker does nothing more once so many of its operations have run, and says so when it is asked.
    pub dies: Option<(WorkerId, u64)>,
    /// The same, and whatever is queued from then on is refused.
    pub refuses: bool,
    /// The state after this node is no number.
    pub not_a_number: Option<(RequestId, u32)>,
}

/// The device.
pub struct Fake {
    /// How many states a worker has room for.
    pub slots: u32,
    /// The most steps that a persistent kernel runs; 0 for a device without any.
    pub most_steps: u32,
    pub trouble: Trouble,
    network: Arc<Network>,
    trees: bool,
    plans: Vec<Option<Shape>>,
    /// The most plans that were held at one time.
    pub most_plans: usize,
    prepared: u64,
    launches: u64,
    engine: RefCell<Engine>,
    fetched: Vec<OnceCell<Vec<f32>>>,
}

/// What runs.
struct Engine {
    rng: random::Stream,
    queues: Vec<Queue>,
    /// What the host knows to be done.
    host: Clock,
    places: BTreeMap<(WorkerId, Slot), Place>,
    tables: BTreeMap<(Stream, CellId), Table>,
    words: Vec<Option<u32>>,
    events: BTreeMap<(Stream, u64), Clock>,
    /// How many operations of each worker have run.
    ran: BTreeMap<WorkerId, u64>,
    /// Rows that were brought together, and rows that were computed.
    gathers: u64,
    computed: u64,
}

struct Queue {
    stream: Stream,
    operations: VecDeque<(u64, Clock, Operation)>,
    /// How many operations were queued.
    queued: u64,
    clock: Clock,
    events: u64,
    /// What was done at each count of the signal.
    signals: Vec<Clock>,
}

#[derive(Debug)]
enum Operation {
    Gather(Shape, Vec<Row>, Vec<Slot>),
    Launch(Shape),
    Signal,
    Record(u64),
    Wait(Event),
    CopyPeer((WorkerId, Slot), Slot),
    CopyToHost(Slot, HostPlace),
}

/// For each stream, how many of its operations are known to be done.
#[derive(Clone, Debug, Default)]
struct Clock(Vec<u64>);

impl Clock {
    fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }

    fn set(&mut self, stream: usize, count: u64) {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] = count;
    }

    fn knows(&self, (stream, count): (usize, u64)) -> bool {
        self.0.get(stream).is_some_and(|known| *known >= count)
    }
}

impl Operation {
    /// Whether it uses a slot.
    fn uses(&self, worker: WorkerId, at: (WorkerId, Slot)) -> bool {
        let of = |slot: &Slot| (worker, *slot) == at;
        match self {
            Operation::Gather(_, rows, inputs) => rows.iter().any(|row| of(&row.state)) || inputs.iter().any(of),
            Operation::CopyPeer(from, to) => *from == at || of(to),
            Operation::CopyToHost(slot, _) => of(slot),
            Operation::Launch(_) | Operation::Signal | Operation::Record(_) | Operation::Wait(_) => false,
        }
    }
}

/// A slot: its state, and which operations used it.
#[derive(Default)]
struct Place {
    state: Option<Vec<f32>>,
    writer: Option<(usize, u64)>,
    readers: Vec<(usize, u64)>,
    broken: bool,
    /// A dead worker had yet to use it.
    disorderly: bool,
}

impl Place {
    /// What stands there is good for nothing any more.
    fn spoil(&mut self, state: &[f32]) {
        self.disorderly = true;
        self.state.get_or_insert_with(|| state.to_vec());
    }

    fn read(&mut self, by: (usize, u64), clock: &Clock, what: impl std::fmt::Debug) -> Vec<f32> {
        self.readers.push(by);
        if let (true, Some(state)) = (self.disorderly, &self.state) {
            return state.clone();
        }
        let writer = self.writer.unwrap_or_else(|| panic!("{what:?} was never written"));
        assert!(clock.knows(writer), "{what:?} is read while it may be written");
        self.state.clone().expect("it was written")
    }

    fn write(&mut self, by: (usize, u64), clock: &Clock, state: Vec<f32>, what: impl std::fmt::Debug) {
        let known = self.writer.iter().chain(&self.readers).all(|other| clock.knows(*other));
        let (writer, readers) = (self.writer, &self.readers);
        assert!(
            known || self.disorderly,
            "{what:?} is written by {by:?}, who knows of {clock:?}, while it may be in use: written by {writer:?}, read by \
             {readers:?}"
        );
        self.broken |= !state.iter().all(|number| number.is_finite());
        if known {
            self.readers.clear();
        } else {
            self.readers.extend(self.writer);
        }
        (self.state, self.writer) = (Some(state), Some(by));
    }
}

/// The operands of a cell on a stream.
struct Table {
    shape: Shape,
    rows: Vec<Row>,
    inputs: Vec<Slot>,
    /// The states as they were brought together.
    taken: Vec<Vec<f32>>,
    age: u32,
}

impl Fake {
    pub fn new(network: &Arc<Network>, rng: random::Stream) -> Fake {
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
                gathers: 0,
                computed: 0,
            }),
            fetched: Vec::new(),
        }
    }

    /// Runs what is queued in another order.
    pub fn shuffle(&mut self, rng: random::Stream) {
        self.engine.get_mut().rng = rng;
    }

    /// How many plans are held.
    pub fn plans(&self) -> usize {
        self.plans.iter().flatten().count()
    }

    /// What the plans that are held are for.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.plans.iter().flatten()
    }

    /// How many times a batch was brought together, and how many rows were computed with their padding.
    pub fn counts(&self) -> (u64, u64) {
        let engine = self.engine.borrow();
        (engine.gathers, engine.computed)
    }

    /// Whether all that was queued on workers that are well has run, but for events that nobody waits for.
    pub fn is_idle(&self) -> bool {
        let engine = self.engine.borrow();
        let events = |queue: &Queue| queue.operations.iter().all(|(_, _, left)| matches!(left, Operation::Record(_)));
        engine.queues.iter().all(|queue| events(queue) || self.is_dead(&engine, queue.stream.worker))
    }

    /// Whether a worker has died.
    pub fn has_died(&self, worker: WorkerId) -> bool {
        self.is_dead(&self.engine.borrow(), worker)
    }

    fn is_dead(&self, engine: &Engine, worker: WorkerId) -> bool {
        let ran = engine.ran.get(&worker).copied().unwrap_or(0);
        self.trouble.dies.is_some_and(|(who, after)| who == worker && ran >= after)
    }

    fn push(&self, stream: Stream, operation: Operation) -> Result<(), Fault> {
        let mut engine = self.engine.borrow_mut();
        if self.trouble.refuses && self.is_dead(&engine, stream.worker) {
            engine.give_up(stream.worker, self.network.state());
            return Err(Fault { reason: "it fell off the bus".into(), lost: true });
        }
        let host = engine.host.clone();
        let at = engine.place_of(stream);
        let queue = &mut engine.queues[at];
        queue.queued += 1;
        let number = queue.queued;
        queue.operations.push_back((number, host, operation));
        // The device does not wait for the host to have said everything.
        for _ in 0..engine.rng.random_range(0..3) {
            self.run_one(&mut engine);
        }
        Ok(())
    }

    /// What a stream can't have of another worker is no fault of its own worker's.
    fn ask_other(&mut self, other: WorkerId, stream: Stream) -> Result<(), Fault> {
        let dead = self.trouble.refuses && other != stream.worker && self.is_dead(&self.engine.borrow(), other);
        if dead { Err(Fault { reason: "its neighbour is gone".into(), lost: false }) } else { Ok(()) }
    }

    fn shape(&self, plan: Plan) -> Shape {
        self.plans[plan.0 as usize].expect("a plan that is launched is held")
    }

    /// Runs the first operation of a stream that need not wait. Says whether there was one.
    fn run_one(&self, engine: &mut Engine) -> bool {
        let ready = |queue: &Queue| match queue.operations.front() {
            _ if self.is_dead(engine, queue.stream.worker) => false,
            None => false,
            Some((_, _, Operation::Wait(event))) => {
                engine.events.contains_key(&(event.stream, event.number)) || self.is_dead(engine, event.stream.worker)
            }
            Some(_) => true,
        };
        let streams: Vec<usize> = (0..engine.queues.len()).filter(|stream| ready(&engine.queues[*stream])).collect();
        if streams.is_empty() {
            return false;
        }
        let at = streams[engine.rng.random_range(0..streams.len())];
        let queue = &mut engine.queues[at];
        let stream = queue.stream;
        let (number, host, operation) = queue.operations.pop_front().expect("an operation is ready");
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
        stream: Stream,
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
                let state = match self.is_dead(engine, from) {
                    true => vec![0.5; self.network.state()],
                    false => engine.place(from, slot).read(by, clock, (from, slot)),
                };
                engine.place(worker, to).write(by, clock, state, (worker, to));
            }
            Operation::CopyToHost(slot, place) => {
                let state = engine.place(worker, slot).read(by, clock, (worker, slot));
                assert_eq!(place.numbers as usize, state.len(), "there is room for the state, and for no more");
                self.fetched[place.number as usize].set(state).expect("a place is fetched to once");
            }
            Operation::Gather(shape, rows, inputs) => {
                engine.gathers += 1;
                let taken = inputs.iter().map(|slot| engine.place(worker, *slot).read(by, clock, (worker, slot)));
                let taken = taken.collect();
                let mut begin = 0;
                for row in &rows {
                    if !self.trees {
                        match &inputs[begin as usize..row.inputs_end as usize] {
                            [] => {
                                let zero = vec![0.0; self.network.state()];
                                engine.place(worker, row.state).write(by, clock, zero, (worker, row.state));
                            }
                            [slot] => assert_eq!(*slot, row.state, "a chain goes on in its slot"),
                            more => panic!("a node of a chain takes {} states", more.len()),
                        }
                    }
                    begin = row.inputs_end;
                }
                engine.tables.insert((stream, shape.cell), Table { shape, rows, inputs, taken, age: 0 });
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

    /// What a cell comes to on these rows.
    fn stepped(&self, shape: Shape, tokens: &[u32], states: &[f32], state_ends: &[u32]) -> Vec<Vec<f32>> {
        let rows = tokens.len();
        let token_ends: Vec<u32> = (1..=rows as u32).collect();
        let batch = network::Batch { rows, tokens, token_ends: &token_ends, padded_to: 0, states, state_ends };
        let mut out = vec![0.0; rows * self.network.state()];
        if rows > 0 {
            self.network.cell(shape.cell).run(&batch, &mut out, &mut Scratch::default());
        }
        out.chunks_exact(self.network.state()).map(<[f32]>::to_vec).collect()
    }

    fn compute(&self, engine: &mut Engine, by: (usize, u64), stream: Stream, clock: &Clock, shape: Shape) {
        let worker = stream.worker;
        let mut table = engine.tables.remove(&(stream, shape.cell)).expect("a gather comes before the first launch");
        assert_eq!(table.shape, shape, "the plan that is launched is for the batch that was brought together");
        engine.computed += u64::from(shape.rows);
        let mut begin = 0;
        let (mut tokens, mut states, mut state_ends, mut live) = (vec![], Vec::<Vec<f32>>::new(), vec![], vec![]);
        let mut read = vec![];
        for row in &table.rows {
            let inputs = begin as usize..row.inputs_end as usize;
            begin = row.inputs_end;
            let node = row.node + table.age;
            if node > row.last {
                continue;
            }
            tokens.push(self.network.token(row.request, node));
            let slots = if table.age > 0 { vec![row.state] } else { table.inputs[inputs.clone()].to_vec() };
            for (place, slot) in slots.iter().enumerate() {
                let state = engine.place(worker, *slot).read(by, clock, (worker, slot));
                if table.age == 0 {
                    let taken = &table.taken[inputs.start + place];
                    let same = state.iter().zip(taken).all(|(now, then)| now.to_bits() == then.to_bits());
                    assert!(same || engine.place(worker, *slot).disorderly, "{slot:?} changed");
                }
                states.push(state);
                read.push((live.len(), *slot));
            }
            state_ends.push(states.len() as u32);
            live.push((*row, node));
        }
        for (place, (row, _)) in live.iter().enumerate() {
            let others = read.iter().filter(|(reader, slot)| *slot == row.state && *reader != place).count()
                + live.iter().enumerate().filter(|(other, (r, _))| r.state == row.state && *other != place).count();
            assert_eq!(others, 0, "{:?} is written by one row and used by another of the same launch", row.state);
        }
        table.age += 1;
        let came = match self.network.operators() {
            Some(operators) => operated(operators, shape, &live, &states),
            None => self.stepped(shape, &tokens, &states.concat(), &state_ends),
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
            engine.place(worker, row.state).write(by, clock, out, (worker, row.state));
        }
        engine.tables.insert((stream, shape.cell), table);
    }

    /// Runs all steps of a launch of a persistent kernel. No launch goes on from it.
    fn compute_sequences(&self, engine: &mut Engine, by: (usize, u64), stream: Stream, clock: &Clock, shape: Shape) {
        let table = engine.tables.remove(&(stream, shape.cell)).expect("a gather comes before a launch");
        assert_eq!(table.shape, shape, "the plan that is launched is for the batch that was brought together");
        assert!(shape.steps <= self.most_steps, "a launch has no more steps than the device can run");
        engine.computed += u64::from(shape.rows) * u64::from(shape.steps);
        let mut inputs = table.taken.iter();
        let mut begin = 0;
        for row in &table.rows {
            assert!(row.last - row.node < shape.steps, "a row ends with the launch");
            let mut state: Vec<f32> =
                if row.inputs_end > begin { inputs.next().cloned() } else { None }.unwrap_or_default();
            begin = row.inputs_end;
            assert_eq!(state.is_empty(), row.node == 0, "all but a first node take a state");
            if row.node > 0 {
                engine.place(stream.worker, row.state).read(by, clock, (stream.worker, row.state));
            }
            for node in row.node..=row.last {
                let ends = [u32::from(node > 0)];
                let token = self.network.token(row.request, node);
                state = self.stepped(shape, &[token], &state, &ends).remove(0);
                if self.trouble.not_a_number == Some((row.request, node)) {
                    state[0] = f32::NAN;
                }
            }
            engine.place(stream.worker, row.state).write(by, clock, state, (stream.worker, row.state));
        }
    }
}

/// What an operator of a listed network comes to on these nodes: those that are no first ones have a state each.
fn operated(operators: &Operators, shape: Shape, live: &[(Row, u32)], states: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let (mut from, mut into) = (Activations::default(), Activations::default());
    let mut states = states.iter();
    for (row, node) in live {
        from.push(row.tokens, |numbers| match node {
            0 => operators.draw(row.request, row.tokens, numbers),
            _ => numbers.extend(states.next().expect("a node that is no first one takes a state")),
        });
    }
    from.pad(shape.rows as usize);
    let sized = !operators.network().distinct()[shape.cell.index()].form.is_constant();
    assert!(!sized || shape.tokens >= from.longest(), "the batch is padded to its longest");
    assert!(sized || shape.tokens == 0, "an operator of one size has one plan for a batch");
    operators.run(shape.cell, shape.tokens, &from, &mut into, &mut Scratch::default());
    (0..live.len()).map(|place| into.of(place).to_vec()).collect()
}

impl Engine {
    fn place_of(&mut self, stream: Stream) -> usize {
        self.queues.iter().position(|queue| queue.stream == stream).unwrap_or_else(|| {
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

    /// What a dead worker has run was before its death; behind what it had yet to run nobody will ever be.
    fn bury(&mut self, worker: WorkerId, mourner: &mut Clock, width: usize) {
        let Engine { queues, places, .. } = self;
        for (stream, queue) in queues.iter().enumerate().filter(|(_, queue)| queue.stream.worker == worker) {
            mourner.join(&queue.clock);
            mourner.set(stream, u64::MAX);
            for (.., left) in &queue.operations {
                if let Operation::CopyPeer(from, _) = left {
                    places.entry(*from).or_default().spoil(&vec![0.5; width]);
                }
            }
        }
    }

    /// The host is told that a worker is dead: nothing of it uses anything any more.
    fn give_up(&mut self, worker: WorkerId, width: usize) {
        let mut host = std::mem::take(&mut self.host);
        self.bury(worker, &mut host, width);
        self.host = host;
    }

    fn place(&mut self, worker: WorkerId, slot: Slot) -> &mut Place {
        self.places.entry((worker, slot)).or_default()
    }
}

impl Device for Fake {
    fn begin(&mut self, _: usize, needs: &Needs) -> Result<(), Fault> {
        let engine = self.engine.get_mut();
        engine.queues.clear();
        engine.host = Clock::default();
        engine.places.clear();
        engine.tables.clear();
        engine.events.clear();
        engine.words = vec![None; needs.words as usize];
        self.fetched = (0..needs.fetched).map(|_| OnceCell::new()).collect();
        Ok(())
    }

    fn slots(&self, _: WorkerId) -> u32 {
        self.slots
    }

    fn most_steps(&self, _: u32) -> u32 {
        self.most_steps
    }

    fn prepare(&mut self, shape: Shape) -> Result<Plan, Fault> {
        if let Some(ready) = self.plans.iter().position(|plan| *plan == Some(shape)) {
            return Ok(Plan(ready as u32));
        }
        self.prepared += 1;
        if self.trouble.prepare.is_some_and(|(from, held)| self.prepared >= from && self.plans() >= held) {
            return Err(Fault { reason: "out of memory".into(), lost: false });
        }
        self.plans.push(Some(shape));
        self.most_plans = self.most_plans.max(self.plans());
        Ok(Plan(self.plans.len() as u32 - 1))
    }

    fn release(&mut self, plan: Plan) {
        self.plans[plan.0 as usize].take().expect("a plan is given up once");
    }

    fn gather(&mut self, plan: Plan, batch: &Batch<'_>) -> Result<(), Fault> {
        let shape = self.shape(plan);
        assert!(batch.rows.len() <= shape.rows as usize, "the rows fit the plan");
        assert!(shape.inputs == 0 || batch.inputs.len() <= shape.inputs as usize, "the inputs fit the plan");
        self.push(shape.stream, Operation::Gather(shape, batch.rows.to_vec(), batch.inputs.to_vec()))
    }

    fn launch(&mut self, plan: Plan) -> Result<(), Fault> {
        self.launches += 1;
        if self.trouble.launch == Some(self.launches) {
            return Err(Fault { reason: "too many resources".into(), lost: false });
        }
        let shape = self.shape(plan);
        self.push(shape.stream, Operation::Launch(shape))
    }

    fn signal(&mut self, stream: Stream) -> Result<(), Fault> {
        self.push(stream, Operation::Signal)
    }

    fn signalled(&self, stream: Stream) -> u64 {
        let mut engine = self.engine.borrow_mut();
        for _ in 0..engine.rng.random_range(0..4) {
            self.run_one(&mut engine);
        }
        let Some(queue) = engine.queues.iter().find(|queue| queue.stream == stream) else { return 0 };
        let (counted, done) = (queue.signals.len() as u64, queue.signals.last().cloned());
        done.into_iter().for_each(|done| engine.host.join(&done));
        counted
    }

    fn record(&mut self, stream: Stream) -> Result<Event, Fault> {
        let engine = self.engine.get_mut();
        let at = engine.place_of(stream);
        engine.queues[at].events += 1;
        let number = engine.queues[at].events;
        self.push(stream, Operation::Record(number))?;
        Ok(Event { stream, number })
    }

    fn wait(&mut self, stream: Stream, event: Event) -> Result<(), Fault> {
        self.ask_other(event.stream.worker, stream)?;
        self.push(stream, Operation::Wait(event))
    }

    fn copy_peer(&mut self, from: (WorkerId, Slot), (stream, slot): (Stream, Slot)) -> Result<(), Fault> {
        assert_ne!(from.0, stream.worker, "a state is migrated from another worker");
        if let Err(fault) = self.ask_other(from.0, stream) {
            // Nothing is written there, and what stands there anyway is used.
            let state = vec![0.5; self.network.state()];
            self.engine.get_mut().place(stream.worker, slot).spoil(&state);
            return Err(fault);
        }
        self.push(stream, Operation::CopyPeer(from, slot))
    }

    fn copy_to_host(&mut self, stream: Stream, slot: Slot, place: HostPlace) -> Result<(), Fault> {
        self.push(stream, Operation::CopyToHost(slot, place))
    }

    fn fetched(&self, place: HostPlace) -> &[f32] {
        self.fetched[place.number as usize].get().expect("a state is read when it has been fetched")
    }

    fn word(&self, place: u32) -> u32 {
        self.engine.borrow().words[place as usize].expect("a word is read when it has been written")
    }

    fn take_non_finite(&mut self, worker: WorkerId, slot: Slot) -> bool {
        let mut engine = self.engine.borrow_mut();
        for queue in engine.queues.iter().filter(|queue| !self.is_dead(&engine, queue.stream.worker)) {
            let waiting = queue.operations.iter().find(|(.., left)| left.uses(queue.stream.worker, (worker, slot)));
            assert!(waiting.is_none(), "{slot:?} of worker {worker} is asked about before {waiting:?} has run");
        }
        let host = engine.host.clone();
        let place = engine.place(worker, slot);
        let known = place.writer.iter().chain(&place.readers).all(|other| host.knows(*other));
        assert!(known, "{slot:?} of worker {worker} is asked about while it may be in use");
        place.disorderly = false;
        std::mem::take(&mut place.broken)
    }

    fn health(&mut self, worker: WorkerId) -> Result<(), Fault> {
        if self.is_dead(&self.engine.borrow(), worker) {
            let width = self.network.state();
            self.engine.get_mut().give_up(worker, width);
            return Err(Fault { reason: "it fell off the bus".into(), lost: true });
        }
        Ok(())
    }
}
