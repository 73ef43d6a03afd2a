//! Weights, from a seed or from a safetensors file.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use rand::Rng;
use safetensors::tensor::{Dtype, Metadata, SafeTensors, View, serialize};

use super::{Spec, operators};
use crate::error::{Context, Error, Result};
use crate::files;
use crate::memory::require;
use crate::workload::model::Model;
use crate::workload::random;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    /// A row for each output, as in PyTorch.
    pub shape: Vec<usize>,
}

impl Tensor {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }

    fn bytes(&self) -> u128 {
        self.shape.iter().map(|side| *side as u128).product::<u128>() * size_of::<f32>() as u128
    }
}

pub fn tensors(model: &Model, spec: &Spec) -> Vec<Tensor> {
    let (h, e, v) = (spec.hidden as usize, spec.embedding as usize, spec.vocabulary as usize);
    if let Some(network) = model.network() {
        let tensors = network.distinct().iter().filter_map(operators::tensor);
        return tensors.map(|(name, shape)| Tensor { name, shape: shape.to_vec() }).collect();
    }
    let mut tensors = vec![Tensor { name: "embedding.weight".into(), shape: vec![v, e] }];
    let mut add = |cell: &str, of_cell: &[(&str, &[usize])]| {
        let tensor =
            |(name, shape): &(&str, &[usize])| Tensor { name: format!("{cell}.{name}"), shape: shape.to_vec() };
        tensors.extend(of_cell.iter().map(tensor));
    };
    let lstm: [(&str, &[usize]); 3] = [("weight_ih", &[4 * h, e]), ("weight_hh", &[4 * h, h]), ("bias", &[4 * h])];
    match model {
        Model::Lstm => add("lstm", &lstm),
        Model::Gru => add("gru", &[("weight_ih", &[3 * h, e]), ("weight_hh", &[3 * h, h]), ("bias", &[3 * h])]),
        Model::Seq2Seq => {
            add("encoder", &lstm);
            add("decoder", &[("embedding", &[v, e])]);
            add("decoder", &lstm);
            add("projection", &[("weight", &[v, h]), ("bias", &[v])]);
        }
        Model::TreeLstm => {
            add("leaf", &[("weight", &[3 * h, e]), ("bias", &[3 * h])]);
            add("internal", &[("weight_left", &[5 * h, h]), ("weight_right", &[5 * h, h]), ("bias", &[5 * h])]);
        }
        Model::ChildSumTreeLstm | Model::ChildSumByArity(_) => {
            add("childsum", &[("weight_iou_x", &[3 * h, e]), ("weight_iou_h", &[3 * h, h]), ("bias_iou", &[3 * h])]);
            add("childsum", &[("weight_f_x", &[h, e]), ("weight_f_h", &[h, h]), ("bias_f", &[h])]);
        }
        Model::Graph(_) | Model::Network(_) | Model::Llm(_) => {}
        Model::Dnn(_) => {
            add("dense", &[("weight_1", &[4 * h, h]), ("bias_1", &[4 * h])]);
            add("dense", &[("weight_2", &[h, 4 * h]), ("bias_2", &[h])]);
        }
    }
    tensors
}

/// One tensor at a time, so that at most one is unpacked in memory beside the file.
#[derive(Debug)]
pub struct Weights {
    tensors: Vec<Tensor>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Seed { seed: u64, bound: f32 },
    File(WeightsFile),
}

#[derive(Debug)]
struct WeightsFile {
    bytes: Vec<u8>,
    data: usize,
    metadata: Metadata,
}

impl Weights {
    /// Fails for a file that is not safetensors, or a tensor that is missing or has another shape or type.
    pub fn open(model: &Model, spec: &Spec) -> Result<Weights> {
        let tensors = tensors(model, spec);
        let bytes = tensors.iter().map(Tensor::bytes).sum();
        let what = format_args!("model {} with hidden = {}", model.name(), spec.hidden);
        require(bytes, what, "take a smaller one, or batchlab sim")?;
        let source = match &spec.weights {
            // Listed operators scale their sums.
            None if model.network().is_some() => Source::Seed { seed: spec.seed, bound: 1.0 },
            // PyTorch's range for recurrent layers.
            None => Source::Seed { seed: spec.seed, bound: 1.0 / (spec.hidden as f32).sqrt() },
            Some(path) => {
                let file = WeightsFile::open(path)?;
                for tensor in &tensors {
                    file.check(tensor, model, spec).within(path.display())?;
                }
                Source::File(file)
            }
        };
        Ok(Weights { tensors, source })
    }

    fn tensor(&self, name: &str) -> &Tensor {
        self.tensors.iter().find(|tensor| tensor.name == name).expect("a tensor of the model")
    }

    /// Matrices one below the other, a row for each output, and the width of a row.
    pub fn matrix(&self, names: &[&str]) -> (Vec<f32>, usize) {
        (names.iter().flat_map(|name| self.take(name)).collect(), self.tensor(names[0]).shape[1])
    }

    pub fn take(&self, name: &str) -> Vec<f32> {
        match &self.source {
            Source::Seed { seed, bound } => {
                let mut rng = random::stream(*seed, 0, &format!("weights {name}"));
                // 24 bits fit a float32 without rounding, the same on every machine.
                let unit = |word: u32| (word >> 8) as f32 * (1.0 / (1 << 23) as f32) - 1.0;
                (0..self.tensor(name).len()).map(|_| unit(rng.next_u32()) * bound).collect()
            }
            Source::File(file) => {
                let numbers = file.bytes_of(name).chunks_exact(4);
                numbers.map(|four| f32::from_le_bytes(four.try_into().expect("chunks of four"))).collect()
            }
        }
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let views = self.tensors.iter().map(|tensor| (tensor.name.as_str(), Taken { weights: self, tensor }));
        let bytes = serialize(views, None)
            .map_err(|error| Error::failed(format!("{}: cannot be written: {error}", path.display())))?;
        files::write_typed(path, |out| out.write_all(&bytes))
    }
}

impl WeightsFile {
    fn open(path: &Path) -> Result<WeightsFile> {
        let bytes = fs::read(path).map_err(|cause| Error::unreadable(path, &cause))?;
        let (header, metadata) = SafeTensors::read_metadata(&bytes)
            .map_err(|error| Error::input(format!("{}: is not a safetensors file: {error}", path.display())))?;
        // Eight bytes before the header are its length.
        Ok(WeightsFile { bytes, data: 8 + header, metadata })
    }

    fn check(&self, tensor: &Tensor, model: &Model, spec: &Spec) -> Result<()> {
        let (name, shape, listed, model) = (&tensor.name, &tensor.shape, model.network().is_some(), model.name());
        let Some(found) = self.metadata.info(name) else {
            return Err(Error::input(format!(
                "has no tensor \"{name}\", which the model {model} needs as float32 of shape {shape:?}; it has: {}",
                self.metadata.offset_keys().join(", ")
            )));
        };
        if found.dtype != Dtype::F32 {
            return Err(Error::input(format!(
                "the tensor \"{name}\" is of type {}, but has to be F32; convert it",
                found.dtype
            )));
        }
        if found.shape != *shape {
            let Spec { hidden, embedding, vocabulary, .. } = spec;
            let sizes = if listed {
                String::new()
            } else {
                format!(" with hidden = {hidden}, embedding = {embedding} and vocabulary = {vocabulary}")
            };
            return Err(Error::input(format!(
                "the tensor \"{name}\" has the shape {:?}, but the model {model}{sizes} needs {shape:?}, a row for each output",
                found.shape
            )));
        }
        Ok(())
    }

    fn bytes_of(&self, name: &str) -> &[u8] {
        let info = self.metadata.info(name).expect("the tensors were checked when the file was opened");
        let (from, to) = info.data_offsets;
        &self.bytes[self.data + from..self.data + to]
    }
}

/// Drawn or read when the writer needs it.
struct Taken<'a> {
    weights: &'a Weights,
    tensor: &'a Tensor,
}

impl View for Taken<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.weights.take(&self.tensor.name).into_iter().flat_map(f32::to_le_bytes).collect())
    }

    fn data_len(&self) -> usize {
        4 * self.tensor.len()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn spec(weights: Option<PathBuf>) -> Spec {
        Spec { hidden: 4, embedding: 3, vocabulary: 9, seed: 2, weights }
    }

    #[test]
    fn what_is_written_reads_back_bit_for_bit() {
        let folder = tempfile::tempdir().unwrap();
        let (path, again) = (folder.path().join("a.safetensors"), folder.path().join("b.safetensors"));
        for model in [
            Model::Lstm,
            Model::Gru,
            Model::Seq2Seq,
            Model::TreeLstm,
            Model::ChildSumTreeLstm,
            Model::ChildSumByArity(3),
        ] {
            let drawn = Weights::open(&model, &spec(None)).unwrap();
            drawn.write(&path).unwrap();
            let read = Weights::open(&model, &spec(Some(path.clone()))).unwrap();
            for tensor in tensors(&model, &spec(None)) {
                let bits =
                    |weights: &Weights| weights.take(&tensor.name).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&drawn), bits(&read), "{}", tensor.name);
            }
            read.write(&again).unwrap();
            assert_eq!(fs::read(&path).unwrap(), fs::read(&again).unwrap());
        }
    }

    #[test]
    fn drawn_weights_fill_their_range_and_never_change() {
        let weights = Weights::open(&Model::Lstm, &spec(None)).unwrap();
        let drawn = weights.take("lstm.weight_ih");
        assert!(drawn.iter().all(|x| (-0.5..0.5).contains(x)));
        assert!(drawn.iter().any(|x| *x < -0.4) && drawn.iter().any(|x| *x > 0.4));
        // Recorded once: a seed gives these weights on every platform.
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
            assert!(message.starts_with("DIR/w.safetensors: is not a safetensors file: "), "{message}");
        }
        Weights::open(&Model::Lstm, &spec(None)).unwrap().write(&path).unwrap();
        assert_eq!(
            refusal(&Model::Gru, &given),
            "DIR/w.safetensors: has no tensor \"gru.weight_ih\", which the model gru needs as float32 of shape [12, 3]; it \
             has: embedding.weight, lstm.bias, lstm.weight_hh, lstm.weight_ih"
        );
        assert_eq!(
            refusal(&Model::Lstm, &Spec { embedding: 4, ..given.clone() }),
            "DIR/w.safetensors: the tensor \"embedding.weight\" has the shape [9, 3], but the model lstm with hidden = 4, \
             embedding = 4 and vocabulary = 9 needs [9, 4], a row for each output"
        );
        let half = safetensors::tensor::TensorView::new(Dtype::F16, vec![9, 3], &[0; 54]).unwrap();
        fs::write(&path, serialize([("embedding.weight", half)], None).unwrap()).unwrap();
        assert_eq!(
            refusal(&Model::Lstm, &given),
            "DIR/w.safetensors: the tensor \"embedding.weight\" is of type F16, but has to be F32; convert it"
        );
    }
}
