//! Kernel names summed over all ranks, for the printed table.

use crate::api::Partial;
use crate::kernels::{KernelsByName, KernelsByNameRow};
use hta_base::units::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// A kernel name summed over all ranks and devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameTotal {
    pub class: String,
    pub short_name: String,
    /// Further keys, as printed.
    pub cells: Vec<String>,
    pub count: i64,
    pub sum_ns: Ns,
    /// Largest number of steps in which one rank ran it.
    pub steps: i64,
}

/// Sums the rows of a scope over ranks by class, short name and the result of `cells`, largest first.
pub fn top_names(
    partials: &[Partial],
    scope: &str,
    cells: impl Fn(&KernelsByNameRow) -> Vec<String>,
) -> Vec<NameTotal> {
    let mut by_name: BTreeMap<(&str, &str, Vec<String>), (i64, Ns)> = BTreeMap::new();
    let mut steps = 1;
    for p in partials {
        let of_rank: BTreeSet<u32> = p.rows::<KernelsByName>().filter_map(|r| r.step).collect();
        steps = steps.max(of_rank.len() as i64);
        for row in p.rows::<KernelsByName>().filter(|r| r.scope == scope) {
            let (count, sum) = by_name.entry((row.class, row.short_name, cells(&row))).or_default();
            *count += row.count as i64;
            *sum += row.sum_ns;
        }
    }
    let total = |((class, short_name, cells), (count, sum_ns)): ((&str, &str, Vec<String>), (i64, Ns))| {
        let (class, short_name) = (class.to_string(), short_name.to_string());
        NameTotal { class, short_name, cells, count, sum_ns, steps }
    };
    let mut totals: Vec<NameTotal> = by_name.into_iter().map(total).collect();
    totals.sort_by(|a, b| {
        (b.sum_ns, &a.short_name, &a.class, &a.cells).cmp(&(a.sum_ns, &b.short_name, &b.class, &b.cells))
    });
    totals
}
