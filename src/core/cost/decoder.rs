//! The times of a language model's iterations from a device's data sheet and the model's shape.
//!
//! The matrices are read once and multiplied with all tokens, whichever takes longer; then attention reads the keys and
//! values of the context. Attention's own products are left out: in a prompt of n tokens they are n / (12 · width) of
//! the others.

use std::sync::Arc;

use super::roofline::Roofline;
use crate::base::units::Nanos;
use crate::core::workload::transformer::Transformer;

/// The kernels of a layer: two norms, queries to values, attention, its output, the two products after it, the function
/// between them.
const KERNELS: u64 = 8;

/// The percentage of a device's memory for weights, keys and values. The rest is for activations (vLLM's default).
const USED: u64 = 90;

/// The iterations of a language model by the roofline of a device.
#[derive(Clone, Debug)]
pub struct DecoderRoofline {
    device: Arc<Roofline>,
    shape: Arc<Transformer>,
    /// The time of reading all weights.
    weights: Nanos,
    launches: Nanos,
    /// [`Transformer::matrix_weights`].
    matrix_weights: u64,
    /// [`Transformer::kv_numbers`].
    kv_numbers: u64,
    /// The most tokens whose products take no longer than reading the weights.
    hidden_tokens: u32,
}

impl DecoderRoofline {
    pub fn new(device: &Arc<Roofline>, shape: &Arc<Transformer>) -> DecoderRoofline {
        let weights = device.traffic(shape.weights().into());
        let matrix_weights = shape.matrix_weights();
        DecoderRoofline {
            weights,
            launches: device.launch.saturating_mul(KERNELS * shape.layers),
            matrix_weights,
            kv_numbers: shape.kv_numbers(),
            hidden_tokens: device.most_rows(matrix_weights, weights),
            device: Arc::clone(device),
            shape: Arc::clone(shape),
        }
    }

    /// The time of an iteration that feeds these tokens, and reads the keys and values of this context.
    pub fn iteration(&self, tokens: u32, context: u32) -> Nanos {
        let layers = if tokens <= self.hidden_tokens {
            self.weights
        } else {
            self.device.products(tokens, self.matrix_weights)
        };
        let read = u128::from(context) * u128::from(self.kv_numbers);
        self.launches
            .saturating_add(layers)
            .saturating_add(self.device.traffic(read))
    }

    /// The tokens whose keys and values fit in memory next to the weights, or the number `given` by the scenario.
    ///
    /// # Errors
    /// There is too little memory.
    pub fn kv_tokens(&self, given: Option<u64>) -> Result<Option<u64>, String> {
        let Some(memory) = self.device.memory() else {
            return Ok(given);
        };
        let number_bytes = self.device.unit.bytes;
        let weights = self.shape.weights() * number_bytes;
        let token = self.shape.kv_numbers() * number_bytes;
        let model = &self.shape.name;
        let device = &self.device.name;
        if let Some(tokens) = given {
            let needed = weights.saturating_add(tokens.saturating_mul(token));
            if needed <= memory {
                return Ok(given);
            }
            return Err(format!(
                "device.kv_tokens: {tokens} tokens beside the weights of {model} take {}, and {device} has {}; give fewer",
                gigabytes(needed),
                gigabytes(memory)
            ));
        }
        let usable = memory / 100 * USED;
        match usable.saturating_sub(weights) / token {
            0 => Err(format!(
                "the weights of {model} take {}, and {USED} % of the memory of {device} are {}; take another device or another \
                 precision (device.precision), or give device.kv_tokens to use all of it",
                gigabytes(weights),
                gigabytes(usable)
            )),
            tokens => Ok(Some(tokens)),
        }
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::base::precision::Precision;

    fn decoder(device: &str, model: &str) -> DecoderRoofline {
        let path = |kind: &str, name: &str| format!("scenarios/{kind}/{name}.toml");
        let device = Roofline::read(Path::new(&path("devices", device)), Precision::F16).unwrap();
        let shape = Transformer::read(model, Path::new(&path("llms", model))).unwrap();
        DecoderRoofline::new(&Arc::new(device), &Arc::new(shape))
    }

    #[test]
    fn an_iteration_reads_the_weights_once_and_the_context_by_the_token() {
        let decoder = decoder("a100", "opt-13b");
        let ms = |tokens, context| {
            (decoder.iteration(tokens, context).as_millis_f64() * 100.0).round() / 100.0
        };
        // 25.7 GB and 800 KiB a token at 2,039 GB/s; 320 kernels 2 µs apart.
        assert_eq!(ms(1, 0), 12.6 + 0.64);
        assert_eq!(ms(1, 10_000), 17.25);
        assert_eq!(ms(64, 0), ms(1, 0), "products hide behind the weights");
        // 2 · 12.58 G operations a token at 75 % of 312 Tflop/s.
        assert_eq!(ms(2048, 0), 220.9);
    }

    #[test]
    fn products_show_from_the_first_tokens_on_that_take_longer_than_the_weights() {
        for (device, model) in [("a100", "opt-13b"), ("h100", "llama-2-7b")] {
            let decoder = decoder(device, model);
            let hidden = decoder.hidden_tokens;
            assert!(hidden > 100, "{device}: {hidden}");
            for tokens in hidden - 2..hidden + 3 {
                let products = decoder.device.products(tokens, decoder.matrix_weights);
                assert_eq!(tokens <= hidden, products <= decoder.weights);
                let longer = products.max(decoder.weights);
                assert_eq!(
                    decoder.iteration(tokens, 0) - decoder.iteration(1, 0),
                    longer - decoder.weights
                );
            }
        }
    }

    #[test]
    fn a_model_fits_or_is_refused() {
        let kv = |device, model, given| decoder(device, model).kv_tokens(given);
        assert_eq!(kv("a100", "opt-13b", None), Ok(Some(63_023)));
        assert_eq!(kv("h100", "llama-2-7b", Some(7)), Ok(Some(7)));
        let refused = kv("a100", "llama-2-70b", None).unwrap_err();
        assert!(
            refused.starts_with(
                "the weights of Llama-2-70B take 138.0 GB, and 90 % of the memory of A100"
            ),
            "{refused}"
        );
        assert!(kv("h200", "llama-2-70b", Some(9_000)).is_ok());
        assert!(
            kv("h200", "llama-2-70b", Some(90_000))
                .unwrap_err()
                .contains("give fewer")
        );
    }
}
