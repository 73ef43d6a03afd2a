//! The mappings of persistent kernels that were fastest on a GPU, kept in the user's cache.

use serde::{Deserialize, Serialize};

use super::{Configuration, GpuHost, headers};
use crate::core::cost::grnn::{Mapping, RecurrentCell, Rnn};
use crate::devices::cuda::gpu::cache::CacheKey;

/// The name of the entries in the cache.
const ENTRY: &str = "grnn-tuned";

/// The mapping that was fastest on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    pub rnn: Rnn,
    pub mapping: Mapping,
    pub steps: u32,
    /// The time of a run of these steps, the inputs' product included, in nanoseconds.
    pub nanoseconds: u64,
}

impl Tuned {
    /// The mapping that was stored for a GPU, these sizes and these kernels.
    pub fn recall(host: &GpuHost, cell: RecurrentCell, hidden: u32, batch: u32) -> Option<Tuned> {
        serde_json::from_slice(
            &host
                .cache
                .get(ENTRY, Tuned::key(host, cell, hidden, batch))?,
        )
        .ok()
    }

    /// Stores this mapping for a GPU, these sizes and these kernels.
    pub(super) fn store(&self, host: &GpuHost, cell: RecurrentCell, hidden: u32, batch: u32) {
        let entry = serde_json::to_vec(self).expect("numbers and names are JSON");
        let key = Tuned::key(host, cell, hidden, batch);
        host.cache.put(ENTRY, key, &entry);
    }

    fn key(host: &GpuHost, cell: RecurrentCell, hidden: u32, batch: u32) -> CacheKey {
        let GpuHost { gpu, nvrtc, .. } = host;
        let kernels = cell
            .kernels()
            .iter()
            .map(|rnn| Configuration::source_of(*rnn).1);
        let name = &gpu.name;
        let multiprocessors = gpu.multiprocessors;
        let architecture = gpu.architecture;
        let version = nvrtc.version;
        let of = format!(
            "{name} {multiprocessors} {architecture} {version:?} {} {hidden} {batch}",
            cell.name()
        );
        CacheKey::from_texts(
            &[of.as_str()]
                .into_iter()
                .chain(headers().map(|(_, text)| text))
                .chain(kernels)
                .collect::<Vec<_>>(),
        )
    }
}
