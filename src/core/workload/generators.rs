//! Synthetic shapes, fitted to public corpora; `traces/README.md` gives parameters and quality. A fitted distribution
//! lists each length's share, so that it is handled like a measured histogram.

use rand::RngExt;
use rand_distr::{Beta, Distribution};
use smallvec::SmallVec;
use statrs::function::erf::{erf, erf_inv};

use super::cell_graph::tree::Tree;
use super::random::RandomSequence;

/// What a generator draws.
pub enum Generator {
    Lengths(fn() -> Shares<u32>),
    Pairs(fn() -> Shares<(u32, u32)>),
    /// Prompts and outputs, which may also become one length.
    Conversations(fn() -> Shares<(u32, u32)>),
    Trees,
    /// The graphs of the model's file.
    Graphs,
}

pub const GENERATORS: [(&str, Generator); 8] = [
    ("europarl-en", Generator::Lengths(europarl_en)),
    ("europarl-de", Generator::Lengths(europarl_de)),
    ("europarl-de-en", Generator::Pairs(europarl_de_en)),
    ("paper-lstm", Generator::Lengths(paper_lstm)),
    ("treebank", Generator::Trees),
    ("graphs", Generator::Graphs),
    (
        "azure-conversation",
        Generator::Conversations(azure_conversation),
    ),
    ("sharegpt", Generator::Conversations(sharegpt)),
];

/// Values with their shares, or weights.
pub type Shares<T> = Vec<(T, f64)>;

/// The smallest share that is kept: no run draws enough requests to see smaller ones.
const NEGLIGIBLE: f64 = 1e-12;

/// The words of English Europarl sentences: negative binomial, mean 24.6.
pub fn europarl_en() -> Shares<u32> {
    negative_binomial(2.837, 0.1073)
}

/// The words of German Europarl sentences: negative binomial, mean 22.3.
pub fn europarl_de() -> Shares<u32> {
    negative_binomial(2.417, 0.1021)
}

/// The lengths of German sentences, as [`europarl_de`], and of their English translations: the logarithm of the ratio
/// is normal, with parameters by the German length.
pub fn europarl_de_en() -> Shares<(u32, u32)> {
    europarl_de()
        .into_iter()
        .flat_map(|(source, share)| {
            translations(source)
                .into_iter()
                .map(move |(target, part)| ((source, target), share * part))
        })
        .filter(|(_, share)| *share > NEGLIGIBLE)
        .collect()
}

/// The lengths of sentences with BatchMaker's mean (24), share below 100 words and longest sentence (330, section 7.1).
/// One sentence in a thousand is from an exponential tail above 100 words.
pub fn paper_lstm() -> Shares<u32> {
    const LONGEST: u32 = 330;
    const TAIL_SHARE: f64 = 0.001;
    const TAIL_START: u32 = 100;
    const TAIL_MEAN: f64 = 45.0;
    const BODY_R: f64 = 2.837;
    const BODY_MEAN: f64 = 22.88;

    let mut shares = vec![0.0; LONGEST as usize + 1];
    for (length, share) in negative_binomial(BODY_R, BODY_R / (BODY_R + BODY_MEAN)) {
        shares[length.min(LONGEST) as usize] += (1.0 - TAIL_SHARE) * share;
    }
    let survival = |excess: u32| (-f64::from(excess) / TAIL_MEAN).exp();
    for length in TAIL_START..LONGEST {
        let excess = length - TAIL_START;
        shares[length as usize] += TAIL_SHARE * (survival(excess) - survival(excess + 1));
    }
    shares[LONGEST as usize] += TAIL_SHARE * survival(LONGEST - TAIL_START);
    (0..).zip(shares).skip(1).collect()
}

/// The tokens of prompts and outputs in Azure's conversation trace of 2023: log-normal, with the trace's medians (1,020
/// and 129: Splitwise, ISCA 2024, section 3) and means (1,155 and 211). Both are drawn independently, so the trace's
/// groups of equal prompts are lost.
pub fn azure_conversation() -> Shares<(u32, u32)> {
    independent(&log_normal(1020.0, 1155.0), &log_normal(129.0, 211.0))
}

fn log_normal(median: f64, mean: f64) -> Vec<u32> {
    let spread = (2.0 * (mean / median).ln()).sqrt();
    quantiles(move |share| {
        median * (spread * std::f64::consts::SQRT_2 * erf_inv(2.0 * share - 1.0)).exp()
    })
}

/// The tokens of ShareGPT's conversations. Of their lengths only the means are stated (vLLM, SOSP 2023, figure 11), so
/// they are exponential.
pub fn sharegpt() -> Shares<(u32, u32)> {
    independent(&exponential(161.31), &exponential(337.99))
}

fn exponential(mean: f64) -> Vec<u32> {
    quantiles(move |share| -mean * (1.0 - share).ln())
}

/// The number of equally likely parts of a distribution, whose middles are taken.
const PARTS: u32 = 200;

fn quantiles(at: impl Fn(f64) -> f64) -> Vec<u32> {
    (0..PARTS)
        .map(|part| {
            at((f64::from(part) + 0.5) / f64::from(PARTS))
                .round()
                .max(1.0) as u32
        })
        .collect()
}

fn independent(first: &[u32], second: &[u32]) -> Shares<(u32, u32)> {
    first
        .iter()
        .flat_map(|a| second.iter().map(move |b| ((*a, *b), 1.0)))
        .collect()
}

/// The distribution 1 + Poisson(Gamma(shape `r`, scale `(1 - p) / p`)).
fn negative_binomial(r: f64, p: f64) -> Shares<u32> {
    let mean = 1.0 + r * (1.0 - p) / p;
    let mut shares = Vec::new();
    let mut length = 1;
    let mut share = p.powf(r);
    while f64::from(length) <= mean || share >= NEGLIGIBLE {
        shares.push((length, share));
        let growth = (r + f64::from(length - 1)) / f64::from(length) * (1.0 - p);
        share *= growth;
        length += 1;
    }
    shares
}

/// The lengths of translations: `source × exp(N(mean, sd))`, rounded, at least 1.
fn translations(source: u32) -> Shares<u32> {
    let (mean, sd) = match source {
        0..4 => (0.219, 0.462),
        4..8 => (0.149, 0.304),
        8..16 => (0.127, 0.235),
        16..32 => (0.092, 0.186),
        32..64 => (0.062, 0.155),
        _ => (0.0, 0.114),
    };
    let below = |target: u32| {
        let z = ((f64::from(target) + 0.5) / f64::from(source)).ln() - mean;
        0.5 * (1.0 + erf(z / (sd * std::f64::consts::SQRT_2)))
    };
    const REACH: f64 = 7.0; // Seven standard deviations leave out a share of 1e-12.
    let last = (f64::from(source) * (mean + REACH * sd).exp()).ceil() as u32;
    let less = |target: u32| if target > 1 { below(target - 1) } else { 0.0 };
    (1..=last)
        .map(|target| (target, below(target) - less(target)))
        .collect()
}

/// Binary constituency trees like those of the Stanford Sentiment Treebank: random splits, in which short constituents
/// hang off long ones. They are about twice as high as complete trees.
#[derive(Debug)]
pub struct Treebank {
    cuts: [Beta<f64>; SPLITS.len()],
}

/// The splits of spans with up to some number of leaves: the probabilities that only the left and only the right part
/// is a leaf, and the parameters of the cut otherwise.
const SPLITS: [(u32, [f64; 2], [f64; 2]); 7] = [
    (3, [0.773, 0.227], [1.0, 1.0]), // three leaves leave nothing to cut between two singles
    (5, [0.649, 0.159], [1.43, 1.63]),
    (8, [0.523, 0.165], [1.03, 1.59]),
    (12, [0.478, 0.172], [0.77, 1.52]),
    (18, [0.419, 0.194], [0.73, 1.60]),
    (27, [0.342, 0.219], [0.76, 1.58]),
    (u32::MAX, [0.237, 0.261], [0.82, 1.57]),
];

impl Default for Treebank {
    fn default() -> Self {
        Treebank {
            cuts: SPLITS
                .map(|(.., [a, b])| Beta::new(a, b).expect("the fitted parameters are positive")),
        }
    }
}

impl Treebank {
    /// The leaves of trees: negative binomial from 2 to 56, mean 19.1.
    pub fn leaves() -> Shares<u32> {
        let mut shares = negative_binomial(4.334, 0.1926);
        shares.retain(|(leaves, _)| (2..=56).contains(leaves));
        shares
    }

    pub fn tree(&self, leaves: u32, rng: &mut RandomSequence) -> Tree {
        binary_tree(leaves, |span| self.left_part(span, rng))
    }

    fn left_part(&self, span: u32, rng: &mut RandomSequence) -> u32 {
        if span == 2 {
            return 1;
        }
        // A sum has no branch that the processor could guess wrong.
        let class: usize = SPLITS
            .iter()
            .map(|(most, ..)| usize::from(span > *most))
            .sum();
        let (_, [left_single, right_single], _) = SPLITS[class];
        let u: f64 = rng.random();
        if u < left_single {
            1
        } else if u < left_single + right_single || span == 3 {
            span - 1
        } else {
            let cut: f64 = self.cuts[class].sample(rng);
            2 + ((cut * f64::from(span - 3)) as u32).min(span - 4)
        }
    }
}

/// A binary tree whose halves differ by at most one leaf, in post-order.
pub fn complete_tree(leaves: u32) -> Tree {
    binary_tree(leaves, |span| span.div_ceil(2))
}

/// A binary tree in post-order; `left_part` gives the leaves of a span's left part. It is called for each span before
/// the spans below, the left one first.
fn binary_tree(leaves: u32, mut left_part: impl FnMut(u32) -> u32) -> Tree {
    // A span with n leaves has 2 n - 1 nodes, the last of which is the root of its tree.
    let mut parents = vec![Tree::NO_PARENT; 2 * leaves as usize - 1].into_boxed_slice();
    // The spans to the right, which are still to be split, with the numbers of nodes before them. Leaves are left out.
    let mut later: SmallVec<[(u32, u32); 32]> = SmallVec::new();
    let mut before = 0;
    let mut span = leaves;
    while span > 1 {
        let root = before + 2 * span - 2;
        let left = left_part(span);
        let right = span - left;
        let behind_left = before + 2 * left - 1;
        parents[behind_left as usize - 1] = root;
        parents[root as usize - 1] = root;
        if left > 1 {
            if right > 1 {
                later.push((behind_left, right));
            }
            span = left;
        } else if right > 1 {
            (before, span) = (behind_left, right);
        } else {
            (before, span) = later.pop().unwrap_or((0, 0));
        }
    }
    Tree::from_ordered_parents(parents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::workload::random;

    struct Statistics {
        mean: f64,
        p90: u32,
        p99: u32,
        below_100: f64,
    }

    fn statistics(shares: impl IntoIterator<Item = (u32, f64)>) -> Statistics {
        let mut shares: Vec<(u32, f64)> = shares.into_iter().collect();
        shares.sort_by_key(|(length, _)| *length);
        let total: f64 = shares.iter().map(|(_, share)| share).sum();
        assert!((total - 1.0).abs() < 1e-8, "the shares sum to {total}");
        let quantile = |q: f64| {
            let mut sum = 0.0;
            shares
                .iter()
                .find(|(_, share)| {
                    sum += share;
                    sum >= q
                })
                .unwrap()
                .0
        };
        Statistics {
            mean: shares
                .iter()
                .map(|(length, share)| f64::from(*length) * share)
                .sum(),
            p90: quantile(0.9),
            p99: quantile(0.99),
            below_100: shares
                .iter()
                .filter(|(length, _)| *length < 100)
                .map(|(_, share)| share)
                .sum(),
        }
    }

    #[test]
    fn europarl_lengths_are_those_of_the_corpus() {
        let en = statistics(europarl_en());
        assert!(
            (en.mean - 24.6).abs() < 0.05 && en.p90.abs_diff(44) <= 1 && en.p99.abs_diff(72) <= 1
        );
        // 0.9984 in the corpus: the fit's tail above 100 words is less than half as heavy.
        assert!((en.below_100 - 0.9993).abs() < 0.0001, "{}", en.below_100);
        let de = statistics(europarl_de());
        assert!((de.mean - 22.3).abs() < 0.05 && de.p90.abs_diff(41) <= 1);
        assert!(de.p99.abs_diff(70) <= 2, "{}", de.p99); // 68: a lighter tail here as well
    }

    #[test]
    fn europarl_lengths_fit_the_measured_histogram() {
        let file = include_str!("../../../traces/europarl-en.csv");
        let counts: Vec<(u32, f64)> = file
            .lines()
            .skip(1)
            .map(|line| line.split_once(',').unwrap())
            .map(|(length, count)| (length.parse().unwrap(), count.parse().unwrap()))
            .collect();
        let total: f64 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(total, 20_397.0);
        let shares = europarl_en();
        let below = |rows: &[(u32, f64)], n: u32| {
            rows.iter()
                .filter(|row| row.0 <= n)
                .map(|row| row.1)
                .sum::<f64>()
        };
        let distance = (1..150)
            .map(|n| (below(&counts, n) / total - below(&shares, n)).abs())
            .fold(0.0, f64::max);
        assert!(distance < 0.01, "Kolmogorov-Smirnov distance {distance}");
    }

    #[test]
    fn the_papers_lengths_reach_330_with_mean_24() {
        let paper = statistics(paper_lstm());
        assert!((paper.mean - 24.0).abs() < 0.05, "mean {}", paper.mean);
        assert!((70..=71).contains(&paper.p99));
        assert!(
            (0.9983..=0.9986).contains(&paper.below_100),
            "{}",
            paper.below_100
        );
        assert_eq!(
            paper_lstm()
                .iter()
                .rfind(|(_, share)| *share > 0.0)
                .unwrap()
                .0,
            330
        );
    }

    #[test]
    fn translations_follow_the_source() {
        let pairs = europarl_de_en();
        let source = statistics(pairs.iter().map(|((source, _), share)| (*source, *share)));
        let target = statistics(pairs.iter().map(|((_, target), share)| (*target, *share)));
        // The corpus's pairs have means 23.1 and 25.5; the generator's German side is that of the larger, uncut corpus.
        assert!((source.mean - 22.3).abs() < 0.05);
        assert!(
            (target.mean / source.mean - 25.5 / 23.1).abs() < 0.02,
            "{}",
            target.mean / source.mean
        );
        let log = |length: u32| f64::from(length).ln();
        let moment = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
            pairs
                .iter()
                .map(|((s, t), share)| f(log(*s), log(*t)) * share)
                .sum()
        };
        let (s, t) = (moment(&|s, _| s), moment(&|_, t| t));
        let covariance = moment(&|a, b| (a - s) * (b - t));
        let correlation =
            covariance / (moment(&|a, _| (a - s).powi(2)) * moment(&|_, b| (b - t).powi(2))).sqrt();
        assert!((correlation - 0.950).abs() < 0.02, "{correlation}");
    }

    #[test]
    fn lengths_of_language_models_have_their_stated_means() {
        for (shares, prompt, output) in [
            (azure_conversation(), 1155.0, 211.0),
            (sharegpt(), 161.31, 337.99),
        ] {
            let mean = |length: fn(&(u32, u32)) -> u32| {
                shares
                    .iter()
                    .map(|(pair, _)| f64::from(length(pair)))
                    .sum::<f64>()
                    / shares.len() as f64
            };
            assert!(
                (mean(|pair| pair.0) / prompt - 1.0).abs() < 0.015,
                "{prompt}"
            );
            assert!(
                (mean(|pair| pair.1) / output - 1.0).abs() < 0.015,
                "{output}"
            );
        }
    }

    #[test]
    fn treebank_trees_are_as_high_as_real_ones() {
        let leaves = Treebank::leaves();
        let total: f64 = leaves.iter().map(|(_, share)| share).sum();
        let mean = leaves
            .iter()
            .map(|(n, share)| f64::from(*n) * share)
            .sum::<f64>()
            / total;
        assert!((mean - 19.16).abs() < 0.2, "mean leaves {mean}");

        let (treebank, mut rng) = (Treebank::default(), random::sequence(1, 0, "shapes"));
        let mut heights: Vec<u32> = Vec::new();
        for (n, share) in leaves {
            for _ in 0..(share / total * 20_000.0).round() as usize {
                let tree = treebank.tree(n, &mut rng);
                assert_eq!(
                    (tree.leaves(), tree.len()),
                    (n as usize, 2 * n as usize - 1)
                );
                heights.push(tree.height());
            }
        }
        heights.sort_unstable();
        let mean = heights.iter().sum::<u32>() as f64 / heights.len() as f64;
        // 9.91 in data drawn from the fit; the standard error is 0.03.
        assert!((mean - 9.88).abs() < 0.12, "mean height {mean}");
        assert!(heights[heights.len() * 99 / 100].abs_diff(20) <= 1);
    }

    #[test]
    fn trees_stand_in_post_order_left_before_right() {
        assert_eq!(complete_tree(4).to_string(), "3 3 7 6 6 7 0");
        assert_eq!(complete_tree(3).to_string(), "3 3 5 5 0");
        assert_eq!(complete_tree(1).to_string(), "0");
        for (leaves, edges) in [(2, 1), (16, 4), (17, 5), (1024, 10)] {
            assert_eq!(complete_tree(leaves).height(), edges);
        }
        let (treebank, mut rng) = (Treebank::default(), random::sequence(1, 0, "shapes"));
        for leaves in 1..60 {
            let tree = treebank.tree(leaves, &mut rng);
            let root = tree.len() - 1;
            assert!(
                tree.parents()[..root]
                    .iter()
                    .enumerate()
                    .all(|(node, parent)| *parent as usize > node)
            );
        }
    }
}
