//! The C++ compiler of the host.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// What is called, with the words that go in front of all others.
#[derive(Clone, Debug)]
pub struct Compiler(Vec<String>);

/// The compiler that `CXX` names, or one of those that are usually there. Without one, the reason is printed once, so that
/// tests can be left out.
///
/// # Panics
/// With `REQUIRE_CXX=1`, where there is none.
pub fn find() -> Option<&'static Compiler> {
    static FOUND: OnceLock<Option<Compiler>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let named = std::env::var("CXX")
                .ok()
                .filter(|name| !name.trim().is_empty());
            let usual = ["c++", "g++", "clang++", "python3 -m ziglang c++"].map(str::to_string);
            let candidates = named.map_or(usual.to_vec(), |name| vec![name]);
            let words =
                |name: &String| Compiler(name.split_whitespace().map(str::to_string).collect());
            let found = candidates.iter().map(words).find(Compiler::answers);
            found.or_else(|| {
                without(&format!(
                    "there is no C++ compiler (tried {})",
                    candidates.join(", ")
                ))
            })
        })
        .as_ref()
}

fn without(reason: &str) -> Option<Compiler> {
    assert!(
        std::env::var_os("REQUIRE_CXX").is_none_or(|value| value != "1"),
        "REQUIRE_CXX=1, and {reason}"
    );
    eprintln!("left out: {reason}");
    None
}

impl Compiler {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).stdin(Stdio::null());
        command
    }

    fn answers(&self) -> bool {
        let output = self.command().arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Compiles in a folder.
    ///
    /// # Panics
    /// With what the compiler says, if it does not.
    #[track_caller]
    pub fn compile(&self, folder: &Path, words: &[String]) {
        let output = self
            .command()
            .current_dir(folder)
            .args(words)
            .output()
            .expect("the compiler starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{} {}\n{said}",
            self.0.join(" "),
            words.join(" ")
        );
    }
}

impl std::fmt::Display for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}
