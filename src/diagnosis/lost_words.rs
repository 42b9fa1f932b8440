//! The numbers of a cause of lost time, and the pieces of sentences that such causes share.

use crate::cause_words::CauseWords;
use crate::trust::RecordingTrust;
use hta_base::units::{Ns, fmt_ns, fmt_pct};
use hta_base::wording::names::{built_in, frame_parts, in_sentence};
use hta_facts::vendor::DeviceVendor;
use hta_trace::kernel::short_name;

/// Share from which a name is a large part of its cause, percent.
pub(crate) const LARGE_PART_PCT: f64 = 30.0;

/// Share from which the largest of many names is told, percent.
pub(crate) const TOLD_PART_PCT: f64 = 10.0;

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
    /// The largest operators and built-in functions of what has no name, and their shares of the cause,
    /// percent.
    pub(crate) inside: Vec<(&'a str, f64)>,
    /// Share of the time in which no event of the host is open, percent.
    pub(crate) unrecorded: f64,
    /// Steps that own a twentieth and more.
    pub(crate) large_steps: Vec<String>,
    pub(crate) step_count: usize,
    pub(crate) trust: &'a RecordingTrust,
}

impl LostWords<'_> {
    /// What idles.
    pub(crate) fn device(&self) -> &'static str {
        if self.trust.vendor == DeviceVendor::Host { "process" } else { "device" }
    }

    /// The devices of its ranks and what they do, for example `The device of rank 3 waits`.
    pub(crate) fn device_of_ranks(&self, does: &str) -> String {
        let (device, many) = match self.trust.vendor {
            DeviceVendor::Host => ("process", "processes"),
            _ => ("device", "devices"),
        };
        let plural = does.strip_suffix('s').unwrap_or(does);
        match self.who().strip_prefix(" on ") {
            None => format!("The {device} {does}"),
            Some(one) if one.starts_with("rank ") => format!("The {device} of {one} {does}"),
            Some(all) => format!("The {many} of {all} {plural}"),
        }
    }

    /// The ranks, ` on ...`; empty if there is only one.
    pub(crate) fn who(&self) -> String {
        let is_only = self.rank_label == "rank 0" && self.trust.present == 1;
        if is_only { String::new() } else { format!(" on {}", self.rank_label) }
    }

    /// The idle time of all of it, as a sentence.
    pub(crate) fn idle(&self) -> String {
        let per = self.trust.per_step();
        format!("It takes {} of the {} idle time{per}", fmt_ns(self.idle), fmt_ns(self.idle_all))
    }

    /// Whether no event of the host is open in more of the time than any name takes.
    pub(crate) fn is_mostly_unrecorded(&self) -> bool {
        self.top.first().is_none_or(|top| self.unrecorded > top.share)
    }

    /// The largest name with its place.
    pub(crate) fn top_name(&self) -> String {
        let top = self.top.first().map(|t| format!("{}{}", shown(t.name), t.place()));
        top.unwrap_or_else(|| "code that was not recorded".to_string())
    }

    /// The largest name behind the numbers, and whether it is a large part of many.
    pub(crate) fn largest_part(&self) -> String {
        match self.top.first() {
            Some(t) if t.share >= LARGE_PART_PCT && !self.is_mostly_unrecorded() => {
                format!("; the largest part is {} ({})", shown(t.name), fmt_pct(Some(t.share)))
            }
            _ => format!(", spread over many operators{}", self.told_part()),
        }
    }

    /// The largest name and its share; empty if that is small.
    pub(crate) fn told_part(&self) -> String {
        let told = self.top.first().filter(|t| t.share >= TOLD_PART_PCT);
        told.map_or_else(String::new, |t| format!(", {} with {}", shown(t.name), fmt_pct(Some(t.share))))
    }

    /// The words of copies of some kind.
    pub(crate) fn copies(&self, what: &str, action: &str) -> CauseWords {
        let time = fmt_ns(self.idle + self.copies);
        let (who, per) = (self.who(), self.trust.per_step());
        CauseWords::new(
            format!("Nothing else runs during copies {what}{who}"),
            format!("They take {time}{per}"),
            action,
        )
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
    if let Some(function) = built_in(name) {
        return format!("`{function}()`");
    }
    match frame(name) {
        Some((function, place)) => format!("`{function}` ({place})"),
        None => format!("`{}`", in_sentence(&short_name(name))),
    }
}

/// Function and place of a Python frame, `path/file.py(12): function`; the path without its front.
fn frame(name: &str) -> Option<(&str, String)> {
    let (path, line, function) = frame_parts(name)?;
    let file = path.rsplit('/').next().unwrap_or(path);
    Some((function, format!("{file}:{line}")))
}
