//! The CSV file of a network.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Dnn, Form, FormKind, ListedOperator, SizeByTokens, too_large};
use crate::base::units::CellId;
use crate::core::workload::input::{self, Columns, locate};
use crate::core::workload::row_names;
use crate::core::workload::shape::MAX_LENGTH;

/// The columns, of which the first two are needed.
const COLUMNS: [&str; 7] = [
    "name", "kind", "count", "rows", "inner", "columns", "elements",
];
const FORMAT: &str =
    "a network has the columns name and kind, and may have count, rows, inner, columns, elements";

const MAX_OPERATORS: usize = 10_000;

const MAX_WORK: u128 = 1 << 60;

pub(super) fn parse(given: &str, path: &Path, text: &str) -> Result<Dnn, String> {
    let mut lines = input::lines(text);
    let at = |line: usize| locate(format!("line {line}"));
    let (line, first) = lines.next().unwrap_or((1, ""));
    let most_tokens = most_tokens(first).map_err(at(line))?;
    let (line, header) = lines.next().unwrap_or((line + 1, ""));
    let header = Columns::parse(header, COLUMNS, 2, FORMAT).map_err(at(line))?;

    let mut known: BTreeMap<String, (usize, Form)> = BTreeMap::new();
    let mut names = Vec::new();
    for (line, text) in lines {
        let (name, form) = row(text, &header, most_tokens).map_err(at(line))?;
        let (before, other) = known
            .entry(name.clone())
            .or_insert_with(|| (line, form.clone()));
        if *other != form {
            return Err(format!(
                "line {line}: name: \"{name}\" is another operator in line {before}; operators of one name are one operator \
                 with one set of weights, so give this one a name of its own"
            ));
        }
        names.push(name);
    }
    match names.len() {
        0 => return Err("no operators; a network has at least one line name,kind,…".into()),
        1..=MAX_OPERATORS => {}
        many => return Err(format!("{many} operators; at most {MAX_OPERATORS}")),
    }
    let ids: BTreeMap<String, CellId> = known.keys().cloned().zip((0..).map(CellId)).collect();
    let chain = names.iter().map(|name| ids[name]).collect();
    let operators = known
        .into_iter()
        .map(|(name, (_, form))| ListedOperator {
            cell: ids[&name],
            name,
            form,
        })
        .collect();
    Ok(Dnn {
        given: given.to_string(),
        path: path.to_path_buf(),
        most_tokens,
        operators,
        chain,
    })
}

/// The most tokens of a request by the first line; `None` for requests of one fixed size.
fn most_tokens(line: &str) -> Result<Option<u32>, String> {
    match line.split(',').map(str::trim).collect::<Vec<_>>()[..] {
        ["shape", "fixed"] => Ok(None),
        ["shape", "tokens", most] => match most.parse() {
            Ok(most) if (1..=MAX_LENGTH).contains(&most) => Ok(Some(most)),
            _ => Err(format!(
                "shape: \"{most}\" is not a largest number of tokens, a whole number from 1 to {MAX_LENGTH}"
            )),
        },
        _ => Err(format!(
            "\"{}\" does not say which requests the network takes; a file begins with shape,fixed or shape,tokens,MOST",
            line.trim()
        )),
    }
}

fn row(
    line: &str,
    header: &Columns<{ COLUMNS.len() }>,
    most_tokens: Option<u32>,
) -> Result<(String, Form), String> {
    let texts = header.row(line)?;
    let [name, kind, ..] = &texts;
    check_name(name).map_err(locate("name"))?;
    let kind = FormKind::ALL
        .iter()
        .find(|(known, _)| *known == *kind)
        .map(|(_, kind)| *kind)
        .ok_or_else(|| {
            let known = FormKind::ALL.map(|(known, _)| known).join(", ");
            format!("kind: unknown value \"{kind}\"; known: {known}")
        })?;

    let size = |column: &str, text: &str| match text {
        "" if column == "elements" => {
            let (operator, example) = match kind {
                FormKind::Memory => ("memory operator", ""),
                _ => (kind.name(), ", such as rows·inner + rows·columns"),
            };
            Err(format!(
                "missing; the numbers that a {operator} reads and writes for each query{example}"
            ))
        }
        "" if kind == FormKind::Memory => Ok(SizeByTokens::constant(0)),
        "" if column == "count" => Ok(SizeByTokens::constant(1)),
        "" => Err(format!(
            "missing; a {} has rows, inner and columns",
            kind.name()
        )),
        text => match parse_size(text, most_tokens)? {
            size if column == "elements" => Ok(size),
            _ if kind == FormKind::Memory => {
                Err("a memory operator has no products; leave it empty".into())
            }
            size if size == SizeByTokens::constant(0) => Err("0 is too small; at least 1".into()),
            size => Ok(size),
        },
    };
    let sized = |place: usize| size(COLUMNS[place], &texts[place]).map_err(locate(COLUMNS[place]));
    let form = Form {
        kind,
        count: sized(2)?,
        rows: sized(3)?,
        inner: sized(4)?,
        columns: sized(5)?,
        elements: sized(6)?,
    };
    let largest = form.work(most_tokens.unwrap_or(0));
    if largest.flops(1) > MAX_WORK || largest.weights() > MAX_WORK {
        return Err("rows, inner and columns: the product is larger than that of any network (2^60 operations)".into());
    }
    Ok((name.into(), form))
}

/// Reads a size. Only networks whose requests have tokens may mention `tokens`.
fn parse_size(text: &str, most_tokens: Option<u32>) -> Result<SizeByTokens, String> {
    let size = SizeByTokens::parse(text)?;
    if most_tokens.is_none() && !size.is_constant() {
        return Err(format!(
            "\"{text}\" depends on tokens, and a network of shape,fixed has none"
        ));
    }
    size.checked_at(most_tokens.unwrap_or(0))
        .ok_or_else(|| too_large(text))?;
    Ok(size)
}

/// Refuses names that a cost table could not hold: there, commas separate fields and dots separate parts of names.
fn check_name(name: &str) -> Result<(), String> {
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    let is_allowed = name
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-');
    if !begins_well || !is_allowed {
        return Err(format!(
            "\"{name}\" is not a name: a letter, then letters, digits, _ and -"
        ));
    }
    row_names::refuse_reserved(name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::core::workload::cell_graph::CellGraph;
    use crate::core::workload::dnn::Dnn;
    use crate::core::workload::model::{Model, Unfolder};
    use crate::core::workload::shape::Shape;

    const EXAMPLE: &str = include_str!("../../../../scenarios/networks/example.csv");

    fn parse(text: &str) -> Result<Dnn, String> {
        Dnn::parse("n.csv", Path::new("n.csv"), text)
    }

    #[test]
    fn operators_are_cells_in_the_order_of_their_names() {
        let network = parse(EXAMPLE).unwrap();
        let order: Vec<&str> = network
            .operators()
            .map(|operator| operator.name.as_str())
            .collect();
        assert_eq!(
            order,
            [
                "project",
                "scores",
                "softmax",
                "mix",
                "wide",
                "narrow",
                "normalise",
                "classify"
            ]
        );
        let cells = network.cell_types();
        assert!(cells.is_sorted_by_key(|cell| &cell.name));
        for (place, operator) in network.operators().enumerate() {
            let cell = &cells[operator.cell.index()];
            assert_eq!(
                (&cell.name, cell.priority, cell.chain),
                (&operator.name, place as i32, true)
            );
            assert_eq!(cell.sized, cell.name != "classify");
        }
    }

    #[test]
    fn work_follows_the_tokens_and_the_batch() {
        let network = parse(EXAMPLE).unwrap();
        let work = |name: &str| {
            network
                .distinct()
                .iter()
                .find(|operator| operator.name == name)
                .unwrap()
                .form
                .work(10)
        };
        let wide = work("wide");
        assert_eq!(
            (wide.rows, wide.inner, wide.columns, wide.elements),
            (10, 64, 256, 3_200)
        );
        assert_eq!(wide.flops(3), 3 * 2 * 10 * 64 * 256);
        assert_eq!(
            wide.traffic(3),
            64 * 256 + 3 * 3_200,
            "weights are fetched once"
        );
        let scores = work("scores");
        assert_eq!(
            (scores.flops(2), scores.weights()),
            (2 * 4 * 2 * 10 * 16 * 10, 0)
        );
        let softmax = work("softmax");
        assert_eq!((softmax.flops(5), softmax.traffic(5)), (0, 5 * 8 * 100));
    }

    #[test]
    fn requests_of_one_size_share_their_chain() {
        let model = Model::Network(Arc::new(parse(EXAMPLE).unwrap()));
        let mut unfolder = Unfolder::new(&model);
        let mut runs = |tokens| match unfolder.unfold(&Shape::Tokens(tokens)).unwrap() {
            CellGraph::Chains(runs) => runs,
            CellGraph::Graph(_) => panic!("a network is a chain"),
        };
        let (one, same, other) = (runs(7), runs(7), runs(8));
        assert!(std::ptr::eq(&one[..], &same[..]));
        assert_ne!(one, other);
        let inputs: Vec<u32> = one.iter().map(|run| run.input).collect();
        assert_eq!(
            inputs,
            [7, 7, 7, 7, 7, 7, 7, 0],
            "the last does not depend on the tokens"
        );
        let refused = |shape: Shape| Unfolder::new(&model).unfold(&shape).unwrap_err();
        assert_eq!(
            refused(Shape::Tokens(129)),
            "a request has 129 tokens, and n.csv takes up to 128; leave out longer ones (workload.max_length = 128)"
        );
        assert_eq!(
            refused(Shape::Fixed),
            "the model dnn:n.csv takes no fixed shapes; it takes: tokens:N"
        );
    }

    #[test]
    fn an_operator_in_two_places_is_one_cell() {
        let network = parse(
            "shape,fixed\nkind,name,elements\nmemory,a,1\nmemory,b,2\nmemory,a,1\nmemory,a,1\n",
        )
        .unwrap();
        let Some(Ok(CellGraph::Chains(runs))) = network.unfold(&Shape::Fixed) else {
            panic!("a chain")
        };
        assert_eq!(
            runs.iter()
                .map(|run| (run.cell.0, run.length))
                .collect::<Vec<_>>(),
            [(0, 1), (1, 1), (0, 2)]
        );
        assert_eq!(network.operators().len(), 4);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, problem) in [
            (
                "",
                "line 1: \"\" does not say which requests the network takes; a file begins with shape,fixed or shape,tokens,MOST",
            ),
            ("shape,words,3\n", "line 1: \"shape,words,3\" does not say"),
            (
                "# net\nshape,tokens,0\n",
                "line 2: shape: \"0\" is not a largest number of tokens, a whole number from 1 to ",
            ),
            (
                "shape,fixed\n",
                "line 2: no column \"name\"; a network has the columns name and kind, and may have count, rows, ",
            ),
            (
                "shape,fixed\nname,kind,sort\n",
                "line 2: unknown column \"sort\"; known: name, kind, count, ",
            ),
            (
                "shape,fixed\nname,kind,name\n",
                "line 2: column \"name\" is given twice",
            ),
            ("shape,fixed\nname,kind\n", "no operators; "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
        for (row, problem) in [
            (
                "a,memory",
                "\"a,memory\" has 2 fields where the header has 7",
            ),
            (
                "1a,memory,,,,,1",
                "name: \"1a\" is not a name: a letter, then letters, digits, _ and -",
            ),
            (
                "gather,memory,,,,,1",
                "name: \"gather\" has a meaning of its own in cost tables; take another",
            ),
            (
                "a,conv,,1,1,1,1",
                "kind: unknown value \"conv\"; known: matmul, batched-matmul, memory",
            ),
            (
                "a,memory,,3,,,1",
                "rows: a memory operator has no products; leave it empty",
            ),
            (
                "a,memory,,,,,",
                "elements: missing; the numbers that a memory operator reads and writes for each query",
            ),
            (
                "a,matmul,,1,,1,1",
                "inner: missing; a matmul has rows, inner and columns",
            ),
            ("a,matmul,0,1,1,1,1", "count: 0 is too small; at least 1"),
            (
                "a,matmul,,1,1,1,",
                "elements: missing; the numbers that a matmul reads and writes for each query, such as ",
            ),
            (
                "a,matmul,,x,1,1,1",
                "rows: \"x\" is not a sum of products of whole numbers and tokens, such as 64, ",
            ),
            (
                "a,matmul,,tokens,1,1,1",
                "rows: \"tokens\" depends on tokens, and a network of shape,fixed has none",
            ),
            (
                "a,matmul,,1000000000,1000000000,1000000000,1",
                "rows, inner and columns: the product is larger than ",
            ),
        ] {
            let text = format!(
                "shape,fixed\n# the operators\nname,kind,count,rows,inner,columns,elements\n\n{row}\n"
            );
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(&format!("line 5: {problem}")), "{error}");
        }
        let unnamed = "shape,fixed\nname,kind,,elements\na,memory,,8\n";
        assert_eq!(parse(unnamed).unwrap().operators.len(), 1);
        let short = parse(&unnamed.replace(",,8", ",8")).unwrap_err();
        assert_eq!(
            short,
            "line 3: \"a,memory,8\" has 3 fields where the header has 4"
        );
        let twice = "shape,fixed\nname,kind,elements\na,memory,1\na,memory,2\n";
        assert!(
            parse(twice)
                .unwrap_err()
                .starts_with("line 4: name: \"a\" is another operator in line 3; ")
        );
        let large = "shape,tokens,1000000\nname,kind,elements\na,memory,9*tokens*tokens\n";
        assert!(
            parse(large)
                .unwrap_err()
                .starts_with("line 3: elements: \"9*tokens*tokens\" is more than ")
        );
    }
}
