//! Workloads that are ready to be simulated: what the benches have in common.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use batchlab::backend::Backend;
use batchlab::cost::CostModel;
use batchlab::cost::decoder::DecoderRoofline;
use batchlab::cost::roofline::Roofline;
use batchlab::cost::table::{CostTable, Overhead, TableCosts};
use batchlab::cost::task_times::TaskTimes;
use batchlab::engine;
use batchlab::policy::Policy;
use batchlab::policy::registry::{Settings, Setup};
use batchlab::precision::Precision;
use batchlab::record::RecordOptions;
use batchlab::record::full::FullRecord;
use batchlab::sim;
use batchlab::units::{Nanos, Rate};
use batchlab::workload::arrivals::{ClosedLoop, OpenLoop, Process, RequestSource, Think};
use batchlab::workload::dataset::Dataset;
use batchlab::workload::model::{CellType, Model};
use batchlab::workload::operator::Sizes;
use batchlab::workload::random;
use batchlab::workload::trace::Requests;

/// Requests, and the device and the policy that serve them.
pub struct Case<'p> {
    model: Model,
    cells: Vec<CellType>,
    workers: usize,
    device: TableCosts,
    policy: &'p dyn Settings,
    requests: Requests,
}

/// What one run needs and uses up.
pub struct Ready {
    policy: Box<dyn Policy>,
    backend: Box<dyn Backend>,
    record: FullRecord,
}

impl<'p> Case<'p> {
    /// Requests from a dataset of the repository on workers that are as fast as `scenarios/costs/v100.csv` says; those of networks of
    /// operators on a Titan RTX, and language models on an A100, as their data sheets say.
    pub fn new(
        model: Model,
        dataset: &str,
        requests: usize,
        workers: usize,
        policy: &'p dyn Settings,
    ) -> Self {
        let in_repository = |path: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
        let cells = model.cell_types();
        let roofline =
            |file: &str, precision| Roofline::read(&in_repository(file), precision).map(Arc::new);
        let costs = match &model {
            Model::Llm(Some(shape)) => {
                roofline("scenarios/devices/a100.toml", Precision::F16).map(|device| {
                    let decoder = DecoderRoofline::new(&device, shape);
                    let tokens = decoder.kv_tokens(None).expect("the model fits");
                    CostTable::empty()
                        .or_decoder(decoder)
                        .with_kv_tokens(tokens)
                })
            }
            Model::Network(_) => roofline("scenarios/devices/titan-rtx.toml", Precision::F32)
                .and_then(|device| {
                    CostTable::empty().or_computed(&device, &model, &Sizes::square(1024))
                }),
            _ => CostTable::read(Path::new(&in_repository("scenarios/costs/v100.csv"))),
        };
        let costs = costs.expect("the times are there");
        let device = costs
            .costs_for(&cells, Overhead::default())
            .expect("the table has the model's cells");
        let dataset = Dataset::open(dataset, &model, &in_repository).expect("the dataset is there");
        let shapes = dataset
            .sample(requests, None, &mut random::sequence(1, 0, "shapes"))
            .expect("nothing is too long");
        let requests = Requests::unfold(shapes, &model).expect("the shapes are the model's own");
        Case {
            model,
            cells,
            workers,
            device,
            policy,
            requests,
        }
    }

    /// Poisson arrivals at a rate.
    #[allow(dead_code)] // Each bench uses a part of this file.
    pub fn arrivals(&self, rate: f64) -> Vec<Nanos> {
        Process::Poisson
            .times(
                Some(Rate(rate)),
                self.requests.len(),
                random::sequence(1, 0, "arrivals"),
            )
            .collect()
    }

    /// A fresh policy, device and record.
    pub fn ready(&self) -> Ready {
        let costs: Arc<dyn CostModel> = Arc::new(self.device.clone());
        let Case {
            model,
            cells,
            workers,
            ..
        } = self;
        let longest = Some(self.requests.longest());
        let setup = Setup {
            model,
            cells,
            workers: *workers,
            costs: Some(&costs),
            longest,
        };
        Ready {
            policy: self
                .policy
                .build(&setup)
                .expect("the policy serves the model"),
            backend: sim::backend(
                self.workers,
                self.policy.streams(&setup),
                TaskTimes::new(self.device.clone(), &self.requests.graphs),
            ),
            record: FullRecord::new(
                self.requests.len(),
                self.workers,
                self.cells.len(),
                RecordOptions::default(),
            ),
        }
    }

    /// Serves the requests as they arrive.
    #[allow(dead_code)]
    pub fn run(&self, ready: Ready, arrivals: &[Nanos]) -> FullRecord {
        self.drive(ready, &mut OpenLoop::new(&self.requests, arrivals))
    }

    /// Serves the requests with a fixed number of them in the system.
    #[allow(dead_code)]
    pub fn run_with(&self, ready: Ready, in_system: u32) -> FullRecord {
        let think = Think::Constant(Nanos::ZERO);
        self.drive(
            ready,
            &mut ClosedLoop::new(
                &self.requests,
                in_system,
                think,
                &mut random::sequence(1, 0, "think"),
            ),
        )
    }

    fn drive(&self, mut ready: Ready, source: &mut dyn RequestSource) -> FullRecord {
        let (policy, backend, record) =
            (&mut *ready.policy, &mut *ready.backend, &mut ready.record);
        engine::run(
            source,
            policy,
            backend,
            record,
            self.workers,
            &AtomicBool::new(false),
        )
        .expect("nothing interrupts it");
        ready.record
    }
}

/// A hash of when each request finished, so that a bench can't compute something else unseen.
pub fn fingerprint(record: &FullRecord) -> u64 {
    let bytes = record
        .finish
        .iter()
        .flat_map(|finish| finish.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
