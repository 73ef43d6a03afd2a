//! Runs the core on the simulated backend, as a user of the library would, from a text that defines the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use batchlab::cost::CostModel;
use batchlab::cost::table::{CostTable, Overhead, TableCosts};
use batchlab::cost::task_times::TaskTimes;
use batchlab::engine;
use batchlab::policy::registry::{ConfiguredPolicy, Registry, Settings, Setup};
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::run::executor::SelectedBackend;
use batchlab::run::{self, RunOptions, RunReport};
use batchlab::scenario::Scenario;
use batchlab::sim;
use batchlab::units::CellId;
use batchlab::units::Nanos;
use batchlab::workload::arrivals::OpenLoop;
use batchlab::workload::cell_graph::{CellGraph, Graph};
use batchlab::workload::class::{Class, Classes};
use batchlab::workload::model::{CellType, Model};
use batchlab::workload::shape::Shape;
use batchlab::workload::shared_list::SharedList;
use batchlab::workload::trace::Requests;
use serde::{Deserialize, Serialize};

/// One run, as a text file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    pub model: String,
    pub workers: usize,
    /// A `[[policy]]` table of a scenario.
    pub policy: toml::Table,
    /// `None`: by the rows of that name in the costs, or zero. The same for the next two.
    pub task_ns: Option<u64>,
    pub gather_ns: Option<u64>,
    pub launch_ns: Option<u64>,
    /// The lines of a cost table, with or without a column for the size of the input.
    pub costs: String,
    /// A line for each request: when it arrives, in nanoseconds, and its shape; its class follows after an `@`.
    pub trace: String,
    /// By their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, ClassOf>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassOf {
    priority: i32,
    deadline: Option<u64>,
}

impl Run {
    pub fn device(&self) -> Device {
        let [task, gather, launch] =
            [self.task_ns, self.gather_ns, self.launch_ns].map(|ns| ns.map(Nanos));
        Device::new(
            &self.model,
            self.workers,
            &self.costs,
            Overhead {
                task,
                gather,
                launch,
            },
        )
    }

    /// Arrival and shape of each request.
    pub fn requests(&self) -> Vec<(u64, String)> {
        let row = |line: &str| {
            let (at, shape) = line.trim().split_once(' ').expect("an arrival and a shape");
            let shape = shape.split('@').next().expect("a shape").trim();
            (
                at.parse().expect("an arrival in nanoseconds"),
                shape.to_string(),
            )
        };
        self.trace
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(row)
            .collect()
    }

    /// Runs it and keeps a row for each task.
    pub fn run(&self) -> FullRecord {
        let trace = self.requests();
        let device = self.device();
        let requests = match self.model.as_str() {
            "graphs" => device.graphs(trace.iter().map(|(_, shape)| shape.as_str())),
            _ => device.requests(
                trace
                    .iter()
                    .map(|(_, shape)| shape.parse().expect("a shape")),
            ),
        };
        let requests = Requests {
            classes: self.classes_of_requests(),
            ..requests
        };
        let arrivals: Vec<Nanos> = trace.iter().map(|(at, _)| Nanos(*at)).collect();
        device.run(
            &*settings(&self.policy),
            &requests,
            &arrivals,
            RecordOptions {
                tasks: true,
                ..RecordOptions::default()
            },
        )
    }

    fn classes_of_requests(&self) -> Option<Arc<Classes>> {
        let name = |line: &str| Some(Arc::from(line.split_once('@')?.1.trim()));
        let names: Vec<Arc<str>> = self.trace.lines().filter_map(name).collect();
        let class = |(name, of): (&String, &ClassOf)| {
            let ClassOf { priority, deadline } = *of;
            Class {
                priority,
                deadline: deadline.map(Nanos),
                ..Class::new(name.as_str().into())
            }
        };
        let known = self.classes.iter().map(class).collect();
        (!names.is_empty())
            .then(|| Arc::new(Classes::from_names(&names, known).expect("known classes")))
    }
}

/// The settings of a `[[policy]]` table.
pub fn settings(table: &toml::Table) -> ConfiguredPolicy {
    let mut keys = table.clone();
    let kind = keys.remove("kind").expect("a policy has a kind");
    let text = keys.to_string();
    let keys = toml::de::DeTable::parse(&text).expect("a table");
    Registry::standard()
        .parse(kind.as_str().expect("a name"), keys)
        .expect("keys of this policy")
}

/// The settings of a `[[policy]]` table in its text form.
pub fn policy(text: &str) -> ConfiguredPolicy {
    settings(&text.parse().expect("a table"))
}

/// A simulated device that serves one model.
pub struct Device {
    pub model: Model,
    /// In the order of their ids.
    pub cells: Vec<CellType>,
    pub workers: usize,
    pub costs: TableCosts,
}

impl Device {
    /// A device with the costs of a table, to which the header is added here.
    pub fn new(model: &str, workers: usize, costs: &str, overhead: Overhead) -> Device {
        let (model, cells) = match model {
            // Any graph of these four types; no model of the crate has more than two.
            "graphs" => (Model::TreeLstm, four_cell_types()),
            _ => {
                let beside_the_crate =
                    |file: &str| Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
                let model = Model::open(model, &beside_the_crate).expect("a model");
                let cells = model.cell_types();
                (model, cells)
            }
        };
        let has_inputs = costs
            .trim()
            .lines()
            .next()
            .is_some_and(|row| row.split(',').count() == 4);
        let header = if has_inputs {
            "cell,batch,ns,input"
        } else {
            "cell,batch,ns"
        };
        let table = CostTable::parse(&format!("{header}\n{costs}"), "costs").expect("a cost table");
        // A table with rows of persistent kernels describes a device that has them.
        let table = match table
            .persistent(&cells[0].name)
            .expect("rows of both kinds")
        {
            Some(times) => table.with_persistent(Arc::new(times), &cells[0].name),
            None => table,
        };
        let costs = table
            .costs_for(&cells, overhead)
            .expect("costs of each cell");
        Device {
            model,
            cells,
            workers,
            costs,
        }
    }

    /// Requests of any graphs: `graph:encoder encoder<0 decoder<0,1` has three nodes, each with the nodes that it
    /// needs.
    fn graphs<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Requests {
        let graph = |text: &str| {
            let (mut cells, mut edges) = (Vec::new(), Vec::new());
            for (node, word) in text.trim_start_matches("graph:").split(' ').enumerate() {
                let (name, needs) = word.split_once('<').unwrap_or((word, ""));
                let cell = self
                    .cells
                    .iter()
                    .position(|cell| cell.name == name)
                    .expect("a cell type");
                cells.push(CellId(cell as u16));
                for input in needs.split(',').filter(|input| !input.is_empty()) {
                    edges.push((input.parse().expect("a node"), node as u32));
                }
            }
            CellGraph::Graph(Graph::new(cells, &edges).expect("an acyclic graph").into())
        };
        let graphs: SharedList<CellGraph> = texts.map(graph).collect();
        Requests {
            shapes: vec![Shape::Fixed; graphs.len()].into(),
            graphs,
            classes: None,
        }
    }

    pub fn requests(&self, shapes: impl IntoIterator<Item = Shape>) -> Requests {
        Requests::unfold(shapes.into_iter().collect(), &self.model).expect("shapes of the model")
    }

    /// Serves the requests, which arrive at these times, from an empty system until all are done.
    pub fn run(
        &self,
        policy: &dyn Settings,
        requests: &Requests,
        arrivals: &[Nanos],
        keep: RecordOptions,
    ) -> FullRecord {
        let costs: Arc<dyn CostModel> = Arc::new(self.costs.clone());
        let Device {
            model,
            cells,
            workers,
            ..
        } = self;
        let longest = Some(requests.longest());
        let setup = Setup {
            model,
            cells,
            workers: *workers,
            costs: Some(&costs),
            longest,
        };
        let mut backend = sim::backend(
            self.workers,
            policy.streams(&setup),
            TaskTimes::new(self.costs.clone(), &requests.graphs),
        );
        let mut policy = policy.build(&setup).expect("settings that fit the model");
        let mut recorder = FullRecord::new(requests.len(), self.workers, self.cells.len(), keep);
        let mut source = OpenLoop::new(requests, arrivals);
        engine::run(
            &mut source,
            &mut *policy,
            &mut *backend,
            &mut recorder,
            self.workers,
            &AtomicBool::new(false),
        )
        .expect("the run is not stopped");
        recorder
    }
}

/// Simulates a scenario, whose files go below `out`.
pub fn simulated(scenario: &Scenario, out: PathBuf) -> RunReport {
    let options = RunOptions {
        backend: SelectedBackend::SIM,
        out,
        replications: 1,
        resume: false,
        shard: None,
    };
    run::run(scenario, &options, &AtomicBool::new(false), &|| ())
        .expect("a scenario that can be simulated")
}

/// Two of each priority, in the order of their names. None guarantees that its subgraphs are chains.
fn four_cell_types() -> Vec<CellType> {
    let cell = |name: &str, priority| CellType::new(name, priority, false);
    vec![
        cell("decoder", 1),
        cell("encoder", 0),
        cell("internal", 1),
        cell("leaf", 0),
    ]
}
