//! How families of groups cut the ranks of a job into dimensions.
//!
//! ```text
//!   tp 2@1   pp 2@4      cuts    1  2  4  8       each divides the next
//!                        atoms    2@1 2@2 2@4     tp, the rest, pp; coordinate = (rank / stride) mod size
//! ```

use crate::families::{Factor, GroupFactors};
use std::collections::BTreeSet;

/// A family as far as its cuts matter.
#[derive(Debug, Clone)]
pub(crate) struct CutBy {
    pub(crate) factors: GroupFactors,
    /// Calls of its groups: the family with the fewest is dropped where two contradict each other.
    pub(crate) calls: u64,
}

/// The atoms of a mesh, smallest stride first, and which of the families had to be dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Atoms {
    pub(crate) atoms: Vec<Factor>,
    pub(crate) dropped: BTreeSet<usize>,
}

/// Cuts `world` ranks by all families, given in an order that decides between those with equally few calls:
/// the last is dropped first.
pub(crate) fn atoms(world: u32, families: &[CutBy]) -> Atoms {
    let mut order: Vec<usize> = (0..families.len()).collect();
    order.sort_by_key(|i| (std::cmp::Reverse(families[*i].calls), *i));
    // Cuts that divide each other still do so without some of them. So families are added, those with most
    // calls first, until one contradicts those before.
    let mut cuts: BTreeSet<u32> = BTreeSet::from([1, world]);
    let kept = order.iter().take_while(|i| world > 0 && add_cuts(&mut cuts, &families[**i].factors)).count();
    let dropped = order.into_iter().skip(kept).collect();
    let cuts: Vec<u32> = cuts.into_iter().filter(|cut| (1..=world).contains(cut)).collect();
    let atom = |w: &[u32]| Factor { size: w[1] / w[0], stride: w[0] };
    Atoms { atoms: cuts.windows(2).map(atom).collect(), dropped }
}

/// Adds the cuts of a family; none of them if one divides not the next, or is not divided by the one before.
fn add_cuts(cuts: &mut BTreeSet<u32>, factors: &GroupFactors) -> bool {
    let mut added = Vec::new();
    for at in factors.iter().flat_map(|f| [Some(f.stride), f.stride.checked_mul(f.size)]) {
        let before = at.and_then(|at| cuts.range(..=at).next_back().copied());
        let behind = at.and_then(|at| cuts.range(at..).next().copied());
        let fits = |at: u32| {
            before.is_some_and(|b| at.is_multiple_of(b)) && behind.is_some_and(|b| b.is_multiple_of(at))
        };
        let Some(at) = at.filter(|at| fits(*at)) else {
            added.iter().for_each(|at| {
                cuts.remove(at);
            });
            return false;
        };
        if cuts.insert(at) {
            added.push(at);
        }
    }
    true
}

/// The atoms that a product of factors consists of.
pub(crate) fn atoms_of(factors: &GroupFactors, atoms: &[Factor]) -> Vec<usize> {
    let is_in = |atom: &Factor| {
        let of = |f: &Factor| {
            f.stride <= atom.stride && u64::from(atom.stride) < u64::from(f.stride) * u64::from(f.size)
        };
        factors.iter().any(of)
    };
    (0..atoms.len()).filter(|i| is_in(&atoms[*i])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(factors: &[(u32, u32)], calls: u64) -> CutBy {
        CutBy {
            factors: factors.iter().map(|(size, stride)| Factor { size: *size, stride: *stride }).collect(),
            calls,
        }
    }

    fn sizes(world: u32, families: &[CutBy]) -> Vec<(u32, u32)> {
        atoms(world, families).atoms.iter().map(|a| (a.size, a.stride)).collect()
    }

    #[test]
    fn products_are_cut_into_atoms() {
        // Megatron: tp 2, dp 2, pp 4, and experts over tp x dp.
        let megatron =
            [family(&[(2, 1)], 9), family(&[(2, 2)], 9), family(&[(4, 4)], 9), family(&[(4, 1)], 9)];
        assert_eq!(sizes(16, &megatron), [(2, 1), (2, 2), (4, 4)]);
        // One family leaves the rest as a whole, and one over both ends cuts the middle.
        assert_eq!(sizes(16, &[family(&[(4, 1)], 1)]), [(4, 1), (4, 4)]);
        assert_eq!(sizes(16, &[family(&[(2, 1), (2, 8)], 1)]), [(2, 1), (4, 2), (2, 8)]);
        assert_eq!(sizes(30, &[family(&[(5, 1)], 1), family(&[(3, 5)], 1)]), [(5, 1), (3, 5), (2, 15)]);
        assert_eq!(sizes(8, &[]), [(8, 1)]);
        assert_eq!(atoms_of(&megatron[3].factors, &atoms(16, &megatron).atoms), [0, 1]);
    }

    #[test]
    fn of_two_that_contradict_each_other_the_one_with_fewer_calls_is_dropped() {
        let both = [family(&[(4, 1)], 3), family(&[(6, 1)], 9)];
        assert_eq!((sizes(12, &both), atoms(12, &both).dropped), (vec![(6, 1), (2, 6)], BTreeSet::from([0])));
    }

    proptest::proptest! {
        /// Families are dropped one by one, that with the fewest calls first, until no cut contradicts
        /// another.
        #[test]
        fn the_most_families_with_most_calls_are_kept(
            world in 0u32..40,
            all in proptest::collection::vec(
                (proptest::collection::vec((0u32..7, 0u32..9), 0..3), 0u64..4),
                0..6,
            ),
        ) {
            let all: Vec<CutBy> = all.iter().map(|(factors, calls)| family(factors, *calls)).collect();
            let found = atoms(world, &all);
            let fits = |kept: &[usize]| {
                let factors = kept.iter().flat_map(|i| &all[*i].factors);
                let mut cuts: Vec<u32> = factors.flat_map(|f| [f.stride, f.stride * f.size]).collect();
                cuts.extend([1, world]);
                cuts.sort_unstable();
                let divide = |w: &[u32]| w[1].is_multiple_of(w[0]);
                cuts[0] > 0 && cuts.last() == Some(&world) && cuts.windows(2).all(divide)
            };
            let mut kept: Vec<usize> = (0..all.len()).collect();
            kept.sort_by_key(|i| (std::cmp::Reverse(all[*i].calls), *i));
            let mut dropped = BTreeSet::new();
            while !fits(&kept) {
                let Some(last) = kept.pop() else { break };
                dropped.insert(last);
            }
            proptest::prop_assert_eq!(&found.dropped, &dropped);
            let product: u32 = found.atoms.iter().map(|a| a.size).product();
            proptest::prop_assert_eq!(product, world.max(1));
        }
    }

    /// Every mesh is recovered from its dimensions.
    #[test]
    fn meshes_are_recovered_from_their_groups() {
        for shape in [vec![4, 8, 2, 8], vec![16, 64], vec![2, 3, 5], vec![8, 128]] {
            let world = shape.iter().product();
            let mut stride = 1;
            let mut expected = Vec::new();
            for size in shape.iter().rev() {
                expected.push((*size, stride));
                stride *= size;
            }
            let families: Vec<CutBy> = expected.iter().map(|f| family(&[*f], 0)).collect();
            assert_eq!(sizes(world, &families), expected);
        }
    }
}
