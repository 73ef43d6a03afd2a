//! `batchlab policies` and `batchlab devices`.

use serde_json::json;

use super::{Format, print};
use crate::backend::cuda::gpu::driver::{About, Libraries, Library, of_driver};
use crate::backend::cuda::gpu::libraries;
use crate::error::Result;
use crate::policy::registry::Registry;

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
    /// How the list is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Fails after printing if the backend `cuda` lacks a GPU or a library.
pub fn devices(args: &DevicesArgs) -> Result<()> {
    let found = libraries::find();
    let libraries = Libraries::of(&found);
    let gpus = of_driver(&found);
    let seen = gpus.as_deref().unwrap_or_default();
    args.format.show(|| table(seen, &libraries), || json!({ "gpus": seen, "libraries": libraries }))?;
    gpus.map(drop)?;
    found.nvrtc.need()?;
    found.cublas.need()?;
    Ok(())
}

fn table(gpus: &[About], libraries: &Libraries) -> String {
    let gibibytes = |bytes: u64| format!("{:.1}", bytes as f64 / (1u64 << 30) as f64);
    let head = ["gpu", "name", "capability", "multiprocessors", "free_gib", "memory_gib"].map(String::from);
    let mut rows = vec![head];
    rows.extend(gpus.iter().map(|gpu| {
        [
            gpu.gpu.to_string(),
            gpu.name.clone(),
            gpu.capability.clone(),
            gpu.multiprocessors.to_string(),
            gibibytes(gpu.memory_free),
            gibibytes(gpu.memory),
        ]
    }));
    let mut text = if gpus.is_empty() { "no GPU\n".to_string() } else { aligned(&rows) };
    text.push('\n');
    let library = |name: &str, library: &Option<Library>| {
        let about = library.as_ref().map(|library| [library.version.clone(), library.path.clone()]);
        let [version, path] = about.unwrap_or_else(|| ["not found".into(), String::new()]);
        [name.to_string(), version, path]
    };
    let Libraries { driver, nvrtc, cublas } = libraries;
    text + &aligned(&[library("driver, CUDA", driver), library("NVRTC", nvrtc), library("cuBLAS", cublas)])
}

/// Columns two spaces apart.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect::<Vec<_>>();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
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
            "gpu  name   capability  multiprocessors  free_gib  memory_gib\n\
             0    A GPU  9.0         132              1.5       2.0\n\
             \n\
             driver, CUDA  12.4       /lib/libcuda.so.1\n\
             NVRTC         not found\n\
             cuBLAS        not found\n"
        );
        assert!(table(&[], &libraries).starts_with("no GPU\n\ndriver"));
    }
}
