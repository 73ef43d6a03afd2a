//! GRNN: persistent kernels for recurrent networks, and the model that says which mapping of them is fastest.

mod mapping;

pub use self::mapping::{Mapping, Rnn, Sizes};
