//! `batchlab policies` and `batchlab devices`.

use serde_json::json;

use super::render::{Shown, print};
use crate::backend::cuda::gpu::driver::{About, Libraries, Library, of_driver};
use crate::backend::cuda::gpu::libraries;
use crate::error::Result;
use crate::policy::registry::Registry;
use crate::results::table::{aligned, tabulate};

pub fn policies(registry: &Registry) -> Result<()> {
    let mut text = String::new();
    for kind in registry.kinds() {
        text.push_str(&format!("{kind:<12}{}\n", registry.about(kind).unwrap_or_default()));
        let keys = registry.keys(kind).unwrap_or_default();
        if !keys.is_empty() {
            text.push_str(&format!("{:<12}keys: {}\n", "", keys.join(", ")));
        }
    }
    print(&text)
}

/// List the GPUs of this host and the CUDA libraries
#[derive(clap::Args, Clone, Debug)]
pub struct DevicesArgs {
    #[command(flatten)]
    pub shown: Shown,
}

/// Fails after printing if the backend `cuda` lacks a GPU or a library.
pub fn devices(args: &DevicesArgs) -> Result<()> {
    let found = libraries::find();
    let libraries = Libraries::of(&found);
    let gpus = of_driver(&found);
    let seen = gpus.as_deref().unwrap_or_default();
    args.shown.show(|| table(seen, &libraries), || json!({ "gpus": seen, "libraries": libraries }))?;
    gpus.map(drop)?;
    found.nvrtc.need()?;
    found.cublas.need()?;
    Ok(())
}

fn table(gpus: &[About], libraries: &Libraries) -> String {
    let gibibytes = |bytes: u64| format!("{:.1}", bytes as f64 / (1u64 << 30) as f64);
    let gpus = match gpus {
        [] => "no GPU\n".to_string(),
        some => tabulate(
            some,
            &[
                ("gpu", &|about| about.gpu.to_string()),
                ("name", &|about| about.name.clone()),
                ("capability", &|about| about.capability.clone()),
                ("multiprocessors", &|about| about.multiprocessors.to_string()),
                ("free_gib", &|about| gibibytes(about.memory_free)),
                ("memory_gib", &|about| gibibytes(about.memory)),
            ],
        ),
    };
    let library = |name: &str, library: &Option<Library>| match library {
        Some(Library { version, path }) => [name, version, path].map(String::from).to_vec(),
        None => [name, "not found", ""].map(String::from).to_vec(),
    };
    let Libraries { driver, nvrtc, cublas } = libraries;
    let libraries = [library("driver, CUDA", driver), library("NVRTC", nvrtc), library("cuBLAS", cublas)];
    format!("{gpus}\n{}", aligned(&libraries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_line_for_each_gpu_and_library() {
        let gpu = About {
            gpu: 0,
            name: "A GPU".into(),
            capability: "9.0".into(),
            multiprocessors: 132,
            memory_free: 3 << 29,
            memory: 2 << 30,
        };
        let driver = Some(Library { version: "12.4".into(), path: "/lib/libcuda.so.1".into() });
        let libraries = Libraries { driver, nvrtc: None, cublas: None };
        assert_eq!(
            table(&[gpu], &libraries),
            "gpu   name  capability  multiprocessors  free_gib  memory_gib\n\
             0    A GPU         9.0              132       1.5         2.0\n\
             \n\
             driver, CUDA       12.4  /lib/libcuda.so.1\n\
             NVRTC         not found\n\
             cuBLAS        not found\n"
        );
        assert!(table(&[], &libraries).starts_with("no GPU\n\ndriver"));
    }
}
