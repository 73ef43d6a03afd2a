//! Parses the words after `reproduce`.

use std::collections::BTreeSet;
use std::iter;

use crate::base::error::{Error, Result};
use crate::lab::results::sweep_keys::distinct;
use crate::papers::{Item, Paper};

/// The figures and claims that the user asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// By the user.
    pub named: Vec<Item>,
    /// All their claims are checked.
    pub claims: BTreeSet<Paper>,
    /// All their exhibits are on a page.
    pub all: BTreeSet<Paper>,
    /// Their exhibits are listed.
    pub list: BTreeSet<Paper>,
}

impl Order {
    /// A paper's name applies to the words after it; words before the first paper apply to all papers. Figures without
    /// claims need no word. Errors: an unknown word, a paper without a word after it, a figure of several papers.
    pub fn parse(words: &[String]) -> Result<Order> {
        let mut order = Order::default();
        let mut papers: Vec<Paper> = Paper::all().collect();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            if let Some(paper) = Paper::named(word) {
                papers = vec![paper];
                let is_bare = words.peek().is_none_or(|next| Paper::named(next).is_some());
                if is_bare && (papers[0].claims().is_empty() || papers[0] == Paper::Continuous) {
                    order.all.extend(&papers);
                } else if is_bare {
                    let known = known(&papers);
                    return Err(Error::input(format!(
                        "{word}: name a figure or a list; known: {known}"
                    )));
                }
                continue;
            }
            match word.as_str() {
                "list" => order.list.extend(&papers),
                "claims" => order.claims.extend(&papers),
                "all" => {
                    order.all.extend(&papers);
                    order.claims.extend(&papers);
                }
                figure => order.named.push(find(figure, &papers)?),
            }
        }
        order.named = distinct(order.named);
        Ok(order)
    }

    /// In the papers' order: those shown, and those that a checked claim needs.
    pub fn items(&self) -> Vec<Item> {
        let mut items = Vec::new();
        for paper in Paper::all() {
            let named = |name: &str| {
                self.named
                    .iter()
                    .any(|item| item.paper == paper && item.exhibit.name == name)
            };
            let checked = |first: Option<&String>| {
                self.claims.contains(&paper) || first.is_some_and(|name| named(name))
            };
            let claims = paper
                .claims()
                .iter()
                .filter(|claim| checked(claim.exhibits.first()));
            let needed: BTreeSet<&str> = claims
                .flat_map(|claim| &claim.exhibits)
                .map(String::as_str)
                .collect();
            let wanted =
                |name: &str| self.all.contains(&paper) || named(name) || needed.contains(name);
            items.extend(paper.items().filter(|item| wanted(&item.exhibit.name)));
        }
        items
    }

    pub fn on_page(&self) -> Vec<Item> {
        self.all.iter().copied().flat_map(Paper::items).collect()
    }
}

fn find(name: &str, papers: &[Paper]) -> Result<Item> {
    let named = |item: &Item| {
        item.exhibit.name == name || item.exhibit.also.iter().any(|also| also == name)
    };
    let found: Vec<Item> = papers
        .iter()
        .copied()
        .flat_map(Paper::items)
        .filter(named)
        .collect();
    match found.as_slice() {
        [item] => Ok(*item),
        [] => Err(Error::input(format!(
            "unknown figure \"{name}\"; known: {}",
            known(papers)
        ))),
        several => {
            let commands = several
                .iter()
                .map(Item::name)
                .collect::<Vec<_>>()
                .join(" or ");
            Err(Error::input(format!(
                "\"{name}\" is a figure of several papers; say {commands}"
            )))
        }
    }
}

fn known(papers: &[Paper]) -> String {
    let of_paper = |paper: &Paper| {
        let names = paper
            .exhibits()
            .iter()
            .flat_map(|exhibit| iter::once(&exhibit.name).chain(&exhibit.also));
        let names: Vec<&str> = names.map(String::as_str).collect();
        format!("{} {}", paper.name(), names.join(", "))
    };
    let papers: Vec<String> = papers.iter().map(of_paper).collect();
    format!("{}; list, claims, all", papers.join("; "))
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

    fn names(items: &[Item]) -> Vec<String> {
        items.iter().map(Item::name).collect()
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
        let items = [
            "batchmaker fig7a",
            "batchmaker fig7a-tail",
            "batchmaker fig10",
            "late fig6",
        ];
        assert_eq!(names(&order.items()), items);
        assert!(order.all.is_empty() && order.claims.is_empty());
    }

    #[test]
    fn a_figure_brings_what_its_claims_need() {
        // The claim about 512 against 64 is shown with Figure 7b and also reads Figure 7a.
        assert_eq!(
            names(&parse("batchmaker fig7b").unwrap().items()),
            ["batchmaker fig7a", "batchmaker fig7b"]
        );
    }

    #[test]
    fn all_and_claims_are_about_every_paper_or_one() {
        let exhibits: usize = Paper::all().map(|paper| paper.exhibits().len()).sum();
        let all = parse("all").unwrap();
        assert_eq!(
            (all.items().len(), all.on_page().len()),
            (exhibits, exhibits)
        );
        let late = parse("late all").unwrap();
        assert_eq!(late.items().len(), Paper::Late.exhibits().len());
        assert!(late.items().iter().all(|item| item.paper == Paper::Late));
        let claims = parse("late claims").unwrap();
        assert_eq!(
            (claims.on_page().len(), claims.items().is_empty()),
            (0, false)
        );
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
