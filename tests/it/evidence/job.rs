//! What is known of a job beside the rows of a cause: how many steps and devices its means are over, and what
//! its rules of trust say.

use crate::run::Answer;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct JobFacts {
    pub steps: i64,
    /// Number of devices, by rank.
    pub devices: BTreeMap<i64, i64>,
    /// Of all devices, ns.
    pub compute: i64,
    /// Ascending, ns.
    pub step_times: Vec<i64>,
    /// Length of the steps: the most that they take on one device, ns.
    length: i64,
    /// By index and label of the step, ns.
    pub time_of: BTreeMap<(Option<i64>, Option<i64>), i64>,
    told: Vec<String>,
}

impl JobFacts {
    pub fn of(answer: &Answer) -> Self {
        let mut out = Self::default();
        let mut devices: BTreeMap<i64, BTreeSet<Option<i64>>> = BTreeMap::new();
        let mut windows: BTreeMap<(i64, Option<i64>), i64> = BTreeMap::new();
        for row in answer.rows("time_account") {
            devices.entry(row.int("rank")).or_default().insert(row.opt_int("device"));
            *out.time_of.entry((row.opt_int("step"), row.opt_int("step_label"))).or_default() +=
                row.int("time_ns");
            let is_window = row.text("part") != "finished_early";
            *windows.entry((row.int("rank"), row.opt_int("device"))).or_default() +=
                if is_window { row.int("time_ns") } else { 0 };
            out.compute += if row.text("part") == "compute" { row.int("time_ns") } else { 0 };
        }
        out.devices = devices.into_iter().map(|(rank, of)| (rank, of.len() as i64)).collect();
        let all = out.devices.values().sum::<i64>().max(1);
        out.time_of.values_mut().for_each(|time| *time /= all);
        out.step_times = out.time_of.values().copied().collect();
        out.step_times.sort_unstable();
        out.steps = out.step_times.len().max(1) as i64;
        out.length = windows.into_values().max().unwrap_or(0);
        out.told = answer.rows("trust").iter().map(|row| row.text("sentence").to_string()).collect();
        out
    }

    /// The mean step, ns.
    pub fn step_time(&self) -> i64 {
        self.length / self.steps
    }

    /// The number of devices of some ranks, at least one.
    pub fn devices_of(&self, is_of: impl Fn(i64) -> bool) -> i64 {
        self.devices.iter().filter(|(rank, _)| is_of(**rank)).map(|(_, n)| n).sum::<i64>().max(1)
    }

    /// A text without what it repeats of a row of `trust`, word by word.
    pub fn own_words(&self, text: &str) -> String {
        let mut own = text.to_string();
        for told in self.told.iter().filter(|told| !told.is_empty()) {
            let mut letters = told.chars();
            let first = letters.next().unwrap_or_default();
            let capital = format!("{}{}", first.to_uppercase(), letters.as_str());
            let small = format!("{}{}", first.to_lowercase(), letters.as_str());
            own = [told, &capital, &small].iter().fold(own, |own, told| own.replace(told.as_str(), "~"));
        }
        own
    }
}
