//! Parses the words after `reproduce`.

use std::collections::BTreeSet;

use crate::base::error::{Error, Result};
use crate::lab::results::sweep_keys::distinct;
use crate::papers::{Exhibit, Paper};

/// The figures and claims that the user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The exhibits that the user names.
    pub named: Vec<&'static Exhibit>,
    /// The papers whose claims are all checked.
    pub claims: BTreeSet<Paper>,
    /// The papers whose exhibits are all on a page.
    pub all: BTreeSet<Paper>,
    /// The papers whose exhibits are listed.
    pub list: BTreeSet<Paper>,
}

impl Order {
    /// A paper's name applies to the words after it; words before the first paper apply to all papers. Figures without
    /// claims need no word.
    ///
    /// # Errors
    /// A word is unknown, a paper has no word after it, or a figure is one of several papers.
    pub fn parse(words: &[String]) -> Result<Order> {
        let mut order = Order::default();
        let mut papers = Paper::ALL.to_vec();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let Some(paper) = Paper::from_name(word) else {
                order.add(word, &papers)?;
                continue;
            };
            papers = vec![paper];
            let is_bare = match words.peek() {
                Some(next) => Paper::from_name(next).is_some(),
                None => true,
            };
            if is_bare && (paper.claims().is_empty() || paper == Paper::Continuous) {
                order.all.insert(paper);
            } else if is_bare {
                let known = list_known_words(&papers);
                return Err(Error::input(format!(
                    "{word}: name a figure or a list; known: {known}"
                )));
            }
        }
        order.named = distinct(order.named);
        Ok(order)
    }

    /// Adds what a word asks for of these papers.
    fn add(&mut self, word: &str, papers: &[Paper]) -> Result<()> {
        match word {
            "list" => self.list.extend(papers),
            "claims" => self.claims.extend(papers),
            "all" => {
                self.all.extend(papers);
                self.claims.extend(papers);
            }
            figure => self.named.push(find_exhibit(figure, papers)?),
        }
        Ok(())
    }

    /// The exhibits that are shown, and those that a checked claim needs, in the papers' order.
    pub fn exhibits(&self) -> Vec<&'static Exhibit> {
        let mut exhibits = Vec::new();
        for paper in Paper::ALL {
            let needed = self.exhibits_of_claims(paper);
            for exhibit in paper.exhibits() {
                if self.all.contains(&paper)
                    || self.is_named(paper, &exhibit.name)
                    || needed.contains(exhibit.name.as_str())
                {
                    exhibits.push(exhibit);
                }
            }
        }
        exhibits
    }

    /// The names of the exhibits that the checked claims of a paper need. Claims are checked if the user asks for all
    /// of them, or names their figure.
    fn exhibits_of_claims(&self, paper: Paper) -> BTreeSet<&'static str> {
        let mut needed = BTreeSet::new();
        for claim in paper.claims() {
            if self.claims.contains(&paper) || self.is_named(paper, &claim.exhibits[0]) {
                needed.extend(claim.exhibits.iter().map(String::as_str));
            }
        }
        needed
    }

    /// Whether the user asks for a figure, and not only for claims.
    pub fn shows_figures(&self) -> bool {
        !self.named.is_empty() || !self.all.is_empty()
    }

    fn is_named(&self, paper: Paper, name: &str) -> bool {
        let mut named = self.named.iter();
        named.any(|exhibit| exhibit.paper == paper && exhibit.name == name)
    }

    /// The exhibits of the page.
    pub fn page_exhibits(&self) -> Vec<&'static Exhibit> {
        let mut exhibits = Vec::new();
        for paper in &self.all {
            exhibits.extend(paper.exhibits());
        }
        exhibits
    }
}

/// Finds an exhibit by its own name, or by that of another figure that it shows.
fn find_exhibit(name: &str, papers: &[Paper]) -> Result<&'static Exhibit> {
    let mut found = Vec::new();
    for paper in papers {
        for exhibit in paper.exhibits() {
            if exhibit.name == name || exhibit.also.iter().any(|also| also == name) {
                found.push(exhibit);
            }
        }
    }
    match found.as_slice() {
        [exhibit] => Ok(*exhibit),
        [] => Err(Error::input(format!(
            "unknown figure \"{name}\"; known: {}",
            list_known_words(papers)
        ))),
        several => {
            let commands: Vec<String> = several.iter().map(|exhibit| exhibit.full_name()).collect();
            Err(Error::input(format!(
                "\"{name}\" is a figure of several papers; say {}",
                commands.join(" or ")
            )))
        }
    }
}

fn list_known_words(papers: &[Paper]) -> String {
    let mut texts = Vec::new();
    for paper in papers {
        let mut names: Vec<&str> = Vec::new();
        for exhibit in paper.exhibits() {
            names.push(&exhibit.name);
            names.extend(exhibit.also.iter().map(String::as_str));
        }
        texts.push(format!("{} {}", paper.name(), names.join(", ")));
    }
    format!("{}; list, claims, all", texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Order> {
        Order::parse(
            &words
                .split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>(),
        )
    }

    fn names(exhibits: &[&Exhibit]) -> Vec<String> {
        exhibits.iter().map(|exhibit| exhibit.full_name()).collect()
    }

    #[test]
    fn a_paper_applies_to_the_figures_after_it() {
        let order = parse("batchmaker fig7a fig10 late fig7").unwrap();
        // The runs of Late Batching's Figure 6 show its Figure 7, too.
        assert_eq!(
            names(&order.named),
            ["batchmaker fig7a", "batchmaker fig10", "late fig6"]
        );
        // A claim of Figure 7a also reads the runs with longer sentences.
        let exhibits = [
            "batchmaker fig7a",
            "batchmaker fig7a-tail",
            "batchmaker fig10",
            "late fig6",
        ];
        assert_eq!(names(&order.exhibits()), exhibits);
        assert!(order.all.is_empty() && order.claims.is_empty());
    }

    #[test]
    fn a_figure_brings_what_its_claims_need() {
        // The claim about 512 against 64 is shown with Figure 7b and also reads Figure 7a.
        assert_eq!(
            names(&parse("batchmaker fig7b").unwrap().exhibits()),
            ["batchmaker fig7a", "batchmaker fig7b"]
        );
    }

    #[test]
    fn all_and_claims_are_about_every_paper_or_one() {
        let exhibits: usize = Paper::ALL.iter().map(|paper| paper.exhibits().len()).sum();
        let all = parse("all").unwrap();
        assert_eq!(
            (all.exhibits().len(), all.page_exhibits().len()),
            (exhibits, exhibits)
        );
        let late = parse("late all").unwrap();
        assert_eq!(late.exhibits().len(), Paper::Late.exhibits().len());
        assert!(late.exhibits().iter().all(|one| one.paper == Paper::Late));
        let claims = parse("late claims").unwrap();
        assert_eq!(
            (claims.page_exhibits().len(), claims.exhibits().is_empty()),
            (0, false)
        );
        assert!(all.shows_figures() && late.shows_figures());
        assert!(!claims.shows_figures());
        assert!(parse("late claims dvabatch fig3").unwrap().shows_figures());
    }

    #[test]
    fn mistakes_are_answered_with_what_is_known() {
        let error = |words| parse(words).unwrap_err().to_string();
        assert!(
            error("batchmaker fig99")
                .starts_with("unknown figure \"fig99\"; known: batchmaker fig3, fig3-cpu, ")
        );
        assert!(
            error("fig3").starts_with(
                "\"fig3\" is a figure of several papers; say batchmaker fig3 or late fig3 or dvabatch fig3"
            )
        );
        assert_eq!(
            parse("neighbours").unwrap(),
            Order {
                claims: BTreeSet::new(),
                ..parse("neighbours all").unwrap()
            }
        );
        assert!(error("late").starts_with("late: name a figure or a list; known: late fig1, "));
        assert!(parse("fig13a").is_ok(), "only one paper has it");
    }
}
