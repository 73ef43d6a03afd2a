//! Host CUDA: the project's kernels run on the CPU.
//!
//! `shim/` is a small runtime that runs the threads of a launch as fibers, and a header that lets the host's C++ compiler
//! take CUDA C++. The tests that need it compile it, with the kernels, when they run; where no compiler is, they say so and
//! pass, unless `REQUIRE_CXX=1`.
//!
//! It shows that kernels compute what they should under any order of their threads, and finds threads that wait for ever or
//! part ways at a barrier. It shows nothing of a GPU's speed, and little of its memory model. It is for Linux: what it builds
//! is loaded as there.

#![allow(dead_code)] // each test uses a part of it

mod built;
mod compiler;

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

/// The type of operands, weights and embeddings that a set of kernels is compiled for, as in `-DELEMENT=…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    F32 = 0,
    F16 = 1,
    Bf16 = 2,
}

impl Element {
    pub const ALL: [Element; 3] = [Element::F32, Element::F16, Element::Bf16];

    /// The end of the name of its library.
    fn name(self) -> &'static str {
        match self {
            Element::F32 => "f32",
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
        }
    }
}

/// The project's kernels.
fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// The kernels of `kernels/`, or nothing where there is no C++ compiler.
pub fn kernels() -> Option<&'static Kernels> {
    static KERNELS: OnceLock<Option<Kernels>> = OnceLock::new();
    KERNELS
        .get_or_init(|| Kernels::of("kernels", sources()))
        .as_ref()
}

/// The folder with libraries that stand in for the driver, NVRTC and cuBLAS, or nothing where there is no C++ compiler.
///
/// Programs find them where `LD_LIBRARY_PATH` names it. What devices there are, and what goes wrong with them, is told by
/// environment variables: see `driver/settings.hpp`.
pub fn driver() -> Option<PathBuf> {
    built::driver(&sources())
}

type Find = unsafe extern "C" fn(*const c_char, c_int) -> *const c_void;
type Launch = unsafe extern "C" fn(
    *const c_void,
    *const c_uint,
    *const c_uint,
    usize,
    *mut *mut c_void,
    c_ulonglong,
    c_int,
    c_uint,
    *mut c_char,
    usize,
) -> c_int;

/// Kernels that have been compiled and loaded.
pub struct Kernels {
    find: Find,
    launch: Launch,
    /// The number that keeps them apart from others of their names, where they were compiled with constants of their own.
    variant: c_int,
    // Behind what is taken from them.
    _libraries: Vec<Library>,
    _others: Option<ManuallyDrop<Library>>,
}

/// One of them.
#[derive(Clone, Copy)]
pub struct Kernel<'k> {
    kernels: &'k Kernels,
    kernel: *const c_void,
}

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub enum Argument {
    U32(u32),
    U64(u64),
    Pointer(*mut c_void),
    /// A larger value, which is here.
    Value(*const c_void),
}

impl From<u32> for Argument {
    fn from(value: u32) -> Argument {
        Argument::U32(value)
    }
}

impl From<u64> for Argument {
    fn from(value: u64) -> Argument {
        Argument::U64(value)
    }
}

impl<T> From<*mut T> for Argument {
    fn from(pointer: *mut T) -> Argument {
        Argument::Pointer(pointer.cast())
    }
}

impl<T> From<*const T> for Argument {
    fn from(pointer: *const T) -> Argument {
        Argument::Pointer(pointer.cast_mut().cast())
    }
}

/// Where a launch runs.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    pub blocks: [u32; 3],
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: usize,
    /// 0: threads run in the order of their numbers; anything else is the seed of a random order.
    pub seed: u64,
    /// Whether all blocks are there from the beginning, as in a cooperative launch.
    pub together: bool,
    /// The blocks of a cluster, side by side along x; 1 without clusters.
    pub cluster: u32,
}

/// What is wrong with a launch, in the shim's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Kernels {
    /// Compiles and loads all `.cu` files of a folder. `name` is that of the folder for what is built.
    ///
    /// # Panics
    /// Kernels that don't compile.
    pub fn of(name: &str, sources: PathBuf) -> Option<Kernels> {
        let (shim, kernels) = (built::shim()?, built::kernels(name, &sources)?);
        let libraries = Element::ALL.map(|element| load(&kernels.join(built::library(element))));
        Some(Kernels::loaded(&shim, libraries, 0))
    }

    /// Compiles and loads the last of some sources, which includes the others, as float32 and with constants. `name` is for
    /// what is built, and no other's. They stay, since kernels are known by their addresses.
    ///
    /// # Panics
    /// A kernel that does not compile.
    pub fn variant(name: &str, sources: &[(&str, &str)], constants: &[String]) -> Option<Kernels> {
        let mut hasher = DefaultHasher::new();
        (name, sources, constants).hash(&mut hasher);
        // Not one of the elements' numbers.
        let variant = (hasher.finish() as c_int & 0x3fff_ffff) + 100;
        let own = [
            format!("-DHOST_CUDA_VARIANT={variant}"),
            format!("-DELEMENT={}", Element::F32 as u32),
        ];
        let built = built::variant(name, sources, &[constants, &own].concat())?;
        let library = ManuallyDrop::new(load(&built.join(built::VARIANT)));
        Some(Kernels {
            _others: Some(library),
            ..Kernels::loaded(&built::shim()?, [], variant)
        })
    }

    fn loaded(
        shim: &Path,
        of_kernels: impl IntoIterator<Item = Library>,
        variant: c_int,
    ) -> Kernels {
        let libraries: Vec<Library> = [load(&shim.join("libhost_cuda.so"))]
            .into_iter()
            .chain(of_kernels)
            .collect();
        // SAFETY: these are the signatures of the two functions in `shim/kernels.cpp`, and the library that has them is kept
        // as long as they are.
        let (find, launch) = unsafe {
            let shim = &libraries[0];
            (
                *shim.get::<Find>(c"host_kernel").unwrap(),
                *shim.get::<Launch>(c"host_launch").unwrap(),
            )
        };
        Kernels {
            find,
            launch,
            variant,
            _libraries: libraries,
            _others: None,
        }
    }

    /// The kernel of this name.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn kernel(&self, name: &str, element: Element) -> Kernel<'_> {
        self.found(name, element as c_int)
    }

    /// The kernel of this name, of those that were compiled with constants.
    ///
    /// # Panics
    /// Where there is none.
    #[track_caller]
    pub fn of_variant(&self, name: &str) -> Kernel<'_> {
        self.found(name, self.variant)
    }

    #[track_caller]
    fn found(&self, name: &str, variant: c_int) -> Kernel<'_> {
        let text = CString::new(name).expect("a name has no zero byte");
        // SAFETY: the text ends with a zero byte and outlives the call.
        let kernel = unsafe { (self.find)(text.as_ptr(), variant) };
        assert!(
            !kernel.is_null(),
            "there is no kernel {name} of variant {variant}; has it its EXPORT_KERNEL?"
        );
        Kernel {
            kernels: self,
            kernel,
        }
    }
}

impl Kernel<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// A launch that no device accepts, a deadlock, threads that part ways.
    ///
    /// # Safety
    /// The arguments are those of the kernel in number, order and type; its pointers are valid for what it does with them.
    pub unsafe fn launch(&self, grid: Grid, arguments: &[Argument]) -> Result<(), Wrong> {
        let mut values = arguments.to_vec();
        let mut arguments: Vec<*mut c_void> = values
            .iter_mut()
            .map(|value| match value {
                Argument::U32(value) => (&raw mut *value).cast(),
                Argument::U64(value) => (&raw mut *value).cast(),
                Argument::Pointer(value) => (&raw mut *value).cast(),
                Argument::Value(value) => value.cast_mut(),
            })
            .collect();
        let mut message = [0; 4096];
        // SAFETY: the kernel comes from `Kernels::kernel`; there is an address of a value for each of its arguments, as the
        // caller promises; the message ends with a zero byte within its room.
        let wrong = unsafe {
            (self.kernels.launch)(
                self.kernel,
                grid.blocks.as_ptr(),
                [grid.threads, 1, 1].as_ptr(),
                grid.shared,
                arguments.as_mut_ptr(),
                grid.seed,
                grid.together.into(),
                grid.cluster,
                message.as_mut_ptr(),
                message.len(),
            )
        };
        if wrong == 0 {
            return Ok(());
        }
        // SAFETY: the shim has written a text with a zero byte at its end.
        let message = unsafe { CStr::from_ptr(message.as_ptr()) };
        Err(Wrong(message.to_string_lossy().into_owned()))
    }
}

pub fn load(path: &std::path::Path) -> Library {
    // SAFETY: the library is one of ours; what it does when it is loaded is to note the names of its kernels.
    unsafe { Library::new(path) }.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
