//! A request run alone, node after node: what every batched run of it has to equal, bit for bit.

/// What a request comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The states of the nodes that no other node needs, in the order of the nodes, one behind the other.
    pub state: Vec<f32>,
    /// The words that its cells wrote, in the order of the nodes.
    pub words: Vec<u32>,
}

impl Output {
    /// A hash of all bits, by which outputs are compared without being kept.
    pub fn digest(&self) -> u64 {
        let bits = self.state.iter().map(|x| x.to_bits()).chain(self.words.iter().copied());
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ u64::from(word)).wrapping_mul(0x0100_0000_01b3))
    }
}
