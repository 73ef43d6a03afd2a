//! Named random sequences. A new draw for one purpose does not shift those of the others.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::base::hash::fnv1a;

/// A sequence of random numbers, which is the same on every platform and in every version.
pub type RandomSequence = ChaCha8Rng;

/// The random sequence for one purpose (`"arrivals"`, `"shapes"`, …) of a replication.
pub fn sequence(seed: u64, replication: u32, purpose: &str) -> RandomSequence {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..12].copy_from_slice(&replication.to_le_bytes());
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(fnv1a(purpose.as_bytes()));
    rng
}

/// The finaliser of SplitMix64, a bijection in which each bit affects all others.
#[inline]
pub(crate) fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn sequences_differ_and_repeat() {
        let draw = |seed, replication, purpose| sequence(seed, replication, purpose).next_u64();
        assert_eq!(draw(1, 0, "arrivals"), draw(1, 0, "arrivals"));
        let all = [
            draw(1, 0, "arrivals"),
            draw(1, 0, "shapes"),
            draw(1, 1, "arrivals"),
            draw(2, 0, "arrivals"),
        ];
        for (place, number) in all.iter().enumerate() {
            assert!(!all[place + 1..].contains(number));
        }
    }
}
