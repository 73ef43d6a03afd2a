use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::workload::model::{Model, Unfolder};

const EXAMPLE: &str = include_str!("../../../scenarios/networks/example.csv");

fn parse(text: &str) -> Result<Dnn, String> {
    Dnn::parse("n.csv", Path::new("n.csv"), text)
}

#[test]
fn operators_are_cells_in_the_order_of_their_names() {
    let network = parse(EXAMPLE).unwrap();
    let order: Vec<&str> = network.operators().map(|operator| operator.name.as_str()).collect();
    assert_eq!(order, ["project", "scores", "softmax", "mix", "wide", "narrow", "normalise", "classify"]);
    let cells = network.cell_types();
    assert!(cells.is_sorted_by_key(|cell| &cell.name));
    for (place, operator) in network.operators().enumerate() {
        let cell = &cells[operator.cell.index()];
        assert_eq!((&cell.name, cell.priority, cell.chain), (&operator.name, place as i32, true));
        assert_eq!(cell.sized, cell.name != "classify");
    }
}

#[test]
fn work_follows_the_tokens_and_the_batch() {
    let network = parse(EXAMPLE).unwrap();
    let work = |name: &str| network.distinct().iter().find(|operator| operator.name == name).unwrap().form.at(10);
    let wide = work("wide");
    assert_eq!((wide.rows, wide.inner, wide.columns, wide.elements), (10, 64, 256, 3_200));
    assert_eq!(wide.flops(3), 3 * 2 * 10 * 64 * 256);
    assert_eq!(wide.moved(3), 64 * 256 + 3 * 3_200, "weights are fetched once");
    let scores = work("scores");
    assert_eq!((scores.flops(2), scores.weights()), (2 * 4 * 2 * 10 * 16 * 10, 0));
    let softmax = work("softmax");
    assert_eq!((softmax.flops(5), softmax.moved(5)), (0, 5 * 8 * 100));
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
    assert_eq!(inputs, [7, 7, 7, 7, 7, 7, 7, 0], "the last does not depend on the tokens");
    let refused = |shape: Shape| Unfolder::new(&model).unfold(&shape).unwrap_err();
    assert_eq!(
        refused(Shape::Tokens(129)),
        "a request has 129 tokens, and n.csv takes up to 128; leave out longer ones (workload.max_length = 128)"
    );
    assert_eq!(refused(Shape::Fixed), "the model dnn:n.csv takes no fixed shapes; it takes: tokens:N");
}

#[test]
fn an_operator_in_two_places_is_one_cell() {
    let network = parse("shape,fixed\nkind,name,elements\nmemory,a,1\nmemory,b,2\nmemory,a,1\nmemory,a,1\n").unwrap();
    let Some(Ok(CellGraph::Chains(runs))) = network.unfold(&Shape::Fixed) else { panic!("a chain") };
    assert_eq!(runs.iter().map(|run| (run.cell.0, run.length)).collect::<Vec<_>>(), [(0, 1), (1, 1), (0, 2)]);
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
            "line 2: \"\" is no header; a network has the columns name and kind, and may have count, rows, ",
        ),
        ("shape,fixed\nname,sort\n", "line 2: unknown column \"sort\"; known: name, kind, count, "),
        ("shape,fixed\nname,kind,name\n", "line 2: column \"name\" stands twice"),
        ("shape,fixed\nname,kind\n", "no operators; "),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
    for (row, problem) in [
        ("a,memory", "\"a,memory\" has 2 fields where the header has 7"),
        ("1a,memory,,,,,1", "name: \"1a\" is not a name: a letter, and behind it letters, digits, _ and -"),
        ("gather,memory,,,,,1", "name: \"gather\" has a meaning of its own in cost tables; take another"),
        ("a,conv,,1,1,1,1", "kind: unknown value \"conv\"; known: matmul, batched-matmul, memory"),
        ("a,memory,,3,,,1", "rows: a memory operator has no products; leave it empty"),
        ("a,memory,,,,,", "elements: missing; the numbers that a memory operator reads and writes for each query"),
        ("a,matmul,,1,,1,1", "inner: missing; a matmul has rows, inner and columns"),
        ("a,matmul,0,1,1,1,1", "count: 0 is too small; at least 1"),
        ("a,matmul,,1,1,1,", "elements: missing; the numbers that a matmul reads and writes for each query, such as "),
        ("a,matmul,,x,1,1,1", "rows: \"x\" is not a sum of products of whole numbers and tokens, such as 64, "),
        ("a,matmul,,tokens,1,1,1", "rows: \"tokens\" depends on tokens, and a network of shape,fixed has none"),
        ("a,matmul,,1000000000,1000000000,1000000000,1", "rows, inner and columns: the product is larger than "),
    ] {
        let text = format!("shape,fixed\n# the operators\nname,kind,count,rows,inner,columns,elements\n\n{row}\n");
        let error = parse(&text).unwrap_err();
        assert!(error.starts_with(&format!("line 5: {problem}")), "{error}");
    }
    let twice = "shape,fixed\nname,kind,elements\na,memory,1\na,memory,2\n";
    assert!(parse(twice).unwrap_err().starts_with("line 4: name: \"a\" is another operator in line 3; "));
    let large = "shape,tokens,1000000\nname,kind,elements\na,memory,9*tokens*tokens\n";
    assert!(parse(large).unwrap_err().starts_with("line 3: elements: \"9*tokens*tokens\" is more than "));
}
