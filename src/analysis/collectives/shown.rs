//! Display names of process groups, and the selection by `--group`.

use crate::api::Options;
use hta_job::{Group, Job};

pub struct GroupSelection {
    names: Vec<String>,
    sizes: Vec<u32>,
    asked: Vec<bool>,
    is_narrowed: bool,
}

impl GroupSelection {
    pub(crate) fn new(job: &Job, options: &Options) -> Self {
        let wanted = &options.across.groups;
        let fits =
            |g: &Group, shown: &str| wanted.is_empty() || wanted.iter().any(|w| is_called(g, shown, w));
        let names: Vec<String> = job.matched.groups.iter().map(|g| g.shown(&job.parts)).collect();
        let asked = job.matched.groups.iter().zip(&names).map(|(g, n)| fits(g, n)).collect();
        let sizes = job.matched.groups.iter().map(|g| g.expected() as u32).collect();
        Self { names, sizes, asked, is_narrowed: !wanted.is_empty() }
    }

    /// Whether the job has a group with this name, description or display name.
    pub(crate) fn knows(job: &Job, name: &str) -> bool {
        job.matched.groups.iter().any(|g| is_called(g, &g.shown(&job.parts), name))
    }

    /// Whether a group is selected.
    pub(crate) fn has(&self, group: u32) -> bool {
        self.asked.get(group as usize).copied().unwrap_or(false)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether calls without a known group are selected.
    pub(crate) fn has_groupless(&self) -> bool {
        !self.is_narrowed
    }

    /// Number of members of a group.
    pub(crate) fn sizes(&self, group: u32) -> u32 {
        self.sizes.get(group as usize).copied().unwrap_or(0)
    }

    pub(crate) fn name(&self, group: u32) -> &str {
        self.names.get(group as usize).map_or("", String::as_str)
    }
}

fn is_called(group: &Group, shown: &str, name: &str) -> bool {
    [&group.name, &group.desc].into_iter().flatten().any(|n| n == name) || shown == name
}
