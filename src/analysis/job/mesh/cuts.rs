//! How families of groups cut the ranks of a job into dimensions.
//!
//! ```text
//!   tp 2@1   pp 2@4      cuts    1  2  4  8       each divides the next
//!                        atoms    2@1 2@2 2@4     tp, the rest, pp; coordinate = (rank / stride) mod size
//! ```

use crate::job::families::{Factor, GroupFactors};
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
    let mut dropped = BTreeSet::new();
    loop {
        let kept = || families.iter().enumerate().filter(|(i, _)| !dropped.contains(i));
        if let Some(atoms) = divide(world, kept().map(|(_, f)| &f.factors)) {
            return Atoms { atoms, dropped };
        }
        let Some((fewest, _)) = kept().min_by_key(|(i, f)| (f.calls, std::cmp::Reverse(*i))) else {
            return Atoms { atoms: Vec::new(), dropped };
        };
        dropped.insert(fewest);
    }
}

/// Ratios of neighbouring cuts; `None` if one cut does not divide the next.
fn divide<'a>(world: u32, families: impl Iterator<Item = &'a GroupFactors>) -> Option<Vec<Factor>> {
    let mut cuts: BTreeSet<u32> = BTreeSet::from([1, world]);
    for factor in families.flatten() {
        cuts.extend([factor.stride, factor.stride.checked_mul(factor.size)?]);
    }
    let cuts: Vec<u32> = cuts.into_iter().collect();
    let atom = |w: &[u32]| w[1].is_multiple_of(w[0]).then(|| Factor { size: w[1] / w[0], stride: w[0] });
    (cuts.last() == Some(&world)).then(|| cuts.windows(2).map(atom).collect::<Option<Vec<Factor>>>())?
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
