//! The parts of a policy's search and their findings, in memory or in a folder.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::error::Result;
use crate::lab::run::folder::Folder;

/// Where the searches of a scenario keep their findings, and which of their parts are carried out.
#[derive(Debug, Default)]
pub struct SearchRecord {
    /// The folder and the name of the search, or `None` to keep the findings in memory only.
    pub(super) folder: Option<(Folder, &'static str)>,
    /// Whether each part is carried out, policy by policy; `None` for all.
    pub(super) own: Option<Vec<bool>>,
}

/// The parts of a policy's search.
pub(super) struct SearchParts<'k, F> {
    record: &'k SearchRecord,
    policy: usize,
    /// Whether this process carries out each part.
    own: Vec<bool>,
    /// The findings of each part, round by round.
    found: Vec<Vec<F>>,
    finished_rounds: usize,
}

impl<'k, F: Serialize + DeserializeOwned + Clone> SearchParts<'k, F> {
    /// Reads what earlier processes have found.
    pub fn read(record: &'k SearchRecord, policy: usize, count: u32) -> Result<Self> {
        let first = policy * count as usize;
        let own = match &record.own {
            Some(own) => own[first..first + count as usize].to_vec(),
            None => vec![true; count as usize],
        };
        let mut found = Vec::new();
        for part in 0..count {
            found.push(match &record.folder {
                Some((folder, name)) => folder.read_search(name, policy, part)?,
                None => Vec::new(),
            });
        }
        Ok(SearchParts {
            record,
            policy,
            own,
            found,
            finished_rounds: 0,
        })
    }

    pub fn own_count(&self) -> usize {
        self.own.iter().filter(|own| **own).count()
    }

    /// The parts that this process carries out in the current round. A shard carries out the first round, which is
    /// short, for all parts: it decides on the length of the second, with which most searches end.
    pub fn due(&self) -> Vec<u32> {
        let shares_round = self.finished_rounds == 0 && self.own.contains(&true);
        let mut due = self.missing();
        due.retain(|part| shares_round || self.own[*part as usize]);
        due
    }

    /// The parts that have not finished the current round.
    pub fn missing(&self) -> Vec<u32> {
        (0..)
            .zip(&self.found)
            .filter(|(_, found)| found.len() == self.finished_rounds)
            .map(|(part, _)| part)
            .collect()
    }

    /// Writes a finding of a part of this process to the folder, if there is one.
    pub fn keep(&self, part: u32, found: &F) -> Result<()> {
        let place = part as usize;
        match &self.record.folder {
            Some((folder, name)) if self.own[place] => {
                let mut rounds = self.found[place].clone();
                rounds.push(found.clone());
                folder.write_search(name, self.policy, part, &rounds)
            }
            _ => Ok(()),
        }
    }

    /// Adds the findings of the current round, one for each of `parts`.
    pub fn add(&mut self, parts: &[u32], found: Vec<F>) {
        for (part, found) in parts.iter().zip(found) {
            self.found[*part as usize].push(found);
        }
    }

    /// Ends the current round and returns its findings, part by part.
    pub fn finish_round(&mut self) -> Vec<F> {
        let round = self.finished_rounds;
        self.finished_rounds += 1;
        self.found
            .iter()
            .map(|rounds| rounds[round].clone())
            .collect()
    }
}
