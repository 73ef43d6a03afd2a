//! A temporary folder with a small scenario, in which tests run the program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Two policies, two rates, requests of four steps; a task of one takes a millisecond.
pub const SCENARIO: &str = r#"name = "t"
[workload]
model = "lstm"
dataset = "lengths.csv"
requests = 200
[arrivals]
process = "poisson"
rates = [100, 200]
[device]
costs = "costs.csv"
[[policy]]
kind = "cellular"
label = "A"
[[policy]]
kind = "padded"
label = "B"
"#;

pub const COSTS: &str = "cell,batch,ns\nlstm,1,1000000\nlstm,2,1100000\n";

/// A folder that is deleted when the test ends.
pub struct Desk {
    folder: TempDir,
}

/// The result of a call.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("messages are UTF-8");
        Ran {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ran {
    /// Asserts success.
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Asserts that the call printed one error and nothing else.
    #[track_caller]
    pub fn failed(&self, code: i32, message: &str) {
        assert_eq!(self.code, Some(code), "expected {message}\n{self:?}");
        assert_eq!(self.stdout, "", "expected {message}");
        assert!(
            self.stderr.starts_with("batchlab: "),
            "expected {message}\n{self:?}"
        );
        assert_eq!(
            self.stderr.lines().count(),
            1,
            "expected {message}\n{self:?}"
        );
        assert_eq!(
            self.stderr.matches(message).count(),
            1,
            "expected {message}\n{self:?}"
        );
    }

    /// The array on standard output.
    #[track_caller]
    pub fn results(&self) -> Vec<Value> {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// The only result in the array on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        let mut results = self.results();
        assert_eq!(results.len(), 1, "{}", self.stdout);
        results.remove(0)
    }
}

impl Desk {
    pub fn new() -> Desk {
        let desk = Desk {
            folder: tempfile::tempdir().expect("a folder for the test"),
        };
        desk.write("t.toml", SCENARIO);
        desk.write("costs.csv", COSTS);
        desk.write("lengths.csv", "length,count\n2,1\n4,2\n9,1\n");
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).expect("the test's folder can be written");
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program, with the folder as its working directory.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = program();
        command.current_dir(self.folder.path()).args(words);
        command
    }

    /// Runs the program in the folder.
    pub fn run(&self, words: &[&str]) -> Ran {
        self.command(words)
            .output()
            .expect("the program starts")
            .into()
    }

    /// `batchlab sim t.toml --out out --quiet …`
    pub fn sim(&self, more: &[&str]) -> Ran {
        self.run(&[&["sim", "t.toml", "--out", "out", "--quiet"], more].concat())
    }

    /// Asserts that `sim` refuses the scenario with these options, and writes nothing.
    #[track_caller]
    pub fn refuses(&self, more: &[&str], message: &str) {
        self.sim(more).failed(2, message);
        assert!(!self.path("out").exists(), "{message}: a folder was made");
    }

    /// The rows of a CSV file, by column names.
    #[track_caller]
    pub fn rows(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let text = self.read(name);
        let mut lines = text
            .lines()
            .map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let header = lines.next().expect("a header");
        lines
            .map(|fields| header.iter().cloned().zip(fields).collect())
            .collect()
    }

    /// One column of a CSV file.
    #[track_caller]
    pub fn column(&self, name: &str, column: &str) -> Vec<String> {
        self.rows(name)
            .into_iter()
            .map(|row| row[column].clone())
            .collect()
    }

    /// The bytes of every file below a folder, except `host.json`.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = files_below(&self.path(folder));
        files.retain(|name, _| !name.ends_with("host.json"));
        files
    }
}

/// The program without options.
pub fn program() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("batchlab"));
    command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    command
}

/// The bytes of every file below a folder, by relative path.
pub fn files_below(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(&here).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                let name = path
                    .strip_prefix(folder)
                    .expect("it is below")
                    .display()
                    .to_string();
                files.insert(name, bytes);
            }
        }
    }
    files
}

/// Asserts that two folders are equal, and names the files that differ.
#[track_caller]
pub fn same(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) {
    let names = one.keys().chain(other.keys());
    let differing: Vec<&String> = names
        .filter(|name| one.get(*name) != other.get(*name))
        .collect();
    assert!(differing.is_empty(), "these differ: {differing:?}");
    assert!(!one.is_empty(), "there are no files");
}
