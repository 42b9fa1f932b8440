//! Divides the ranks by the families of groups, and names the dimensions: after the description of the groups
//! that are exactly one, else after what is left of a product, else after the use of the groups.

use crate::families::Factor;
use crate::mesh::coordinates::Atom;
use crate::mesh::cuts::{CutBy, atoms, atoms_of};
use crate::mesh::told::MeshShape;
use crate::mesh::{DimensionSource, FamilyState, MeshFamily};
use hta_facts::group_names::GroupName;

/// Order in which one of several names of a dimension is shown.
const PREFERRED: [&str; 7] = ["pp", "tp", "dp", "dp_replicate", "dp_shard", "cp", "ep"];

/// The shards of the parameters.
const SHARD: &str = "dp_shard";

/// Divides the ranks by the regular families, and names what it can; the families get their atoms and names.
pub(super) fn named_atoms(world: u32, families: &mut [MeshFamily]) -> Vec<Atom> {
    for f in families.iter_mut().filter(|f| f.state == FamilyState::Single) {
        if let GroupName::Dimension(name) = f.meaning {
            f.name = Some(name.to_string());
        }
    }
    let regular: Vec<usize> =
        (0..families.len()).filter(|i| families[*i].state == FamilyState::Regular).collect();
    if regular.is_empty() {
        return Vec::new();
    }
    let cut = |i: &usize| CutBy { factors: families[*i].factors.clone(), calls: families[*i].usage.calls };
    let found = atoms(world, &regular.iter().map(cut).collect::<Vec<_>>());
    for dropped in &found.dropped {
        families[regular[*dropped]].state = FamilyState::Contradicted;
    }
    let mut named: Vec<Atom> =
        found.atoms.iter().map(|a| Atom { names: Vec::new(), size: a.size, stride: a.stride }).collect();
    let is_kept = |f: &&mut MeshFamily| f.state == FamilyState::Regular;
    for f in families.iter_mut().filter(is_kept) {
        f.atoms = atoms_of(&f.factors, &found.atoms);
        if let (GroupName::Dimension(name), [atom]) = (f.meaning, &f.atoms[..]) {
            add(&mut named[*atom], name);
        }
    }
    name_rests(families, &mut named);
    name_by_use(families, &mut named);
    for f in families.iter_mut().filter(is_kept) {
        f.name = match f.meaning {
            // With other dimensions it is their product.
            GroupName::Dimension(SHARD) if f.atoms.len() > 1 => {
                product_of(&f.atoms, &named).or_else(|| Some(SHARD.to_string()))
            }
            GroupName::Dimension(name) => Some(name.to_string()),
            GroupName::Ends => None,
            GroupName::Product(_) | GroupName::Default | GroupName::Nameless => product_of(&f.atoms, &named),
        };
    }
    named
}

/// Gives the families their places in a mesh that is told, and those of its dimensions a family that no group
/// is along.
pub(super) fn told_atoms(
    shape: &MeshShape,
    source: DimensionSource,
    families: &mut Vec<MeshFamily>,
) -> Vec<Atom> {
    let atoms = shape.atoms();
    let factors: Vec<Factor> = atoms.iter().map(|a| Factor { size: a.size, stride: a.stride }).collect();
    let is_cut =
        |at: u64| at == u64::from(shape.ranks()) || factors.iter().any(|f| u64::from(f.stride) == at);
    for f in families.iter_mut().filter(|f| f.state == FamilyState::Regular) {
        let ends = |f: &Factor| [u64::from(f.stride), u64::from(f.stride) * u64::from(f.size)];
        if f.factors.iter().flat_map(ends).all(is_cut) {
            f.atoms = atoms_of(&f.factors, &factors);
            f.name = product_of(&f.atoms, &atoms);
            f.source = source;
        } else {
            f.state = FamilyState::Contradicted;
        }
    }
    for (i, (atom, factor)) in atoms.iter().zip(&factors).enumerate() {
        if families.iter().all(|f| f.atoms != [i]) {
            families.push(MeshFamily {
                name: atom.name().map(str::to_string),
                factors: vec![*factor],
                atoms: vec![i],
                ..MeshFamily::without_groups(atom.size, source)
            });
        }
    }
    atoms
}

fn add(atom: &mut Atom, name: &str) {
    if !atom.names.iter().any(|n| n == name) {
        atom.names.push(name.to_string());
    }
    let place = |n: &String| PREFERRED.iter().position(|p| p == n).unwrap_or(PREFERRED.len());
    atom.names.sort_by_key(place);
}

/// Names the one atom of a product that has no name yet: `dp_shard x cp` without `cp` is `dp_shard`. So is
/// `fsdp`, by which some mean the shards of each part of the context, too.
fn name_rests(families: &[MeshFamily], atoms: &mut [Atom]) {
    for f in families.iter().filter(|f| f.state == FamilyState::Regular) {
        let names = match &f.meaning {
            GroupName::Product(names) => names,
            GroupName::Dimension(name) if *name == SHARD => std::slice::from_ref(name),
            _ => continue,
        };
        let is_named = |name: &str| atoms.iter().any(|a| a.names.iter().any(|n| n == name));
        let unnamed: Vec<usize> = f.atoms.iter().copied().filter(|i| atoms[*i].names.is_empty()).collect();
        let left: Vec<&str> = names.iter().copied().filter(|n| !is_named(n)).collect();
        if let ([atom], [name, ..]) = (&unnamed[..], &left[..]) {
            add(&mut atoms[*atom], name);
        }
    }
}

/// Names atoms after the calls of groups without a description.
fn name_by_use(families: &mut [MeshFamily], atoms: &mut [Atom]) {
    for f in families.iter_mut().filter(|f| f.state == FamilyState::Regular) {
        let says_nothing = matches!(f.meaning, GroupName::Nameless | GroupName::Default);
        let [atom] = f.atoms[..] else { continue };
        let is_named = |name: &str| atoms.iter().any(|a| a.names.iter().any(|n| n == name));
        if let (true, true, Some(name)) = (says_nothing, atoms[atom].names.is_empty(), f.usage.dimension)
            && !is_named(name)
        {
            add(&mut atoms[atom], name);
            f.source = DimensionSource::Use;
        }
    }
}

fn product_of(of_family: &[usize], atoms: &[Atom]) -> Option<String> {
    let names: Option<Vec<&str>> = of_family.iter().rev().map(|i| atoms.get(*i)?.name()).collect();
    names.filter(|n| !n.is_empty()).map(|n| n.join(" x "))
}
