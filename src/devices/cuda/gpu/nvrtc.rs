//! NVRTC, the run-time compiler, to which a program passes its kernels' source.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

use super::library::{format_version, functions, refusal};
use crate::base::error::{Error, Result};

type ProgramHandle = *mut c_void;

/// A function that writes a property of a program.
type Ask<T> = unsafe extern "C" fn(ProgramHandle, *mut T) -> i32;

functions! {
    /// Results are plain numbers, because later versions may have more of them.
    Functions {
        version = nvrtcVersion(*mut i32, *mut i32) -> i32;
        count_architectures = nvrtcGetNumSupportedArchs(*mut i32) -> i32;
        architectures = nvrtcGetSupportedArchs(*mut i32) -> i32;
        create = nvrtcCreateProgram(
            *mut ProgramHandle, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char,
        ) -> i32;
        compile = nvrtcCompileProgram(ProgramHandle, i32, *const *const c_char) -> i32;
        log_size = nvrtcGetProgramLogSize(ProgramHandle, *mut usize) -> i32;
        log = nvrtcGetProgramLog(ProgramHandle, *mut c_char) -> i32;
        cubin_size = nvrtcGetCUBINSize(ProgramHandle, *mut usize) -> i32;
        cubin = nvrtcGetCUBIN(ProgramHandle, *mut c_char) -> i32;
        ptx_size = nvrtcGetPTXSize(ProgramHandle, *mut usize) -> i32;
        ptx = nvrtcGetPTX(ProgramHandle, *mut c_char) -> i32;
        destroy = nvrtcDestroyProgram(*mut ProgramHandle) -> i32;
        describe = nvrtcGetErrorString(i32) -> *const c_char;
    }
}

/// NVRTC, as it was found on this host.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    /// The major and the minor number of its version.
    pub version: (u32, u32),
    pub path: PathBuf,
    /// The architectures that it compiles for, ascending; 90 for compute capability 9.0.
    pub architectures: Vec<u32>,
    functions: Functions,
}

/// What a program is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompileTarget {
    /// Machine code of this architecture.
    Cubin(u32),
    /// Code that the driver translates, for a GPU that the compiler does not know.
    Ptx(u32),
}

impl CompileTarget {
    /// The compiler's option for the target.
    pub fn option(self) -> String {
        match self {
            CompileTarget::Cubin(architecture) => format!("--gpu-architecture=sm_{architecture}"),
            CompileTarget::Ptx(architecture) => {
                format!("--gpu-architecture=compute_{architecture}")
            }
        }
    }
}

/// The source of a program.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource<'a> {
    /// The name in the compiler's messages.
    pub name: &'a str,
    pub text: &'a str,
    /// The names and texts of the headers.
    pub headers: &'a [(&'a str, &'a str)],
}

/// The compiler's output.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub image: Vec<u8>,
    /// The compiler's messages. With `--ptxas-options=-v` they list the registers and spills of each kernel.
    pub log: String,
}

impl Nvrtc {
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Nvrtc, String> {
        let functions = Functions::load(library)?;
        let mut major = 0;
        let mut minor = 0;
        let mut count = 0;
        // SAFETY: both functions write numbers to the given places.
        let statuses = unsafe {
            [
                (functions.version)(&mut major, &mut minor),
                (functions.count_architectures)(&mut count),
            ]
        };
        let mut architectures = vec![0i32; count.max(0) as usize];
        // SAFETY: the array has the length that the library returned.
        let status = unsafe { (functions.architectures)(architectures.as_mut_ptr()) };
        if statuses != [0, 0] || status != 0 {
            return Err("fails when asked for its version".into());
        }
        let mut architectures: Vec<u32> = architectures
            .into_iter()
            .map(|number| number.max(0) as u32)
            .collect();
        architectures.sort_unstable();
        Ok(Nvrtc {
            version: (major.max(0) as u32, minor.max(0) as u32),
            path,
            architectures,
            functions,
        })
    }

    /// The library itself if it compiles for all these architectures; otherwise why it does not.
    pub(super) fn serving(self, gpus: &[u32]) -> Result<Nvrtc, String> {
        match gpus.iter().find(|gpu| self.target(**gpu).is_none()) {
            None => Ok(self),
            Some(gpu) => Err(refusal(("NVRTC", "cuda-nvrtc"), self.version, *gpu)),
        }
    }

    /// The target for a GPU: its machine code or, if the GPU is newer than the compiler, the newest code that the
    /// driver can translate. `None` if the GPU is older than all that the compiler knows.
    pub fn target(&self, architecture: u32) -> Option<CompileTarget> {
        if self.architectures.contains(&architecture) {
            return Some(CompileTarget::Cubin(architecture));
        }
        self.architectures
            .iter()
            .rev()
            .find(|known| **known < architecture)
            .map(|known| CompileTarget::Ptx(*known))
    }

    /// Compiles one file. The error contains the compiler's messages.
    pub fn compile(
        &self,
        source: &KernelSource<'_>,
        target: CompileTarget,
        options: &[String],
    ) -> Result<Compiled> {
        let program = Building::new(self, source)?;
        let options: Vec<CString> = options
            .iter()
            .chain([&target.option()])
            .map(|option| text(option))
            .collect::<Result<_>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program and the texts of the options are alive.
        let status = unsafe {
            (self.functions.compile)(program.program, pointers.len() as i32, pointers.as_ptr())
        };
        let log = program
            .take(self.functions.log_size, self.functions.log)
            .map(|bytes| {
                String::from_utf8_lossy(&bytes)
                    .trim_end_matches('\0')
                    .trim()
                    .to_string()
            });
        self.check(source, status, log.as_deref().unwrap_or_default())?;
        let image = match target {
            CompileTarget::Cubin(_) => {
                program.take(self.functions.cubin_size, self.functions.cubin)
            }
            CompileTarget::Ptx(_) => program.take(self.functions.ptx_size, self.functions.ptx),
        };
        let image = image.or_else(|status| {
            self.check(source, status, "gives no code")
                .map(|()| Vec::new())
        })?;
        Ok(Compiled {
            image,
            log: log.unwrap_or_default(),
        })
    }

    fn check(&self, source: &KernelSource<'_>, status: i32, log: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: for any number the library returns a static text that ends with a zero.
        let reason = unsafe { CStr::from_ptr((self.functions.describe)(status)) }.to_string_lossy();
        Err(Error::failure(format!(
            "{}: NVRTC {} ({}) does not compile it: {reason}: {log}",
            source.name,
            format_version(self.version),
            self.path.display()
        )))
    }
}

/// A program that is being compiled.
struct Building<'a> {
    nvrtc: &'a Nvrtc,
    program: ProgramHandle,
}

impl<'a> Building<'a> {
    fn new(nvrtc: &'a Nvrtc, source: &KernelSource<'_>) -> Result<Building<'a>> {
        let name = text(source.name)?;
        let body = text(source.text)?;
        let names: Vec<CString> = source
            .headers
            .iter()
            .map(|(name, _)| text(name))
            .collect::<Result<_>>()?;
        let texts: Vec<CString> = source
            .headers
            .iter()
            .map(|(_, body)| text(body))
            .collect::<Result<_>>()?;
        let text_pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: all texts end with a zero and outlive the call, which copies them; the lists have the given length.
        let status = unsafe {
            (nvrtc.functions.create)(
                &mut program,
                body.as_ptr(),
                name.as_ptr(),
                texts.len() as i32,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        nvrtc.check(source, status, "no program can be made of it")?;
        Ok(Building { nvrtc, program })
    }

    /// The output of a pair of functions, of which the first returns its length.
    fn take(&self, size: Ask<usize>, fill: Ask<c_char>) -> Result<Vec<u8>, i32> {
        let mut length = 0;
        // SAFETY: the program is alive.
        let status = unsafe { size(self.program, &mut length) };
        if status != 0 {
            return Err(status);
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: the buffer has the length that the library returned.
        match unsafe { fill(self.program, bytes.as_mut_ptr().cast()) } {
            0 => Ok(bytes),
            status => Err(status),
        }
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was created by this library and is destroyed once. A failure can't be handled.
        unsafe { (self.nvrtc.functions.destroy)(&mut self.program) };
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::failure("a text for NVRTC has a zero in it"))
}
