//! NVRTC, the compiler that a program can carry its kernels' source to.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr;

use libloading::Library;

use super::libraries::functions;
use crate::error::{Error, Result};

type Program = *mut c_void;

functions! {
    /// What is used of NVRTC. Results are numbers here: a later version may have some that a list would lack.
    Functions {
        version = nvrtcVersion(*mut i32, *mut i32) -> i32;
        count_architectures = nvrtcGetNumSupportedArchs(*mut i32) -> i32;
        architectures = nvrtcGetSupportedArchs(*mut i32) -> i32;
        create = nvrtcCreateProgram(
            *mut Program, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char,
        ) -> i32;
        compile = nvrtcCompileProgram(Program, i32, *const *const c_char) -> i32;
        log_size = nvrtcGetProgramLogSize(Program, *mut usize) -> i32;
        log = nvrtcGetProgramLog(Program, *mut c_char) -> i32;
        cubin_size = nvrtcGetCUBINSize(Program, *mut usize) -> i32;
        cubin = nvrtcGetCUBIN(Program, *mut c_char) -> i32;
        ptx_size = nvrtcGetPTXSize(Program, *mut usize) -> i32;
        ptx = nvrtcGetPTX(Program, *mut c_char) -> i32;
        destroy = nvrtcDestroyProgram(*mut Program) -> i32;
        describe = nvrtcGetErrorString(i32) -> *const c_char;
    }
}

/// A compiler that is there.
#[derive(Clone, Debug)]
pub struct Nvrtc {
    /// Its version, as major and minor number.
    pub version: (u32, u32),
    /// Its file.
    pub path: PathBuf,
    /// The architectures that it compiles for, as 90 for compute capability 9.0, ascending.
    pub architectures: Vec<u32>,
    functions: Functions,
}

/// What a program is compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Machine code of this architecture.
    Cubin(u32),
    /// Code that the driver translates, for an architecture that the compiler does not know yet.
    Ptx(u32),
}

impl Target {
    /// The option that asks for it.
    pub fn option(self) -> String {
        match self {
            Target::Cubin(architecture) => format!("--gpu-architecture=sm_{architecture}"),
            Target::Ptx(architecture) => format!("--gpu-architecture=compute_{architecture}"),
        }
    }
}

/// A file of source, with the headers that it includes.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name, for messages of the compiler.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Names and texts of headers.
    pub headers: &'a [(&'a str, &'a str)],
}

/// What a compilation came to.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// What the driver loads.
    pub image: Vec<u8>,
    /// What the compiler said: with `--ptxas-options=-v`, the registers and spills of each kernel.
    pub log: String,
}

impl Nvrtc {
    pub(super) fn bind(library: &'static Library, path: PathBuf) -> Result<Nvrtc, String> {
        let functions = Functions::of(library)?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: both functions write the numbers that they are given places for.
        let statuses =
            unsafe { [(functions.version)(&mut major, &mut minor), (functions.count_architectures)(&mut count)] };
        let mut architectures = vec![0i32; count.max(0) as usize];
        // SAFETY: the array has as many places as the library said.
        let status = unsafe { (functions.architectures)(architectures.as_mut_ptr()) };
        if statuses != [0, 0] || status != 0 {
            return Err("fails when asked for its version".into());
        }
        let mut architectures: Vec<u32> = architectures.into_iter().map(|number| number.max(0) as u32).collect();
        architectures.sort_unstable();
        Ok(Nvrtc { version: (major.max(0) as u32, minor.max(0) as u32), path, architectures, functions })
    }

    /// What to compile to for a GPU: its own machine code, or, of a compiler that is older than the GPU, the newest code that
    /// the driver can translate. None where the GPU is older than all that the compiler knows.
    pub fn target(&self, architecture: u32) -> Option<Target> {
        if self.architectures.contains(&architecture) {
            return Some(Target::Cubin(architecture));
        }
        self.architectures.iter().rev().find(|known| **known < architecture).map(|known| Target::Ptx(*known))
    }

    /// Compiles one file.
    ///
    /// # Errors
    /// What the compiler says against it.
    pub fn compile(&self, source: &Source<'_>, target: Target, options: &[String]) -> Result<Compiled> {
        let program = Building::new(self, source)?;
        let options: Vec<CString> =
            options.iter().chain([&target.option()]).map(|option| text(option)).collect::<Result<_>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive, and so are the options' texts behind the pointers.
        let status = unsafe { (self.functions.compile)(program.program, pointers.len() as i32, pointers.as_ptr()) };
        let log = program
            .take(self.functions.log_size, self.functions.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_string());
        self.check(source, status, log.as_deref().unwrap_or_default())?;
        let image = match target {
            Target::Cubin(_) => program.take(self.functions.cubin_size, self.functions.cubin),
            Target::Ptx(_) => program.take(self.functions.ptx_size, self.functions.ptx),
        };
        let image = image.or_else(|status| self.check(source, status, "gives no code").map(|()| Vec::new()))?;
        Ok(Compiled { image, log: log.unwrap_or_default() })
    }

    fn check(&self, source: &Source<'_>, status: i32, log: &str) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the library gives a text of its own that ends with a zero, for any number.
        let reason = unsafe { CStr::from_ptr((self.functions.describe)(status)) }.to_string_lossy();
        Err(Error::failed(format!(
            "{}: NVRTC {}.{} ({}) does not compile it: {reason}: {log}",
            source.name,
            self.version.0,
            self.version.1,
            self.path.display()
        )))
    }
}

/// A program under compilation.
struct Building<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl<'a> Building<'a> {
    fn new(nvrtc: &'a Nvrtc, source: &Source<'_>) -> Result<Building<'a>> {
        let (name, body) = (text(source.name)?, text(source.text)?);
        let names: Vec<CString> = source.headers.iter().map(|(name, _)| text(name)).collect::<Result<_>>()?;
        let texts: Vec<CString> = source.headers.iter().map(|(_, body)| text(body)).collect::<Result<_>>()?;
        let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let mut program = ptr::null_mut();
        // SAFETY: all texts end with a zero and outlive the call, which copies them; the two lists are of the length given.
        let status = unsafe {
            (nvrtc.functions.create)(
                &mut program,
                body.as_ptr(),
                name.as_ptr(),
                texts.len() as i32,
                pointers(&texts).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        nvrtc.check(source, status, "no program can be made of it")?;
        Ok(Building { nvrtc, program })
    }

    /// What a pair of functions gives, of which one says how long it is.
    fn take(
        &self,
        size: unsafe extern "C" fn(Program, *mut usize) -> i32,
        fill: unsafe extern "C" fn(Program, *mut c_char) -> i32,
    ) -> Result<Vec<u8>, i32> {
        let mut length = 0;
        // SAFETY: the program is alive.
        let status = unsafe { size(self.program, &mut length) };
        if status != 0 {
            return Err(status);
        }
        let mut bytes = vec![0u8; length];
        // SAFETY: the buffer is as long as the library said.
        match unsafe { fill(self.program, bytes.as_mut_ptr().cast()) } {
            0 => Ok(bytes),
            status => Err(status),
        }
    }
}

impl Drop for Building<'_> {
    fn drop(&mut self) {
        // SAFETY: the program was made by this library and is given back once. Nothing can be done about a failure.
        unsafe { (self.nvrtc.functions.destroy)(&mut self.program) };
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::failed("a text for NVRTC has a zero in it"))
}
