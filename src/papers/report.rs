//! Tables of claims: the paper's value, ours, the gap and the reason.

use serde_json::{Value, json};

use super::verdict::TOLERANCE;
use super::{Checked, Kind, Word};

/// The claims as text: a block each, with the reason if a claim does not hold.
pub fn table(checked: &[Checked]) -> String {
    let mut text = String::new();
    for one in checked {
        let Checked { claim, verdict, .. } = one;
        text.push_str(&format!("{:<10}{} ({}): {}\n", verdict.word.name(), claim.id, claim.place, claim.what));
        text.push_str(&format!("{:<10}paper {}, ours {}, gap {}\n", "", claim.paper, verdict.ours, verdict.gap_text()));
        if let Some(reason) = one.reason() {
            text.push_str(&format!("{:<10}why: {reason}\n", ""));
        }
    }
    text + &summary(checked)
}

/// The number of claims by verdict, and how many of the simulated ones hold.
pub fn summary(checked: &[Checked]) -> String {
    let count = |word: Word| checked.iter().filter(|one| one.verdict.word == word).count();
    let words = Word::ALL.into_iter().filter(|word| count(*word) > 0);
    let words: Vec<String> = words.map(|word| format!("{} {}", count(word), word.name())).collect();
    let mut text = format!("{} claims: {}\n", checked.len(), words.join(", "));
    // A claim that a row of the cost table was made from checks nothing.
    let simulated = || checked.iter().filter(|one| one.claim.kind == Kind::Sim && one.verdict.word != Word::Derived);
    let all = simulated().count();
    if all > 0 {
        let holds = simulated().filter(|one| one.verdict.word == Word::Holds).count();
        let direction = holds + simulated().filter(|one| one.verdict.word == Word::Direction).count();
        let percent = |part: usize| 100 * part / all;
        text.push_str(&format!(
            "of {all} simulated ones {holds} ({} %) are within {} % of the paper's value or in its order, {direction} ({} %) agree in \
             direction\n",
            percent(holds),
            100.0 * TOLERANCE,
            percent(direction)
        ));
    }
    text
}

/// The claims as JSON, in the papers' order.
pub fn to_json(checked: &[Checked]) -> Value {
    let one = |one: &Checked| {
        let Checked { paper, claim, verdict } = one;
        json!({
            "id": claim.id,
            "of": paper.name(),
            "kind": claim.kind.name(),
            "place": claim.place,
            "what": claim.what,
            "paper": claim.paper,
            "ours": verdict.ours,
            "gap_percent": verdict.gap,
            "verdict": verdict.word.name(),
            "reason": one.reason(),
        })
    };
    checked.iter().map(one).collect()
}
