//! How ranks are named in words: by their numbers, or in a job of several programs by their roles, with the
//! coordinates that they share.

use crate::mesh::{Coordinates, Mesh};
use crate::part::RankSummary;
use hta_base::wording::ranks::{rank_list, ranks_in_column, ranks_named};
use std::collections::BTreeMap;

/// The words for all ranks of a job.
#[derive(Debug, Clone, Default)]
pub struct RankWords {
    /// By rank of a job of several programs: how it is named, as word and number.
    pub roles: BTreeMap<u32, (String, u32)>,
    programs: Vec<Coordinates>,
}

impl RankWords {
    pub(crate) fn of(parts: &[RankSummary], mesh: &Mesh) -> Self {
        Self {
            roles: parts.iter().filter_map(|p| Some((p.rank, p.role.as_ref()?.label()))).collect(),
            programs: mesh.programs.iter().map(|p| p.coordinates.clone()).collect(),
        }
    }

    /// By their numbers: `ranks 4-7`, or `actor 0-3, rollout 1`.
    pub fn plain(&self, ranks: &[u32]) -> String {
        if self.roles.is_empty() { ranks_named(ranks) } else { self.in_roles(ranks) }
    }

    /// With the coordinates that they share: `rank 9 (dp 2, pp 1)`, `actor 0, 1 (dp 0)`.
    pub fn named(&self, ranks: &[u32]) -> String {
        let label = self.shared(ranks).map_or(String::new(), |label| format!(" ({label})"));
        format!("{}{label}", self.plain(ranks))
    }

    /// The coordinates that they share: [`Coordinates::label_of`].
    pub fn shared(&self, ranks: &[u32]) -> Option<String> {
        self.programs.iter().find_map(|p| p.label_of(ranks))
    }

    /// Where the ranks are in the mesh; `None` for a job of several programs.
    pub fn only_program(&self) -> Option<&Coordinates> {
        self.programs.first().filter(|_| self.roles.is_empty())
    }

    /// What tells a rank's place in the job, beside its number: `dp 2, pp 1`, or `actor 0 (dp 0)`.
    pub fn place(&self, rank: u32) -> Option<String> {
        match self.roles.contains_key(&rank) {
            true => Some(self.named(&[rank])),
            false => self.shared(&[rank]),
        }
    }

    /// For a column of a table: `0-2, 4`, `9 (dp 2, pp 1)`, `pp 1 (8)`, or `actor 0-3, rollout 1`.
    pub fn in_column(&self, ranks: &[u32]) -> String {
        let numbers = || if self.roles.is_empty() { ranks_in_column(ranks) } else { self.in_roles(ranks) };
        match self.shared(ranks) {
            Some(label) if ranks.len() > 1 && self.roles.is_empty() => format!("{label} ({})", ranks.len()),
            Some(label) => format!("{} ({label})", numbers()),
            None => numbers(),
        }
    }

    fn in_roles(&self, ranks: &[u32]) -> String {
        let mut by_word: Vec<(&str, Vec<u32>)> = Vec::new();
        for (word, number) in ranks.iter().filter_map(|rank| self.roles.get(rank)) {
            match by_word.last_mut() {
                Some((last, numbers)) if last == word => numbers.push(*number),
                _ => by_word.push((word, vec![*number])),
            }
        }
        let shown: Vec<String> =
            by_word.iter().map(|(word, numbers)| format!("{word} {}", rank_list(numbers))).collect();
        shown.join(", ")
    }
}
