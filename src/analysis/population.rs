//! The rows of a per-window table on which observations are based: those that [`chosen_windows`] selects.

use crate::api::Partial;
use hta_base::table::schema::{ColumnsOf, Table};
use hta_base::table::typed::Values;
use hta_base::table::windows::{ChosenWindows, chosen_windows};
use hta_base::units::{Ns, percent};
use hta_base::wording::ranks::rank_list;

/// The key cells of a row that stands for a window of a device.
pub(crate) struct WindowKey<'a> {
    pub(crate) device: Option<i64>,
    pub(crate) scope: &'a str,
    pub(crate) step: Option<u32>,
    pub(crate) step_label: Option<i64>,
    pub(crate) dur_ns: Ns,
}

/// A table with a row per window of each device. [`windowed!`](crate::windowed) implements it.
pub(crate) trait Windowed: Table {
    fn window<'a>(columns: &Self::Columns<'a>, row: usize) -> WindowKey<'a>;
}

/// Implements `Windowed` for a table with a row per window of each device.
#[macro_export]
macro_rules! windowed {
    ($table:ident) => {
        impl $crate::population::Windowed for $table {
            fn window<'a>(columns: &Self::Columns<'a>, row: usize) -> $crate::population::WindowKey<'a> {
                use hta_base::table::typed::Values;
                $crate::population::WindowKey {
                    device: columns.device.at(row),
                    scope: columns.scope.at(row),
                    step: columns.step.at(row),
                    step_label: columns.step_label.at(row),
                    dur_ns: columns.dur_ns.at(row),
                }
            }
        }
    };
}

/// The selected rows of one rank and device.
pub(crate) struct SelectedRows<'a, T: Windowed> {
    pub rank: u32,
    pub device: Option<i64>,
    pub(crate) columns: ColumnsOf<'a, T>,
    pub(crate) rows: Vec<usize>,
    /// Whether the rows are steps.
    pub(crate) is_steps: bool,
}

impl<'a, T: Windowed> SelectedRows<'a, T> {
    /// Keys of the windows.
    pub(crate) fn windows(&self) -> impl Iterator<Item = WindowKey<'a>> {
        self.rows.iter().map(|&r| T::window(&self.columns, r))
    }

    /// Length of the windows together, ns.
    pub(crate) fn dur(&self) -> Ns {
        self.windows().map(|w| w.dur_ns).sum()
    }

    /// Sum of a column over the rows: times, or a count.
    pub(crate) fn sum<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        let values = column(&self.columns);
        self.rows.iter().map(|&r| values.int_at(r)).sum()
    }

    /// Mean of a column over the rows (rounded down).
    pub(crate) fn mean<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        self.sum(column) / (self.rows.len().max(1) as i64)
    }

    /// Sum of a column as a percentage of the windows.
    pub fn percent<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> Option<f64> {
        hta_base::units::percent(self.sum(column), self.dur())
    }

    /// `per step`, or `of the recorded span`.
    pub(crate) fn per(&self) -> &'static str {
        if self.is_steps { "per step" } else { "of the recorded span" }
    }

    /// The step in which a column is largest: its name for a sentence, and the value, ns. `None` if there are
    /// not several steps, or none stands out.
    pub(crate) fn worst_step<V: Summable<'a>>(
        &self,
        column: impl Fn(&ColumnsOf<'a, T>) -> V,
    ) -> Option<(String, Ns)> {
        let values = column(&self.columns);
        let value = |r: &usize| values.int_at(*r);
        let worst = self.rows.iter().copied().max_by_key(|r| (value(r), std::cmp::Reverse(*r)))?;
        // A step must exceed the mean by more than a twentieth to stand out.
        if !self.is_steps || self.rows.len() < 2 || value(&worst) * 20 <= self.mean(column) * 21 {
            return None;
        }
        let window = T::window(&self.columns, worst);
        let name = match window.step_label {
            Some(label) => label.to_string(),
            None => format!("@{}", window.step?),
        };
        Some((name, value(&worst)))
    }

    /// A name such as `rank 3`, with the device if the rank has several devices.
    pub(crate) fn who(&self, several_devices: bool) -> String {
        match self.device {
            Some(d) if several_devices => format!("rank {} device {d}", self.rank),
            _ => format!("rank {}", self.rank),
        }
    }
}

/// A column of integers, for sums.
pub(crate) trait Summable<'a>: Values<'a> {
    fn int_at(self, row: usize) -> i64;
}

impl<'a, V: Values<'a, Value: TryInto<i64>>> Summable<'a> for V {
    fn int_at(self, row: usize) -> i64 {
        self.at(row).try_into().unwrap_or(0)
    }
}

/// Groups the rows of a per-window table by rank and device ([`chosen_windows`]).
pub(crate) fn groups<T: Windowed>(partials: &[Partial]) -> Vec<SelectedRows<'_, T>> {
    let of_rank = |batch| {
        let columns = T::read(batch);
        chosen_windows(batch).into_iter().map(move |of| {
            let ChosenWindows { rank, device, rows, is_steps, .. } = of;
            SelectedRows { rank, device, columns, rows, is_steps }
        })
    };
    partials.iter().filter_map(|p| p.table(T::SPEC)).flat_map(of_rank).collect()
}

pub(crate) fn several_devices<T: Windowed>(groups: &[SelectedRows<T>]) -> bool {
    groups.windows(2).any(|w| w[0].rank == w[1].rank)
}

/// Several groups of windows as one.
pub(crate) struct MergedGroups<'g, 'a, T: Windowed>(pub &'g [&'g SelectedRows<'a, T>]);

impl<'a, T: Windowed> MergedGroups<'_, 'a, T> {
    /// Sum of a column over the windows of all groups.
    pub(crate) fn sum<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        self.0.iter().map(|g| g.sum(&column)).sum()
    }

    /// Mean of a column over the windows of all groups (rounded down).
    pub(crate) fn mean<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> i64 {
        self.sum(column) / self.windows()
    }

    /// Sum of a column as a percentage of the windows.
    pub fn percent<V: Summable<'a>>(&self, column: impl Fn(&ColumnsOf<'a, T>) -> V) -> Option<f64> {
        percent(self.sum(column), self.0.iter().map(|g| g.dur()).sum())
    }

    /// Number of windows, at least one.
    pub(crate) fn windows(&self) -> i64 {
        self.0.iter().map(|g| g.rows.len() as i64).sum::<i64>().max(1)
    }
}

/// The reasons why ranks have no rows, one line per reason.
pub fn reasons(partials: &[Partial]) -> Vec<String> {
    let mut seen: Vec<(&str, Vec<u32>)> = Vec::new();
    for p in partials {
        let Some(reason) = p.reason else { continue };
        match seen.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, ranks)) => ranks.push(p.rank),
            None => seen.push((reason, vec![p.rank])),
        }
    }
    let line = |(reason, ranks): &(&str, Vec<u32>)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {}: {reason}", rank_list(ranks))
    };
    seen.iter().map(line).collect()
}
