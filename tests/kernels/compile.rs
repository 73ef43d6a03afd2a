//! Every kernel compiles for every kind of GPU, without spills and within its registers.
//!
//! It needs NVRTC but no GPU. Where NVRTC is not found, the test says so and passes, unless `REQUIRE_NVRTC=1`.

use std::path::PathBuf;
use std::{env, fs};

use batchlab::cuda::gpu::libraries;
use batchlab::cuda::gpu::nvrtc::{CompileTarget, KernelSource, Nvrtc};

use super::host_cuda::Element;

/// Volta, Turing, Ampere, Hopper, and Blackwell in data centres and in workstations.
pub const ARCHITECTURES: [u32; 6] = [70, 75, 80, 90, 100, 120];

/// The bytes that a kernel may spill and load again. The kernels are tuned for GPUs up to Hopper; of some, the compiler
/// spills a few words on Blackwell.
fn most_spilled(architecture: u32) -> u32 {
    if architecture < 100 { 0 } else { 40 }
}

/// The registers of a thread with which four blocks fit a multiprocessor: 4 × 256 × 64 is all that it has.
const REGISTERS: u32 = 64;

/// The file of the fused kernels, a block of which takes a multiprocessor for itself, and the oldest architecture that runs
/// them. All registers that an instruction can name are theirs.
const FUSED: &str = "fused.cu";
const OLDEST_FUSED: u32 = 80;
const FUSED_REGISTERS: u32 = 255;

/// What the compiler says of a kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Figures {
    kernel: String,
    pub registers: u32,
    /// Bytes of the stack, and of what is spilled to it and loaded again.
    pub stack: [u32; 3],
    shared: u32,
}

impl Figures {
    pub fn spilled(&self) -> u32 {
        self.stack[1] + self.stack[2]
    }

    /// Whether it uses more of the stack than it may on this architecture.
    pub fn spills(&self, architecture: u32) -> bool {
        self.stack[0].max(self.spilled()) > most_spilled(architecture)
    }
}

/// The figures of all kernels in a log.
pub fn figures(log: &str) -> Vec<Figures> {
    let mut all: Vec<Figures> = Vec::new();
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Compiling entry function '") {
            let kernel = name.split('\'').next().unwrap_or_default().to_string();
            all.push(Figures {
                kernel,
                registers: u32::MAX,
                ..Figures::default()
            });
        }
        let Some(figures) = all.last_mut() else {
            continue;
        };
        if line.contains("bytes stack frame") {
            figures.stack = [
                "bytes stack frame",
                "bytes spill stores",
                "bytes spill loads",
            ]
            .map(|what| number_before(line, what).expect("a figure of the stack"));
        }
        if let Some((_, used)) = line.split_once("Used ") {
            figures.registers = number_before(used, "registers").expect("the registers");
            figures.shared = number_before(used, "bytes smem").unwrap_or(0);
        }
    }
    all
}

/// The number in front of some words.
fn number_before(line: &str, words: &str) -> Option<u32> {
    line.split(',').find_map(|part| {
        part.trim()
            .strip_suffix(words)?
            .split_whitespace()
            .last()?
            .parse()
            .ok()
    })
}

/// All files of kernels that need no other constant than the element.
fn sources() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let files = fs::read_dir(&folder)
        .expect("the folder of the kernels")
        .map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<(String, String)> = files
        .map(|path| {
            let name = path
                .file_name()
                .expect("a file")
                .to_string_lossy()
                .into_owned();
            (name, fs::read_to_string(&path).expect("a source"))
        })
        .collect();
    sources.retain(|(name, _)| !name.starts_with("grnn"));
    sources.sort();
    sources
}

/// What the compiler warns of, other than of GPUs that it will not know for ever.
pub fn warning(log: &str) -> Option<&str> {
    log.lines()
        .find(|line| line.contains("warning") && !line.contains("deprecated"))
}

/// The compiler. None, with a reason printed, where it is not found.
///
/// # Panics
/// With `REQUIRE_NVRTC=1`, where it is not found; if it compiles for none of the GPUs, so that a test with it would show nothing.
pub fn nvrtc() -> Option<Nvrtc> {
    let found = libraries::find();
    if found.nvrtc.found.is_none() {
        let reason = &found.nvrtc.story;
        assert!(
            env::var_os("REQUIRE_NVRTC").is_none_or(|value| value != "1"),
            "REQUIRE_NVRTC=1, and {reason}"
        );
        println!("skipped: {reason}");
    }
    let knows_one = |nvrtc: &Nvrtc| {
        ARCHITECTURES
            .iter()
            .any(|known| nvrtc.architectures.contains(known))
    };
    assert!(
        found.nvrtc.found.as_ref().is_none_or(knows_one),
        "this NVRTC compiles for none of {ARCHITECTURES:?}"
    );
    found.nvrtc.found
}

fn compile(
    nvrtc: &Nvrtc,
    name: &str,
    text: &str,
    header: (&str, &str),
    architecture: u32,
    element: Element,
) -> String {
    let options = [
        format!("-DELEMENT={}", element as u32),
        "--std=c++17".into(),
        "--ptxas-options=-v".into(),
    ];
    let source = KernelSource {
        name,
        text,
        headers: &[header],
    };
    nvrtc
        .compile(&source, CompileTarget::Cubin(architecture), &options)
        .unwrap_or_else(|error| panic!("{error}"))
        .log
}

#[test]
fn kernels_compile_within_their_registers() {
    let Some(nvrtc) = nvrtc() else { return };
    let sources = sources();
    let (headers, files): (Vec<_>, Vec<_>) =
        sources.iter().partition(|(name, _)| name.ends_with(".cuh"));
    let [(header, text)] = headers[..] else {
        panic!("one header, not {}", headers.len())
    };

    println!(
        "{:<14} {:>5} {:>5} {:>9} {:>6} {:>6}",
        "kernel", "sm", "", "registers", "spills", "shared"
    );
    let mut kernels = 0;
    for architecture in ARCHITECTURES {
        if !nvrtc.architectures.contains(&architecture) {
            println!(
                "NVRTC {}.{} does not compile for sm_{architecture}",
                nvrtc.version.0, nvrtc.version.1
            );
            continue;
        }
        for (name, file) in &files {
            let is_fused = name == FUSED;
            if is_fused && architecture < OLDEST_FUSED {
                continue;
            }
            let most = if is_fused { FUSED_REGISTERS } else { REGISTERS };
            for element in Element::ALL {
                let log = compile(&nvrtc, name, file, (header, text), architecture, element);
                assert_eq!(
                    warning(&log),
                    None,
                    "{name}, sm_{architecture}, {element:?}:\n{log}"
                );
                let figures = figures(&log);
                assert!(!figures.is_empty(), "{name} has no kernel: {log}");
                for figures in figures {
                    let (spills, too_many) = (figures.spilled(), figures.spills(architecture));
                    let Figures {
                        kernel,
                        registers,
                        shared,
                        ..
                    } = figures;
                    let format = format!("{element:?}").to_lowercase();
                    println!(
                        "{kernel:<14} {architecture:>5} {format:>5} {registers:>9} {spills:>6} {shared:>6}"
                    );
                    assert!(
                        !too_many,
                        "{kernel} spills {spills} bytes, sm_{architecture}, {element:?}"
                    );
                    assert!(
                        registers <= most,
                        "{kernel} has {registers} registers, sm_{architecture}, {element:?}"
                    );
                    kernels += 1;
                }
            }
        }
    }
    println!(
        "{kernels} kernels by NVRTC {}.{}",
        nvrtc.version.0, nvrtc.version.1
    );
}

#[test]
fn figures_are_read_off_a_log() {
    let log = "\
ptxas info    : 20 bytes gmem, 40 bytes cmem[4]
ptxas info    : Compiling entry function 'one' for 'sm_80'
ptxas info    : Function properties for one
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 48 registers, used 1 barriers, 64 bytes smem, 492 bytes cmem[0]
ptxas info    : Compiling entry function 'other' for 'sm_80'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
";
    let one = Figures {
        kernel: "one".into(),
        registers: 48,
        stack: [8, 4, 12],
        shared: 64,
    };
    let other = Figures {
        kernel: "other".into(),
        registers: 10,
        stack: [0; 3],
        shared: 0,
    };
    assert_eq!(figures(log), [one, other]);
}
