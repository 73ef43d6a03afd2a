//! `scenarios/reference.toml` shows every key and the defaults that the code has.

use std::collections::BTreeSet;

use super::*;

/// The keys without defaults.
const MINIMAL: &str = r#"
name = "reference"
workload = { model = "lstm", dataset = "constant:24" }
arrivals = { process = "poisson", rates = [1000, 2000] }
device = { costs = "scenarios/costs/v100.csv" }
policy = [{ kind = "cellular" }, { kind = "late" }, { kind = "padded" }, { kind = "merged" }, { kind = "fold" }, { kind = "ideal" },
          { kind = "unbatched" }, { kind = "dynet" }, { kind = "jit" }, { kind = "dvabatch" }, { kind = "lazy" },
          { kind = "triton" }, { kind = "nexus" }, { kind = "clockwork" }, { kind = "symphony" }, { kind = "control-limit" }]
"#;

const MINIMAL_LLM: &str = r#"
name = "reference-llm"
workload = { model = "llm:scenarios/llms/opt-13b.toml", dataset = "constant:220>180" }
arrivals = { process = "poisson", rates = [1, 2] }
device = { roofline = "scenarios/devices/a100.toml", precision = "f16" }
policy = [{ kind = "static" }, { kind = "orca" }, { kind = "vllm" }, { kind = "sarathi" }]
"#;

/// The text of the reference in a folder of its own, so that tests do not depend on the current folder.
struct Reference {
    folder: tempfile::TempDir,
    text: String,
}

impl Reference {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in [
            "scenarios/costs/v100.csv",
            "traces/some-trace.csv",
            "weights.safetensors",
            "noise.csv",
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let text = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/reference.toml"),
        )
        .unwrap();
        Reference { folder, text }
    }

    fn of_llms() -> String {
        fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/reference-llm.toml"),
        )
        .unwrap()
    }

    fn read(&self, text: &str) -> Result<Scenario> {
        Scenario::parse(
            text.into(),
            &self.folder.path().join("reference.toml"),
            &[],
            &Registry::standard(),
        )
    }
}

/// A line `key = value`, or `# key = value`.
fn key_of(line: &str) -> Option<&str> {
    let key = line.split_once(" = ")?.0;
    key.bytes()
        .all(|b| b.is_ascii_lowercase() || b == b'_')
        .then_some(key)
}

fn commented_key_of(line: &str) -> Option<&str> {
    line.strip_prefix("# ").and_then(key_of)
}

#[test]
fn values_are_the_defaults() {
    let reference = Reference::new();
    let shown = reference.read(&reference.text).unwrap().resolved_json();
    let default = reference.read(MINIMAL).unwrap().resolved_json();
    assert_eq!(shown, default);
    let llm = Reference::of_llms();
    let shown = reference.read(&llm).unwrap().resolved_json();
    assert_eq!(shown, reference.read(MINIMAL_LLM).unwrap().resolved_json());
}

#[test]
fn every_known_key_is_shown() {
    let text = Reference::new().text + &Reference::of_llms();
    let mut shown = BTreeSet::new();
    let mut table = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']).to_string();
            shown.insert(table.clone());
        } else if let Some(kind) = line.strip_prefix("kind = ") {
            table = format!("policy {}", kind.trim_matches('"'));
        } else if let Some(key) = key_of(line).or_else(|| commented_key_of(line)) {
            shown.insert(format!("{table}.{key}").trim_start_matches('.').to_string());
        }
    }
    let mut known: Vec<String> = Vec::new();
    let mut add =
        |table: &str, keys: &[String]| known.extend(keys.iter().map(|key| format!("{table}{key}")));
    for table in [
        "",
        "workload.",
        "device.",
        "overhead.",
        "metrics.",
        "output.",
        "output.figure.",
    ] {
        add(table, &known_keys(&format!("{table}nonsense=1")));
    }
    let processes = known_keys("arrivals.process=nonsense");
    for process in &processes {
        add(
            "arrivals.",
            &known_keys(&format!(
                "arrivals={{ process = '{process}', nonsense = 1 }}"
            )),
        );
    }
    // The keys of all policies are shown once, at the first policy.
    add(
        "policy cellular.",
        &known_keys("policy.cellular.nonsense=1")[1..],
    );
    let registry = Registry::standard();
    for kind in registry.kinds() {
        let keys = registry
            .keys(kind)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        add(&format!("policy {kind}."), &keys);
    }
    let missing: Vec<&String> = known.iter().filter(|key| !shown.contains(*key)).collect();
    assert!(
        missing.is_empty(),
        "not in scenarios/reference.toml: {missing:?}"
    );
    for process in processes {
        assert!(
            text.contains(&format!("process = \"{process}\"")),
            "not in scenarios/reference.toml: {process}"
        );
    }
}

/// The keys or values that the refusal of an override lists.
fn known_keys(set: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/quickstart.toml");
    let text = MINIMAL.replace("device = { costs = \"scenarios/costs/v100.csv\" }\n", "");
    let refusal = Scenario::parse(text, &file, &[set.into()], &Registry::standard())
        .unwrap_err()
        .to_string();
    let (_, known) = refusal
        .rsplit_once("; known: ")
        .unwrap_or_else(|| panic!("{set}: {refusal}"));
    // Policies that need costs are refused in lines of their own.
    known
        .lines()
        .next()
        .unwrap_or_default()
        .split(", ")
        .map(str::to_string)
        .collect()
}

/// Each block of commented keys replaces the keys of the same names and those listed after "instead of".
#[test]
fn commented_keys_work_too() {
    let reference = Reference::new();
    let lines: Vec<&str> = reference.text.lines().collect();
    let mut at = 0;
    let mut blocks = 0;
    while at < lines.len() {
        let length = lines[at..]
            .iter()
            .take_while(|line| commented_key_of(line).is_some())
            .count();
        if length == 0 {
            at += 1;
            continue;
        }
        let block = &lines[at..at + length];
        let about: String = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with('#'))
            .copied()
            .collect();
        let mut gone: Vec<&str> = block
            .iter()
            .filter_map(|line| commented_key_of(line))
            .collect();
        if about.contains("instead of") {
            gone.extend(about.split('`').skip(1).step_by(2));
        }
        let of_block = table_at(&lines, at);
        let text: Vec<&str> = (0..lines.len())
            .filter_map(|line| match table_at(&lines, line) {
                _ if (at..at + length).contains(&line) => lines[line].strip_prefix("# "),
                table if gone.contains(&table) => None,
                table
                    if table == of_block
                        && key_of(lines[line]).is_some_and(|key| gone.contains(&key)) =>
                {
                    None
                }
                _ => Some(lines[line]),
            })
            .collect();
        if let Err(error) = reference.read(&text.join("\n")) {
            panic!("the block\n{}\nis refused: {error}", block.join("\n"));
        }
        blocks += 1;
        at += length;
    }
    assert!(
        blocks >= 10,
        "only {blocks} blocks of commented keys were found"
    );
}

fn table_at<'a>(lines: &[&'a str], line: usize) -> &'a str {
    lines[..=line]
        .iter()
        .rev()
        .find(|line| line.starts_with('['))
        .copied()
        .unwrap_or_default()
}
