//! The numbers of a cause of lost time, and the pieces of sentences that such causes share.

use crate::diagnosis::trust::RecordingTrust;
use crate::facts::vendor::DeviceVendor;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::names::{clip, frame_parts};
use hta_trace::kernel::short_name;

/// Largest width of a name in a sentence, characters.
pub(crate) const NAME: usize = 60;

/// Share from which a name is a large part of its cause, percent.
pub(crate) const LARGE_PART_PCT: f64 = 30.0;

/// A name with the lost time that it owns.
pub(crate) struct NamedTime<'a> {
    pub(crate) name: &'a str,
    /// The Python frame around it; empty if not recorded.
    pub(crate) detail: &'a str,
    /// ns per step and rank.
    pub(crate) per_step: Ns,
    /// Of the cause, percent.
    pub(crate) share: f64,
    pub(crate) count: u64,
}

impl NamedTime<'_> {
    /// Where it is: ` in function (file and line)`; empty if not recorded.
    pub(crate) fn place(&self) -> String {
        match frame(self.detail) {
            Some((function, place)) if !self.name.contains(self.detail) => {
                format!(" in `{function}` ({place})")
            }
            _ => String::new(),
        }
    }
}

/// The numbers of a cause of lost time; times per step and rank, ns.
pub(crate) struct LostWords<'a> {
    /// What the cause is about; empty if its kind says all.
    pub(crate) key: &'a str,
    pub(crate) rank_label: &'a str,
    pub(crate) idle: Ns,
    pub(crate) copies: Ns,
    /// Waiting behind it, mean of all devices, per step.
    pub(crate) waits: Ns,
    /// All idle time of its ranks.
    pub(crate) idle_all: Ns,
    pub(crate) step: Ns,
    /// Of the job's time, percent.
    pub(crate) gain_pct: Option<f64>,
    /// The largest names.
    pub(crate) top: Vec<NamedTime<'a>>,
    pub(crate) trust: &'a RecordingTrust,
}

impl LostWords<'_> {
    /// What idles.
    pub(crate) fn device(&self) -> &'static str {
        if self.trust.vendor == DeviceVendor::Host { "process" } else { "device" }
    }

    /// The ranks, ` on ...`; empty if there is only one.
    pub(crate) fn who(&self) -> String {
        let is_only = self.rank_label == "rank 0" && self.trust.present == 1;
        if is_only { String::new() } else { format!(" on {}", self.rank_label) }
    }

    /// The idle time of all of it.
    pub(crate) fn idle(&self) -> String {
        format!("{} of {} idle time{}", fmt_ns(self.idle), fmt_ns(self.idle_all), self.trust.per_step())
    }

    /// The place of the largest name.
    pub(crate) fn top_place(&self) -> String {
        self.top.first().map(NamedTime::place).unwrap_or_default()
    }

    /// The largest name with its place.
    pub(crate) fn top_name(&self) -> String {
        let top = self.top.first().map(|t| format!("{}{}", shown(t.name), t.place()));
        top.unwrap_or_else(|| "code that was not recorded".to_string())
    }

    /// The sentence and action of copies of some kind.
    pub(crate) fn copies(&self, what: &str, action: &str) -> (String, String) {
        let time = fmt_ns(self.idle + self.copies);
        let (who, per) = (self.who(), self.trust.per_step());
        (format!("Copies {what}{who} take {time}{per} in which nothing else runs"), action.to_string())
    }

    /// Whether one operator, other than the launch calls themselves, takes much of the time in which the host
    /// launches.
    pub(crate) fn has_large_part(&self) -> bool {
        let largest = self.top.iter().find(|n| !hta_trace::launch::is_launch_call(n.name));
        largest.is_some_and(|n| n.share >= LARGE_PART_PCT)
    }
}

/// A name as it is shown: kernels without arguments, a frame as function and place.
pub(crate) fn shown(name: &str) -> String {
    match frame(name) {
        Some((function, place)) => format!("`{function}` ({})", clip(&place, NAME)),
        None => format!("`{}`", clip(&short_name(name), NAME)),
    }
}

/// Function and place of a Python frame, `path/file.py(12): function`; the path without its front.
fn frame(name: &str) -> Option<(&str, String)> {
    let (path, line, function) = frame_parts(name)?;
    let file = path.rsplit('/').next().unwrap_or(path);
    Some((function, format!("{file}:{line}")))
}
