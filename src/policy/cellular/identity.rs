//! Whether two tasks hold the same members, without listing them.

/// A fingerprint of an ordered list of (subgraph, number of nodes). The order of a task is that of release, so the set
/// decides the list; and a sum of well-mixed values tells sets apart (two different ones agree once in 2^64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberSet(u64);

impl MemberSet {
    /// Puts in a subgraph, known by its place in the order of release, with so many of its nodes.
    pub fn add(&mut self, released: u64, nodes: u32) {
        self.0 = self.0.wrapping_add(mix(released, nodes));
    }

    /// Takes out what [`MemberSet::add`] put in.
    pub fn remove(&mut self, released: u64, nodes: u32) {
        self.0 = self.0.wrapping_sub(mix(released, nodes));
    }
}

/// The number of nodes goes to the upper bits, where places in the order of release are zero for the first 2^40 of them.
fn mix(released: u64, nodes: u32) -> u64 {
    split_mix(released ^ u64::from(nodes).rotate_right(24))
}

/// The finaliser of SplitMix64: a bijection that spreads each bit over all.
fn split_mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_agree_and_others_do_not() {
        let set = |members: &[(u64, u32)]| {
            let mut set = MemberSet::default();
            members.iter().for_each(|(released, nodes)| set.add(*released, *nodes));
            set
        };
        assert_eq!(set(&[(1, 1), (2, 1)]), set(&[(2, 1), (1, 1)]));
        assert_ne!(set(&[(1, 1), (2, 1)]), set(&[(1, 1), (3, 1)]));
        assert_ne!(set(&[(1, 2)]), set(&[(1, 1)]));
        assert_ne!(set(&[(1, 2), (2, 1)]), set(&[(1, 1), (2, 2)]));
        let mut grown = set(&[(7, 1)]);
        grown.add(9, 3);
        grown.remove(9, 3);
        assert_eq!(grown, set(&[(7, 1)]));
    }
}
