//! The words that requests consist of. A trace has sizes alone, so that words are drawn: each from the seed, the request
//! and its place, by a mix that gives the same on every platform and needs no memory.

use super::Network;
use crate::units::RequestId;

impl Network {
    /// The word at a place of a request, below the size of the vocabulary. A node's place is its number; the tokens of a
    /// request that is one cell are counted from 0.
    pub fn token(&self, request: RequestId, place: u32) -> u32 {
        let mixed = mix(self.spec.seed ^ mix(u64::from(request.0) << 32 | u64::from(place)));
        // The high half of a product spreads 32 random bits evenly over the vocabulary.
        (((mixed >> 32) * u64::from(self.spec.vocabulary)) >> 32) as u32
    }
}

/// The finalizer of SplitMix64.
pub(super) fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
