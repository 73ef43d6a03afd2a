//! The checks of all papers' claims.

use super::findings::{Check, Findings};
use super::paper::{Claim, Paper};
use super::verdict::{ClaimOutcome, ClaimVerdict};
use super::{batchmaker, continuous, dvabatch, grnn, jit, late};
use crate::base::error::Result;

/// The checks of a paper by the claims' names, in the order of the claims.
fn checks(paper: Paper) -> &'static [(&'static str, Check)] {
    match paper {
        Paper::BatchMaker => batchmaker::CHECKS,
        Paper::Late => late::CHECKS,
        Paper::Jit => jit::CHECKS,
        Paper::DvaBatch => dvabatch::CHECKS,
        Paper::Grnn => grnn::CHECKS,
        Paper::Neighbours => &[],
        Paper::Continuous => continuous::CHECKS,
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug)]
pub struct CheckedClaim {
    pub claim: &'static Claim,
    pub verdict: ClaimVerdict,
}

impl CheckedClaim {
    /// Why the claim does not hold, if it doesn't.
    pub fn reason(&self) -> Option<&'static str> {
        if self.verdict.outcome.holds() {
            return None;
        }
        let reason: &str = match &self.claim.missing {
            Some(name) if self.verdict.outcome == ClaimOutcome::NotRun => {
                self.claim.paper.reason_for_missing(name)
            }
            _ => &self.claim.with_reason().reason,
        };
        if reason.is_empty() {
            None
        } else {
            Some(reason)
        }
    }

    /// Commands that show the reason, if there is one. The command that makes the exhibits is not included.
    pub fn shown_by(&self) -> &'static [String] {
        match self.reason() {
            Some(_) => &self.claim.with_reason().shown_by,
            None => &[],
        }
    }
}

/// Checks the claims of a paper whose exhibits all have results.
pub fn check_claims(paper: Paper, findings: &Findings) -> Result<Vec<CheckedClaim>> {
    let mut checked = Vec::new();
    for claim in paper.claims() {
        let mut exhibits = claim.exhibits.iter();
        if exhibits.all(|exhibit| findings.exhibits.contains_key(exhibit)) {
            let verdict = find_check(claim)(findings, &claim.value)?;
            checked.push(CheckedClaim { claim, verdict });
        }
    }
    Ok(checked)
}

fn find_check(claim: &Claim) -> Check {
    checks(claim.paper)
        .iter()
        .find(|(id, _)| *id == claim.id)
        .map(|(_, check)| *check)
        .expect("every claim has a check")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_checks_in_the_same_order() {
        for paper in Paper::ALL {
            let claims: Vec<&str> = paper.claims().iter().map(|one| one.id.as_str()).collect();
            let checks: Vec<&str> = checks(paper).iter().map(|(id, _)| *id).collect();
            assert_eq!(claims, checks);
        }
    }
}
