//! What tells the mesh of a program besides its groups, and wins over them: `--mesh`, else coordinates in the
//! names of its files.
//!
//! ```text
//!   --mesh pp=2,dp=2,tp=2       outermost first: rank = 4 pp + 2 dp + tp
//!   rank5-of-8_tp1-pp1-dp0      the one mesh of 8 ranks in which each file has the coordinates of its name
//! ```

use crate::mesh::DimensionSource;
use crate::mesh::coordinates::Atom;
use hta_facts::group_names::{GroupName, group_name};
use hta_read::coordinates::NamedPlace;
use hta_trace::meta::LARGEST_GROUP;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Sizes of dimensions, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshShape(Vec<(String, u32)>);

impl MeshShape {
    /// Reads `pp=4,dp=8,tp=8`.
    ///
    /// # Errors
    /// When a dimension has no name or size, a name is given twice, or there are too many ranks.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut dimensions: Vec<(String, u32)> = Vec::new();
        for part in text.split(',') {
            let expected =
                || format!("expected name=size, outermost first, e.g. pp=4,dp=8,tp=8, found `{part}`");
            let (name, size) = part.split_once('=').ok_or_else(expected)?;
            let name = dimension_name(name).ok_or_else(expected)?;
            let size = size.trim().parse().ok().filter(|size| *size > 0).ok_or_else(expected)?;
            if dimensions.iter().any(|(other, _)| *other == name) {
                return Err(format!("expected each dimension once, found {name} twice"));
            }
            dimensions.push((name, size));
        }
        let ranks = dimensions.iter().try_fold(1u32, |n, (_, size)| n.checked_mul(*size));
        match ranks.filter(|n| *n <= LARGEST_GROUP) {
            Some(_) => Ok(Self(dimensions)),
            None => Err(format!("expected at most {LARGEST_GROUP} ranks")),
        }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.0.iter().map(|(_, size)| size).product()
    }

    /// The dimensions, smallest stride first. Those of one rank give no coordinate.
    pub(super) fn atoms(&self) -> Vec<Atom> {
        let mut stride = 1;
        let mut atoms = Vec::new();
        for (name, size) in self.0.iter().rev().filter(|(_, size)| *size > 1) {
            atoms.push(Atom { names: vec![name.clone()], size: *size, stride });
            stride *= size;
        }
        atoms
    }

    /// The one mesh of `world` ranks in which all of these ranks have the coordinates of their names; `None`
    /// if there are several, or none.
    fn of_places(world: u32, places: &[(u32, &NamedPlace)]) -> Option<Self> {
        let names: BTreeSet<&str> =
            places.iter().flat_map(|(_, p)| &p.along).map(|(name, _)| name.as_str()).collect();
        let mut search = PlaceSearch { world, places, found: Vec::new() };
        search.extend(&mut Vec::new(), 1, &names);
        match &search.found[..] {
            [one] => Some(Self(one.iter().rev().map(|(name, size)| (name.to_string(), *size)).collect())),
            _ => None,
        }
    }
}

impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dimensions: Vec<String> = self.0.iter().map(|(name, size)| format!("{name}={size}")).collect();
        f.write_str(&dimensions.join(","))
    }
}

/// The name that a dimension has in tables: `fsdp` is `dp_shard`. `None` if it is no name.
pub fn dimension_name(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| match group_name(&text) {
        GroupName::Dimension(name) => name.to_string(),
        _ => text,
    })
}

/// Dimensions with their sizes, innermost first.
type InnerFirst<'a> = Vec<(&'a str, u32)>;

/// A search for meshes with given coordinates.
struct PlaceSearch<'a> {
    world: u32,
    /// Ranks inside of their program.
    places: &'a [(u32, &'a NamedPlace)],
    /// At most two, since that is too many.
    found: Vec<InnerFirst<'a>>,
}

impl<'a> PlaceSearch<'a> {
    /// Adds a further dimension of the `left` at this stride in all ways that the coordinates allow.
    fn extend(&mut self, inner: &mut InnerFirst<'a>, stride: u32, left: &BTreeSet<&'a str>) {
        let fits = |name: &str, coordinate: &dyn Fn(u32) -> u32| {
            self.places.iter().all(|(rank, place)| place.along(name) == Some(coordinate(*rank)))
        };
        if stride == self.world {
            if left.iter().all(|name| fits(name, &|_| 0)) {
                self.found.push(inner.clone());
            }
            return;
        }
        let rest = self.world / stride;
        let is_possible =
            |name: &str, size: u32| rest.is_multiple_of(size) && fits(name, &|rank| rank / stride % size);
        let sizes = |name: &'a str| (2..=rest).filter(move |size| is_possible(name, *size));
        let next: Vec<(&str, u32)> =
            left.iter().flat_map(|name| sizes(name).map(|size| (*name, size))).collect();
        for (name, size) in next {
            if self.found.len() < 2 {
                inner.push((name, size));
                let others = left.iter().copied().filter(|other| *other != name).collect();
                self.extend(inner, stride * size, &others);
                inner.pop();
            }
        }
    }
}

/// A program, as far as its size is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramExtent {
    /// Its role in a job of several programs.
    pub role: Option<String>,
    /// Which of several programs of this role it is.
    pub replica: Option<u32>,
    /// The number in the job of its rank 0.
    pub first: u32,
    /// Its ranks, if a file says it.
    pub said: Option<u32>,
    /// One more than the highest rank that is seen.
    pub seen: u32,
}

/// What tells the meshes of a job besides its groups.
#[derive(Debug, Clone, Default)]
pub struct ToldMeshes {
    /// `--mesh`
    pub shape: Option<MeshShape>,
    /// By rank of the job: its coordinates in the name of its file.
    pub files: BTreeMap<u32, NamedPlace>,
}

impl ToldMeshes {
    /// Whether `--mesh` can be the mesh of a program.
    fn fits(shape: &MeshShape, program: &ProgramExtent) -> bool {
        program.said.map_or(shape.ranks() >= program.seen, |said| said == shape.ranks())
    }

    /// Checks that `--mesh` is the mesh of one program, or of the programs of one role.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, programs: &[ProgramExtent]) -> Result<(), String> {
        let Some(shape) = &self.shape else { return Ok(()) };
        let fitting: Vec<&ProgramExtent> = programs.iter().filter(|p| Self::fits(shape, p)).collect();
        let roles: BTreeSet<&Option<String>> = fitting.iter().map(|p| &p.role).collect();
        if roles.len() == 1 || programs.is_empty() {
            return Ok(());
        }
        let size = |p: &ProgramExtent| {
            let role = p.role.as_ref().map_or(String::new(), |role| format!("{role} "));
            format!("{role}{}", p.said.unwrap_or(p.seen))
        };
        let mut sizes: Vec<String> = programs.iter().map(size).collect();
        sizes.dedup();
        let (n, sizes) = (shape.ranks(), sizes.join(", "));
        Err(match roles.len() {
            0 => format!("expected the ranks of the job ({sizes}), found a mesh of {n}"),
            _ => format!("several programs have {n} ranks ({sizes}): analyse one of them alone"),
        })
    }

    /// The mesh of a program, and what tells it.
    pub(super) fn of_program(&self, program: &ProgramExtent) -> Option<(MeshShape, DimensionSource)> {
        if let Some(shape) = self.shape.as_ref().filter(|shape| Self::fits(shape, program)) {
            return Some((shape.clone(), DimensionSource::Option));
        }
        let end = program.first.saturating_add(program.said.unwrap_or(LARGEST_GROUP));
        let named: Vec<(u32, &NamedPlace)> =
            self.files.range(program.first..end).map(|(rank, place)| (rank - program.first, place)).collect();
        let world = program.said.or_else(|| named.iter().filter_map(|(_, place)| place.world).max())?;
        if named.is_empty() || world < program.seen {
            return None;
        }
        Some((MeshShape::of_places(world, &named)?, DimensionSource::FileNames))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mesh_is_read_outermost_first() {
        let shape = MeshShape::parse("pp=4, cp=1,fsdp=8,TP=2").expect("a mesh");
        assert_eq!((shape.to_string().as_str(), shape.ranks()), ("pp=4,cp=1,dp_shard=8,tp=2", 64));
        let atoms: Vec<_> = shape.atoms().iter().map(|a| (a.names[0].clone(), a.size, a.stride)).collect();
        let of = |name: &str, size, stride| (name.to_string(), size, stride);
        assert_eq!(atoms, [of("tp", 2, 1), of("dp_shard", 8, 2), of("pp", 4, 16)]);
        for bad in ["", "pp", "pp=", "pp=0", "=4", "4=4", "pp=2,pp=4", "tp=1000,pp=2000", "pp=2;tp=2"] {
            assert!(MeshShape::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mesh_fits_one_program_or_those_of_one_role() {
        let program = |role: Option<&str>, said, seen| ProgramExtent {
            role: role.map(str::to_string),
            replica: None,
            first: 0,
            said,
            seen,
        };
        let told = ToldMeshes { shape: MeshShape::parse("dp=2,tp=4").ok(), ..ToldMeshes::default() };
        let (actor, engine) = (program(Some("actor"), Some(8), 8), program(Some("rollout"), Some(2), 2));
        assert_eq!(told.check(&[program(None, None, 3)]), Ok(()));
        assert_eq!(told.check(&[actor.clone(), engine.clone(), engine.clone()]), Ok(()));
        for bad in [vec![program(None, Some(16), 16)], vec![program(None, None, 9)], vec![engine]] {
            assert!(told.check(&bad).is_err_and(|e| e.contains("found a mesh of 8")), "{bad:?}");
        }
        let twice = [actor, program(Some("ref"), Some(8), 8)];
        assert!(told.check(&twice).is_err_and(|e| e.contains("actor 8, ref 8")));
    }

    /// Coordinates of some ranks of a mesh, given outermost first.
    fn named(shape: &[(&'static str, u32)], ranks: &[u32]) -> Option<String> {
        let place = |rank: u32| {
            let mut stride = 1;
            let along = shape.iter().rev().map(|(name, size)| {
                let coordinate = rank / stride % size;
                stride *= size;
                (name.to_string(), coordinate)
            });
            NamedPlace { world: None, along: along.collect() }
        };
        let places: Vec<(u32, NamedPlace)> = ranks.iter().map(|r| (*r, place(*r))).collect();
        let world = shape.iter().map(|(_, size)| size).product();
        let places: Vec<(u32, &NamedPlace)> = places.iter().map(|(r, p)| (*r, p)).collect();
        MeshShape::of_places(world, &places).map(|shape| shape.to_string())
    }

    #[test]
    fn names_of_files_tell_the_mesh_if_only_one_fits() {
        let verl = [("pp", 2), ("dp", 3), ("cp", 1), ("tp", 4)];
        assert_eq!(named(&verl, &(0..24).collect::<Vec<_>>()).as_deref(), Some("pp=2,dp=3,tp=4"));
        assert_eq!(named(&verl, &[0, 1, 2, 3, 5, 7, 11, 23]).as_deref(), Some("pp=2,dp=3,tp=4"));
        assert_eq!(named(&verl, &[0, 1, 2, 3]), None, "nothing tells the others");
        assert_eq!(named(&[("dp", 2), ("tp", 2)], &[0]), None);
        assert_eq!(named(&[("dp", 8)], &(0..8).collect::<Vec<_>>()).as_deref(), Some("dp=8"));
    }
}
