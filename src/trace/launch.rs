//! Launch calls with the activities that they own.

use crate::activity::Activity;
use crate::args::Arg;
use crate::events::Columns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LaunchCallSlot {
    /// Row of the call.
    row: u32,
    /// End of its activities in `LaunchLinks::activities`; they begin where those of the previous call end.
    until: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchLinks {
    calls: Vec<LaunchCallSlot>,
    /// Indices of activities by call; those of one call are in order of (start, row).
    activities: Vec<u32>,
    /// Indices of activities without a launch record, in order of (start, row).
    pub unlinked: Vec<u32>,
}

impl LaunchLinks {
    /// `all` must be in order of (start, row).
    pub(crate) fn new(all: &[Activity]) -> Self {
        let mut linked: Vec<(u32, u32)> =
            all.iter().enumerate().filter_map(|(i, a)| Some((a.launch()?, i as u32))).collect();
        linked.sort();
        let mut calls: Vec<LaunchCallSlot> = Vec::new();
        for (i, (row, _)) in linked.iter().enumerate() {
            let until = i as u32 + 1;
            match calls.last_mut() {
                Some(last) if last.row == *row => last.until = until,
                _ => calls.push(LaunchCallSlot { row: *row, until }),
            }
        }
        Self {
            calls,
            activities: linked.into_iter().map(|l| l.1).collect(),
            unlinked: (0..all.len() as u32).filter(|&i| all[i as usize].launch().is_none()).collect(),
        }
    }

    /// Each call's row with the indices of its activities, in order of row.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u32])> {
        (0..self.calls.len()).map(|i| (self.calls[i].row, self.at(i)))
    }

    /// Number of calls that own activities.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Indices of the activities that a call owns; empty for other events.
    pub fn of(&self, row: u32) -> &[u32] {
        self.calls.binary_search_by_key(&row, |c| c.row).map_or(&[], |i| self.at(i))
    }

    fn at(&self, i: usize) -> &[u32] {
        let from = i.checked_sub(1).map_or(0, |before| self.calls[before].until as usize);
        &self.activities[from..self.calls[i].until as usize]
    }
}

/// Whether a call with this name submits work to a device.
pub fn is_launch_call(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.contains("launch") && !lower.contains("hostfunc") && !lower.contains("launchparams")
}

/// Whether a call with this name launches a graph.
pub fn is_graph_launch(name: &str) -> bool {
    name.contains("GraphLaunch")
}

/// Whether a call submits work to a device, by its name: a launch, a copy, or a set of known size above 0. (A
/// set of 0 bytes does nothing, and CUDA calls do not record their size.)
pub(crate) fn starts_work(c: &Columns, row: u32) -> bool {
    let name = c.strings.get(c.name(row as usize));
    let lower = name.to_ascii_lowercase();
    match (lower.contains("memset"), lower.contains("memcpy")) {
        (true, _) => c.args.int(Arg::CopySize, row).is_some_and(|bytes| bytes > 0),
        (false, true) => c.args.int(Arg::CopySize, row) != Some(0),
        (false, false) => is_launch_call(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Class;
    use crate::strings::StrId;
    use hta_base::units::Span;

    #[test]
    fn a_call_owns_its_activities_in_order_of_start() {
        let launches = [Some(7), None, Some(4), Some(7)];
        let all: Vec<Activity> = launches
            .iter()
            .enumerate()
            .map(|(i, launch)| {
                let span = Span::new(i as i64, i as i64 + 1);
                let mut a = Activity::new(10 + i as u32, span, StrId::EMPTY, Class::Kernel);
                a.set_launch(*launch);
                a
            })
            .collect();
        let l = LaunchLinks::new(&all);
        assert_eq!(
            l.iter().map(|(row, of)| (row, of.to_vec())).collect::<Vec<_>>(),
            [(4, vec![2]), (7, vec![0, 3])]
        );
        assert_eq!((l.of(7), l.of(5), l.unlinked.as_slice()), (&[0, 3][..], &[][..], &[1][..]));
    }
}
