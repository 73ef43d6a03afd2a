//! The table of claims: the paper's figure, ours, and the gap.

use serde_json::{Value, json};

use super::{Claim, TOLERANCE, Verdict};

/// The claims for a reader: one block each, with the reason where a claim does not hold.
pub fn table(checked: &[(&Claim, Verdict)]) -> String {
    let mut text = String::new();
    for (claim, verdict) in checked {
        let mark = if verdict.holds { "ok " } else { "GAP" };
        text.push_str(&format!("{mark} {} ({}): {}\n", claim.id, claim.place, claim.what));
        text.push_str(&format!("      paper {}, ours {}, gap: {}\n", claim.paper, verdict.ours, verdict.gap));
        if !verdict.holds && !claim.reason.is_empty() {
            text.push_str(&format!("      why: {}\n", claim.reason));
        }
    }
    let held = checked.iter().filter(|(_, verdict)| verdict.holds).count();
    let within = TOLERANCE * 100.0;
    text.push_str(&format!(
        "{held} of {} claims hold; a number holds within {within} % of the paper's\n",
        checked.len()
    ));
    text
}

/// The claims for a program.
pub fn to_json(checked: &[(&Claim, Verdict)]) -> Value {
    checked
        .iter()
        .map(|(claim, verdict)| {
            json!({
                "id": claim.id,
                "place": claim.place,
                "what": claim.what,
                "paper": claim.paper,
                "ours": verdict.ours,
                "gap": verdict.gap,
                "holds": verdict.holds,
                "reason": if verdict.holds { Value::Null } else { claim.reason.into() },
            })
        })
        .collect()
}
