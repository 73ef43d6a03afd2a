//! Slices a network into stages (DVABatch, section 7.1): ranges of operators in running order.

use std::ops::Range;

use super::CostModel;
use crate::base::units::Nanos;
use crate::core::task::Step;
use crate::core::workload::dnn::Dnn;

/// The time of each operator; `tokens` is 0 for a network that takes none.
pub fn times(network: &Dnn, costs: &dyn CostModel, batch: u32, tokens: u32) -> Vec<Nanos> {
    let mut times = Vec::with_capacity(network.operators().len());
    for operator in network.operators() {
        times.push(costs.cell(&Step {
            cell: operator.cell,
            batch,
            times: 1,
            input: network.input(operator, tokens),
        }));
    }
    times
}

/// The stages that are as even as possible: the longest is as short as can be, and then the sum of squares is the
/// least.
pub fn even(times: &[Nanos], stages: usize) -> Result<Vec<Range<usize>>, String> {
    if !(1..=times.len()).contains(&stages) {
        return Err(format!(
            "{stages} stages of {} operators; from 1 to {}",
            times.len(),
            times.len()
        ));
    }
    let mut until = vec![0u128; times.len() + 1];
    for (place, time) in times.iter().enumerate() {
        until[place + 1] = until[place] + u128::from(time.0);
    }
    let time = |from: usize, to: usize| until[to] - until[from];
    let (longest, _) = best(times.len(), stages, |before, from, to| {
        Some(before.max(time(from, to)))
    });
    let (_, ranges) = best(times.len(), stages, |before, from, to| {
        let stage = time(from, to);
        if stage <= longest {
            Some(before.saturating_add(stage.saturating_mul(stage)))
        } else {
            None
        }
    });
    Ok(ranges)
}

/// The least cost and its stages. `cost(before, from, to)` adds the stage `from..to`, or is `None` if the stage is not
/// allowed. Ties go to the longest last stages.
fn best(
    operators: usize,
    stages: usize,
    cost: impl Fn(u128, usize, usize) -> Option<u128>,
) -> (u128, Vec<Range<usize>>) {
    // For each place: the least cost of the operators before it, and where the last stage begins.
    let mut least: Vec<Option<u128>> = vec![None; operators + 1];
    least[0] = Some(0);
    let mut begins = Vec::with_capacity(stages);
    for _ in 0..stages {
        let to_each = (0..=operators).map(|to| {
            let ways = (0..to).filter_map(|from| Some((cost(least[from]?, from, to)?, from)));
            ways.min()
        });
        let ways: Vec<Option<(u128, usize)>> = to_each.collect();
        least = ways.iter().map(|way| way.map(|(cost, _)| cost)).collect();
        begins.push(ways);
    }
    let mut ranges = Vec::with_capacity(stages);
    let mut end = operators;
    for ways in begins.iter().rev() {
        let (_, from) =
            ways[end].expect("there are as many operators as stages, so that there is a way");
        ranges.push(from..end);
        end = from;
    }
    ranges.reverse();
    (least[operators].expect("there is a way"), ranges)
}

/// The stages that begin at the operators with these names.
pub fn stages_by_name(network: &Dnn, names: &[&str]) -> Result<Vec<Range<usize>>, String> {
    let known: Vec<&str> = network
        .operators()
        .map(|operator| operator.name.as_str())
        .collect();
    let mut cuts = Vec::with_capacity(names.len());
    for name in names {
        match known.iter().position(|known| known == name) {
            Some(place) => cuts.push(place),
            None => {
                return Err(format!(
                    "no operator \"{name}\" in {}; it has: {}",
                    network.path.display(),
                    known.join(", ")
                ));
            }
        }
    }
    cuts.sort_unstable();
    cuts.dedup();
    Ok(between(&cuts, network.operators().len()))
}

/// The stages that begin where preferred batches fall from above to at most the threshold.
pub fn stages_by_preferred_batch(preferred: &[u32], threshold: u32) -> Vec<Range<usize>> {
    let cuts: Vec<usize> = (1..preferred.len())
        .filter(|place| preferred[place - 1] > threshold && preferred[*place] <= threshold)
        .collect();
    between(&cuts, preferred.len())
}

/// The stages between cuts, which ascend.
fn between(cuts: &[usize], operators: usize) -> Vec<Range<usize>> {
    let mut ends = cuts
        .iter()
        .copied()
        .filter(|cut| *cut > 0)
        .chain([operators]);
    let mut from = 0;
    std::iter::from_fn(|| {
        let end = ends.next()?;
        Some(std::mem::replace(&mut from, end)..end)
    })
    .collect()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // a single stage is a list of one range
mod tests {
    use super::*;

    fn balanced_stages(times: &[u64], stages: usize) -> Vec<Range<usize>> {
        even(
            &times.iter().copied().map(Nanos).collect::<Vec<_>>(),
            stages,
        )
        .unwrap()
    }

    #[test]
    fn stages_are_even_in_time() {
        assert_eq!(balanced_stages(&[1; 8], 4), [0..2, 2..4, 4..6, 6..8]);
        assert_eq!(balanced_stages(&[5, 1, 1, 1, 1, 1], 2), [0..1, 1..6]);
        assert_eq!(balanced_stages(&[9, 1, 1, 1, 1], 3), [0..1, 1..3, 3..5]);
        assert_eq!(balanced_stages(&[0, 0, 0], 3), [0..1, 1..2, 2..3]);
        assert_eq!(balanced_stages(&[3, 4], 1), [0..2]);
        assert_eq!(
            even(&[Nanos(1)], 2).unwrap_err(),
            "2 stages of 1 operators; from 1 to 1"
        );
        assert!(even(&[Nanos(1)], 0).is_err());
    }

    #[test]
    fn cuts_stand_where_the_preferred_batch_falls() {
        assert_eq!(
            stages_by_preferred_batch(&[32, 64, 8, 4, 16, 8], 8),
            [0..2, 2..5, 5..6]
        );
        assert_eq!(stages_by_preferred_batch(&[1, 2, 4], 8), [0..3]);
        assert_eq!(stages_by_preferred_batch(&[16, 32], 8), [0..2]);
    }

    #[test]
    fn cuts_stand_at_names() {
        let text =
            "shape,fixed\nname,kind,elements\na,memory,1\nb,memory,1\na,memory,1\nc,memory,1\n";
        let network = Dnn::parse("n.csv", std::path::Path::new("n.csv"), text).unwrap();
        assert_eq!(
            stages_by_name(&network, &["c", "b"]).unwrap(),
            [0..1, 1..3, 3..4]
        );
        assert_eq!(stages_by_name(&network, &["a"]).unwrap(), [0..4]);
        assert_eq!(
            stages_by_name(&network, &["d"]).unwrap_err(),
            "no operator \"d\" in n.csv; it has: a, b, a, c"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_other_cuts_have_a_shorter_longest_stage(
            times in proptest::collection::vec(0u64..20, 1..9), wanted in 1usize..5,
        ) {
            let stages = wanted.min(times.len());
            let ranges = balanced_stages(&times, stages);
            proptest::prop_assert_eq!(ranges.len(), stages);
            proptest::prop_assert!(ranges.iter().all(|range| !range.is_empty()));
            proptest::prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            proptest::prop_assert_eq!((ranges[0].start, ranges[stages - 1].end), (0, times.len()));
            let longest = |ranges: &[Range<usize>]| {
                ranges.iter().map(|range| times[range.clone()].iter().sum::<u64>()).max().unwrap()
            };
            for cuts in (0u32..1 << (times.len() - 1)).filter(|cuts| cuts.count_ones() as usize == stages - 1) {
                let cuts: Vec<usize> = (1..times.len()).filter(|place| cuts >> (place - 1) & 1 == 1).collect();
                proptest::prop_assert!(longest(&ranges) <= longest(&between(&cuts, times.len())));
            }
        }
    }
}
