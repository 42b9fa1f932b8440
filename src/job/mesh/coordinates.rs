//! The finest division of the ranks of a program into dimensions, and where each rank is in it.

/// One dimension of the finest division.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Atom {
    /// All names that it has, the one that is shown first; none if nothing tells.
    pub names: Vec<String>,
    pub size: u32,
    pub stride: u32,
}

impl Atom {
    /// The coordinate of a rank, which is counted from the first of its program.
    fn coordinate(&self, own_rank: u32) -> u32 {
        own_rank.checked_div(self.stride).and_then(|r| r.checked_rem(self.size)).unwrap_or(0)
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }
}

/// Dimensions whose combinations [`Coordinates::places`] tries.
const MOST_DIMENSIONS: usize = 6;

/// The finest division of the ranks of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coordinates {
    /// The number in the job of the program's rank 0.
    pub first: u32,
    /// Ranks of the program.
    pub size: u32,
    /// Smallest stride first; empty if the groups are no mesh.
    pub atoms: Vec<Atom>,
}

impl Coordinates {
    /// The rank inside of the program; `None` if it is of another one.
    fn own_rank(&self, rank: u32) -> Option<u32> {
        rank.checked_sub(self.first).filter(|own| *own < self.size)
    }

    pub fn holds(&self, rank: u32) -> bool {
        self.own_rank(rank).is_some()
    }

    /// The position of a rank along a dimension, counted from 0.
    pub fn along(&self, rank: u32, dimension: &str) -> Option<u32> {
        let atom = self.atoms.iter().find(|a| a.names.iter().any(|n| n == dimension))?;
        self.along_atom(rank, atom)
    }

    pub(crate) fn along_atom(&self, rank: u32, atom: &Atom) -> Option<u32> {
        Some(atom.coordinate(self.own_rank(rank)?))
    }
    /// The named dimensions with their sizes, outermost first.
    pub fn dimensions(&self) -> impl Iterator<Item = (&str, u32)> {
        self.atoms.iter().rev().filter_map(|a| Some((a.name()?, a.size)))
    }

    /// The named coordinates that all of these ranks share, outermost first, if they are all ranks that have
    /// them: `dp 2, pp 1` of one rank, `dp 1` of a tensor-parallel group. `None` for a program of one
    /// dimension, where a coordinate is the rank.
    pub fn label_of(&self, ranks: &[u32]) -> Option<String> {
        let own: Vec<u32> = ranks.iter().map(|rank| self.own_rank(*rank)).collect::<Option<_>>()?;
        let (first, others) = own.split_first()?;
        if self.atoms.len() < 2 {
            return None;
        }
        let is_shared = |a: &&Atom| others.iter().all(|r| a.coordinate(*r) == a.coordinate(*first));
        let shared: Vec<&Atom> = self.atoms.iter().filter(is_shared).collect();
        let count: u32 = shared.iter().map(|a| a.size).product();
        let is_whole = self.size.checked_div(count).is_some_and(|n| n as usize == ranks.len());
        let named =
            shared.iter().rev().filter_map(|a| Some(format!("{} {}", a.name()?, a.coordinate(*first))));
        let text = named.collect::<Vec<_>>().join(", ");
        (is_whole && !text.is_empty()).then_some(text)
    }

    /// Ways to divide the ranks by none, one or several named dimensions into at most `limit` places of
    /// several ranks; the fewest places first. Each gives the coordinates of a rank's place. A program of
    /// one dimension has none.
    pub fn places(&self, limit: usize) -> Vec<impl Fn(u32) -> Vec<u32>> {
        let named: Vec<&Atom> = self.atoms.iter().filter(|a| a.name().is_some()).collect();
        let chosen = |mask: u32| named.iter().enumerate().filter(move |(i, _)| mask >> i & 1 == 1);
        let count = |mask: u32| chosen(mask).map(|(_, a)| a.size as usize).product::<usize>();
        let most = if self.atoms.len() < 2 { 0 } else { limit.min(self.size as usize / 2) };
        let all_masks = 0..1 << named.len().min(MOST_DIMENSIONS);
        let mut masks: Vec<u32> = all_masks.filter(|mask| count(*mask) <= most).collect();
        masks.sort_by_key(|mask| (count(*mask), mask.count_ones()));
        let place = |mask: u32| {
            let of: Vec<Atom> = chosen(mask).map(|(_, a)| (*a).clone()).collect();
            move |rank: u32| of.iter().filter_map(|a| self.along_atom(rank, a)).collect()
        };
        masks.into_iter().map(place).collect()
    }
}
