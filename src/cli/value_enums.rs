//! The values of options whose types belong to the core, which knows no command line: their names and help.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::core::cost::grnn::{RecurrentCell, Rnn};
use crate::core::policy::closed_batches::Version;
use crate::core::workload::import::{ImportFormat, ImportedShape};

macro_rules! value_enum {
    ($type:ident { $($variant:ident = $name:literal: $help:literal,)* }) => {
        impl ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$($type::$variant),*]
            }

            fn to_possible_value(&self) -> Option<PossibleValue> {
                let (name, help) = match self {
                    $($type::$variant => ($name, $help),)*
                };
                Some(PossibleValue::new(name).help(help))
            }
        }
    };
}

value_enum!(RecurrentCell {
    Lstm = "lstm": "One synchronisation per step",
    Gru = "gru": "One or two synchronisations per step",
});

value_enum!(Rnn {
    Lstm = "lstm": "One synchronisation",
    GruDouble = "gru-double": "Two synchronisations: blocks wait for the reset gate's product",
    GruSingle = "gru-single":
        "One synchronisation: each block computes all that it needs of the reset gate",
});

value_enum!(Version {
    Closed = "21.10": "A batch is closed when it is formed (releases 21.09 to 21.12)",
    Open = "22.03": "A batch takes in requests until an instance takes it (from 22.01 on)",
});

value_enum!(ImportFormat {
    Azure = "azure": "Azure LLM inference traces: TIMESTAMP,ContextTokens,GeneratedTokens",
    AzureLmm = "azure-lmm":
        "Azure's trace of multimodal models: TIMESTAMP,NumImages,ContextTokens,GeneratedTokens; classes text and images",
    BurstGpt = "burstgpt": "BurstGPT: Timestamp,Model,Request tokens,Response tokens,…",
    Mooncake = "mooncake":
        "Mooncake: {\"timestamp\": …, \"input_length\": …, \"output_length\": …} in each line, the time in milliseconds",
    Alibaba = "alibaba":
        "Alibaba's requests to Stable Diffusion: gmt_create,predict_type,num_inference_steps,…; a chain of steps each",
    Csv = "csv":
        "Our names: `arrival_s` (or arrival_ms, arrival_us, arrival_ns, or arrival for dates), and `length_in,length_out,class` if there are any",
    Sentences = "sentences":
        "A sentence per line; its length is the number of words between spaces",
    Parents = "parents":
        "A tree per line: the 1-based parent of each node, 0 for the root, as in SICK's .parents files",
    Treebank = "treebank": "The s-expressions of the Stanford and Penn treebanks",
    Conllu = "conllu": "CoNLL-U: a word per line, whose head is its parent in the tree",
});

value_enum!(ImportedShape {
    Chain = "chain": "A chain as long as the input",
    Seq2seq = "seq2seq": "The lengths of input and output",
    Tokens = "tokens": "One pass over an input of this many tokens",
    Llm = "llm": "Prompt and output of a language model",
    Tree = "tree": "A tree",
    Fixed = "fixed": "A request without a length, such as an image",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn name(value: &impl ValueEnum) -> String {
        value
            .to_possible_value()
            .expect("no value is hidden")
            .get_name()
            .to_string()
    }

    #[test]
    fn names_are_those_of_the_core() {
        for cell in RecurrentCell::value_variants() {
            assert_eq!(name(cell), cell.name());
        }
        for rnn in Rnn::value_variants() {
            assert_eq!(name(rnn), rnn.to_string());
        }
    }
}
