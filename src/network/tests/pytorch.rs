//! What PyTorch makes of the same weights and words (`scripts/torch-reference.py`).

use std::path::Path;

use super::assert_close;
use crate::network::{Network, Spec};
use crate::units::RequestId;
use crate::workload::model::{Model, Unfolder};
use crate::workload::shape::Shape;

#[derive(serde::Deserialize)]
struct Expected {
    model: String,
    hidden: u32,
    embedding: u32,
    vocabulary: u32,
    seed: u64,
    requests: Vec<ExpectedRequest>,
}

#[derive(serde::Deserialize)]
struct ExpectedRequest {
    shape: String,
    state: Vec<f64>,
    words: Vec<u32>,
}

#[test]
fn requests_come_to_what_pytorch_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pytorch");
    for model in super::MODELS {
        // Cells by the number of children have the weights of the one cell for any number, and come to the same.
        let answers = if model.starts_with("childsum") { "childsum-tree-lstm" } else { model };
        let file = folder.join(format!("{}.json", answers.replace(':', "-")));
        let expected: Expected = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(expected.model, answers);
        let model = Model::parse(model).unwrap();
        let spec = Spec {
            hidden: expected.hidden,
            embedding: expected.embedding,
            vocabulary: expected.vocabulary,
            seed: expected.seed,
            weights: Some(file.with_extension("safetensors")),
        };
        let network = Network::new(&model, &spec).unwrap();
        for (request, expected) in (0..).zip(expected.requests) {
            let shape: Shape = expected.shape.parse().unwrap();
            let output = network.alone(RequestId(request), &Unfolder::new(&model).unfold(&shape).unwrap());
            assert_close(&output.state, &expected.state, &format!("{} of {shape}", model.name()));
            assert_eq!(output.words, expected.words, "{} of {shape}", model.name());
        }
    }
}
