//! Lists of steps that many tasks run: a stage of a network, or all of it. Such tasks differ only in their batch and
//! input. They name their list, so that costs and counts are kept by list, and its steps are not gone through again.

use super::Step;

/// Lists of fewer steps are gone through as quickly as they are found.
const FEWEST_STEPS: usize = 4;
/// The largest number of lists. Policies with more have tasks that seldom repeat.
const MOST_LISTS: usize = 64;

/// The number of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepListId(pub u16);

impl StepListId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The steps of a list at one batch and one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedSteps {
    pub list: StepListId,
    pub batch: u32,
    /// The input of the steps that take one; 0 if none does.
    pub input: u32,
}

/// The lists of steps that have occurred.
#[derive(Default)]
pub struct StepLists {
    lists: Vec<StepList>,
}

/// A list of steps, which all have one batch. Those that take an input have the same one.
struct StepList {
    /// The steps for a batch of 1 and an input of 1.
    steps: Box<[Step]>,
    /// The place of the first step that takes an input.
    sized: Option<usize>,
}

impl StepLists {
    /// The list of these steps, or `None` for a short list, for steps of several batches or inputs, and once there are
    /// too many lists.
    pub fn find(&mut self, steps: &[Step]) -> Option<ListedSteps> {
        if steps.len() < FEWEST_STEPS {
            return None;
        }
        let known = self.lists.iter().position(|list| list.has(steps));
        let place = match known {
            Some(place) => place,
            None if self.lists.len() < MOST_LISTS => {
                self.lists.push(StepList::new(steps)?);
                self.lists.len() - 1
            }
            None => return None,
        };
        Some(ListedSteps {
            list: StepListId(place as u16),
            batch: steps[0].batch,
            input: self.lists[place].input(steps),
        })
    }
}

impl StepList {
    /// The list of steps that have one batch and one input, or `None` for other steps.
    fn new(steps: &[Step]) -> Option<StepList> {
        let batch = steps[0].batch;
        let sized = steps.iter().position(|step| step.input > 0);
        let input = sized.map_or(0, |place| steps[place].input);
        let is_uniform = |step: &Step| step.batch == batch && [0, input].contains(&step.input);
        if !steps.iter().all(is_uniform) {
            return None;
        }
        let unit = |step: &Step| Step {
            batch: 1,
            input: u32::from(step.input > 0),
            ..*step
        };
        Some(StepList {
            steps: steps.iter().map(unit).collect(),
            sized,
        })
    }

    /// Whether these are the steps of the list at some batch and input.
    fn has(&self, steps: &[Step]) -> bool {
        if self.steps.len() != steps.len() {
            return false;
        }
        let batch = steps[0].batch;
        let input = self.input(steps);
        self.steps.iter().zip(steps).all(|(unit, step)| {
            let expected = Step {
                batch,
                input: unit.input * input,
                ..*unit
            };
            *step == expected
        })
    }

    /// The input of the steps that take one; 0 if none does.
    fn input(&self, steps: &[Step]) -> u32 {
        self.sized.map_or(0, |place| steps[place].input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::CellId;

    fn step(cell: u16, batch: u32, input: u32) -> Step {
        Step {
            cell: CellId(cell),
            batch,
            times: 1,
            input,
        }
    }

    #[test]
    fn a_list_is_found_at_all_batches_and_inputs() {
        let mut lists = StepLists::default();
        let mut find = |batch, input| {
            let steps = [(0, 0), (1, input), (0, 0), (2, input)];
            let steps = steps.map(|(cell, input)| step(cell, batch, input));
            lists.find(&steps).unwrap()
        };
        for (batch, input) in [(8, 5), (1, 5), (2048, 70_000), (3, 0)] {
            let expected = ListedSteps {
                list: StepListId(0),
                batch,
                input,
            };
            assert_eq!(find(batch, input), expected);
        }
    }

    #[test]
    fn what_seldom_repeats_has_no_list() {
        let mut lists = StepLists::default();
        let mut is_found = |steps: &[Step]| lists.find(steps).is_some();
        assert!(is_found(&[step(0, 8, 5); 4]));
        assert!(!is_found(&[step(0, 8, 5); 3]), "a short list");
        let [first, second] = [step(0, 8, 5), step(0, 8, 4)];
        assert!(!is_found(&[first, first, first, second]), "two inputs");
        assert!(
            !is_found(&[first, first, first, step(0, 7, 5)]),
            "two batches"
        );
        for cell in 1..64 {
            assert!(is_found(&[step(cell, 8, 5); 4]));
        }
        assert!(!is_found(&[step(64, 8, 5); 4]), "the 65th list");
        assert!(is_found(&[step(63, 9, 6); 4]));
    }
}
