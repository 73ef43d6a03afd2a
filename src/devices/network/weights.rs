//! Weights, from a seed or from a safetensors file.

use std::fs;

use rand::Rng;
use safetensors::tensor::{Dtype, SafeTensors};

use super::{Spec, operators};
use crate::base::error::{Context, Error, Result};
use crate::base::memory::require;
use crate::core::workload::model::Model;
use crate::core::workload::random;

/// A tensor of a model's weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    /// The sides, as in PyTorch: a matrix has a row for each output.
    pub shape: Vec<usize>,
}

impl Tensor {
    /// Checks that a file has the tensor as the model needs it.
    fn check(&self, file: &SafeTensors<'_>, model: &Model, spec: &Spec) -> Result<()> {
        let Tensor { name, shape } = self;
        let is_listed = model.network().is_some();
        let model = model.name();
        let Ok(found) = file.tensor(name) else {
            let mut names = file.names();
            names.sort_unstable();
            return Err(Error::input(format!(
                "has no tensor \"{name}\", which the model {model} needs as float32 of shape {shape:?}; it has: {}",
                names.join(", ")
            )));
        };
        if found.dtype() != Dtype::F32 {
            return Err(Error::input(format!(
                "the tensor \"{name}\" is of type {}, but has to be F32; convert it",
                found.dtype()
            )));
        }
        if found.shape() != shape {
            let Spec {
                hidden,
                embedding,
                vocabulary,
                ..
            } = spec;
            let sizes = if is_listed {
                String::new()
            } else {
                format!(
                    " with hidden = {hidden}, embedding = {embedding} and vocabulary = {vocabulary}"
                )
            };
            return Err(Error::input(format!(
                "the tensor \"{name}\" has the shape {:?}, but the model {model}{sizes} needs {shape:?}, a row for each output",
                found.shape()
            )));
        }
        Ok(())
    }

    /// The size of the tensor in memory, in bytes.
    fn bytes(&self) -> u128 {
        self.shape
            .iter()
            .map(|side| *side as u128)
            .product::<u128>()
            * size_of::<f32>() as u128
    }
}

/// The tensors of each model, with the names of widths from the list of the built-in operators.
const TABLE: &str = include_str!("tensors.csv");

/// The tensors that a model needs.
pub fn tensors(model: &Model, spec: &Spec) -> Vec<Tensor> {
    if let Some(network) = model.network() {
        let tensors = network.distinct().iter().filter_map(operators::tensor);
        return tensors
            .map(|(name, shape)| Tensor {
                name,
                shape: shape.to_vec(),
            })
            .collect();
    }
    let model = model.name();
    let sizes = spec.sizes();
    let model = model.split_once(':').map_or(&*model, |(kind, _)| kind);
    let mut tensors = Vec::new();
    for line in TABLE.lines() {
        let of_model = line
            .strip_prefix(model)
            .and_then(|rest| rest.strip_prefix(','));
        if let Some((name, shape)) = of_model.and_then(|rest| rest.split_once(',')) {
            let sides = shape.split(' ').map(|side| sizes.size(side) as usize);
            tensors.push(Tensor {
                name: name.into(),
                shape: sides.collect(),
            });
        }
    }
    tensors
}

/// The weights of a model. Tensors are unpacked one at a time, so that memory holds at most one in addition to the
/// file.
#[derive(Debug)]
pub struct Weights {
    tensors: Vec<Tensor>,
    /// A seed, or the bytes of a safetensors file.
    source: WeightSource,
}

#[derive(Debug)]
enum WeightSource {
    Seed { seed: u64, bound: f32 },
    File(Vec<u8>),
}

impl Weights {
    /// Opens the weights that `spec` names. Fails for a file that is not safetensors, and for a tensor that is missing
    /// or has another shape or type.
    pub fn open(model: &Model, spec: &Spec) -> Result<Weights> {
        let tensors = tensors(model, spec);
        let bytes = tensors.iter().map(Tensor::bytes).sum();
        let what = format_args!("model {} with hidden = {}", model.name(), spec.hidden);
        require(bytes, what, "take a smaller one, or batchlab sim")?;
        let source = match &spec.weights {
            // The weights need no smaller range, because listed operators scale their sums.
            None if model.network().is_some() => WeightSource::Seed {
                seed: spec.seed,
                bound: 1.0,
            },
            // This is PyTorch's range for recurrent layers.
            None => WeightSource::Seed {
                seed: spec.seed,
                bound: 1.0 / (spec.hidden as f32).sqrt(),
            },
            Some(path) => {
                let bytes = fs::read(path).map_err(|cause| Error::unreadable(path, &cause))?;
                let file = SafeTensors::deserialize(&bytes).map_err(|error| {
                    Error::input(format!(
                        "{}: is not a safetensors file: {error}",
                        path.display()
                    ))
                })?;
                tensors
                    .iter()
                    .try_for_each(|tensor| tensor.check(&file, model, spec))
                    .within(path.display())?;
                WeightSource::File(bytes)
            }
        };
        Ok(Weights { tensors, source })
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors
            .iter()
            .find(|tensor| tensor.name == name)
            .expect("a tensor of the model")
    }

    /// The numbers of a matrix, a row for each output, and the width of a row.
    pub fn matrix(&self, name: &str) -> (Vec<f32>, usize) {
        (self.take(name), self.tensor(name).shape[1])
    }

    /// The numbers of a tensor.
    pub fn take(&self, name: &str) -> Vec<f32> {
        match &self.source {
            WeightSource::Seed { seed, bound } => {
                let mut rng = random::sequence(*seed, 0, &format!("weights {name}"));
                let count = self.tensor(name).shape.iter().product();
                let mut numbers = Vec::with_capacity(count);
                for _ in 0..count {
                    // 24 bits fit a float32 without rounding, so the number is the same on every machine.
                    let unit = (rng.next_u32() >> 8) as f32 * (1.0 / (1 << 23) as f32) - 1.0;
                    numbers.push(unit * bound);
                }
                numbers
            }
            WeightSource::File(bytes) => {
                let file = SafeTensors::deserialize(bytes).expect("it was read before");
                let (numbers, _) = file
                    .tensor(name)
                    .expect("it was checked when the file was opened")
                    .data()
                    .as_chunks();
                numbers
                    .iter()
                    .map(|number| f32::from_le_bytes(*number))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::{Path, PathBuf};

    use safetensors::tensor::{TensorView, serialize};

    use super::*;

    /// Writes a model's weights, each number changed by `change`, which is also given the tensor's name.
    pub fn write(path: &Path, model: &Model, spec: &Spec, change: impl Fn(&str, f32) -> f32) {
        let weights = Weights::open(model, spec).unwrap();
        let bytes = |Tensor { name, .. }: &Tensor| -> Vec<u8> {
            weights
                .take(name)
                .into_iter()
                .flat_map(|x| change(name, x).to_le_bytes())
                .collect()
        };
        let bytes: Vec<_> = weights.tensors.iter().map(bytes).collect();
        let views = weights.tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
            (
                &tensor.name,
                TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).unwrap(),
            )
        });
        fs::write(path, serialize(views, None).unwrap()).unwrap();
    }

    fn spec(weights: Option<PathBuf>) -> Spec {
        Spec {
            hidden: 4,
            embedding: 3,
            vocabulary: 9,
            seed: 2,
            weights,
        }
    }

    #[test]
    fn what_is_written_reads_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        for model in [
            Model::Lstm,
            Model::Gru,
            Model::Seq2Seq,
            Model::TreeLstm,
            Model::ChildSumTreeLstm,
            Model::ChildSumByArity(3),
        ] {
            let drawn = Weights::open(&model, &spec(None)).unwrap();
            write(&path, &model, &spec(None), |_, x| x);
            let read = Weights::open(&model, &spec(Some(path.clone()))).unwrap();
            for tensor in tensors(&model, &spec(None)) {
                let bits = |weights: &Weights| {
                    weights
                        .take(&tensor.name)
                        .iter()
                        .map(|x| x.to_bits())
                        .collect::<Vec<_>>()
                };
                assert_eq!(bits(&drawn), bits(&read), "{}", tensor.name);
            }
        }
    }

    #[test]
    fn drawn_weights_fill_their_range_and_never_change() {
        let weights = Weights::open(&Model::Lstm, &spec(None)).unwrap();
        let drawn = weights.take("lstm.weight_ih");
        assert!(drawn.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!(drawn.iter().any(|x| *x < -0.4) && drawn.iter().any(|x| *x > 0.4));
        // These numbers were recorded once: a seed gives the same weights on every platform.
        assert_eq!(drawn[..4], [-0.1541025, 0.4166146, -0.45840847, 0.45733917]);
        assert_ne!(drawn[..12], weights.take("lstm.weight_hh")[..12]);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let refusal = |model: &Model, spec: &Spec| {
            let message = Weights::open(model, spec).unwrap_err().to_string();
            message.replace(&folder.path().display().to_string(), "DIR")
        };
        let given = spec(Some(path.clone()));
        assert!(refusal(&Model::Lstm, &given).starts_with("DIR/w.safetensors: cannot be read: "));
        for junk in [&b""[..], b"embedding", &[b'{'; 400]] {
            fs::write(&path, junk).unwrap();
            let message = refusal(&Model::Lstm, &given);
            assert!(
                message.starts_with("DIR/w.safetensors: is not a safetensors file: "),
                "{message}"
            );
        }
        write(&path, &Model::Lstm, &spec(None), |_, x| x);
        assert_eq!(
            refusal(&Model::Gru, &given),
            "DIR/w.safetensors: has no tensor \"gru.weight_ih\", which the model gru needs as float32 of shape [12, 3]; it \
             has: embedding.weight, lstm.bias, lstm.weight_hh, lstm.weight_ih"
        );
        assert_eq!(
            refusal(
                &Model::Lstm,
                &Spec {
                    embedding: 4,
                    ..given.clone()
                }
            ),
            "DIR/w.safetensors: the tensor \"embedding.weight\" has the shape [9, 3], but the model lstm with hidden = 4, \
             embedding = 4 and vocabulary = 9 needs [9, 4], a row for each output"
        );
        let half = TensorView::new(Dtype::F16, vec![9, 3], &[0; 54]).unwrap();
        fs::write(
            &path,
            serialize([("embedding.weight", half)], None).unwrap(),
        )
        .unwrap();
        assert_eq!(
            refusal(&Model::Lstm, &given),
            "DIR/w.safetensors: the tensor \"embedding.weight\" is of type F16, but has to be F32; convert it"
        );
    }
}
