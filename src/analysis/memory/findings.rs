//! What is said of the memory of all ranks: growth from step to step, and ranks that differ.

use crate::api::{Partial, rows};
use crate::memory::report::{ReportedDevice, size};
use crate::memory::tables::{MemoryLeakRow, MemoryLeaks, MemoryPeaks, MemoryStepRow, MemorySteps};
use hta_base::order_statistics::median;
use hta_base::units::{fmt_count, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_base::wording::names::clip;
use hta_base::wording::ranks::ranks_named;
use std::collections::BTreeMap;

/// Fewest full steps, all of which must grow, for a leak.
const GROWING_STEPS: usize = 3;
/// Smallest growth of the median step that is a leak: bytes, and part of the peak (one in ...).
const GROWTH_MIN_BYTES: i64 = 1 << 20;
const GROWTH_MIN_PART: i64 = 1000;
/// Smallest distance of a rank's peak from the median of the ranks that is told, percent.
const DIFFERS_FROM_PCT: f64 = 10.0;

/// A device whose level grows in each of the last full steps.
pub struct GrowingDevice<'a> {
    pub place: ReportedDevice<'a>,
    /// Number of the steps at the end that grow.
    steps: usize,
    /// Growth of the median one, bytes.
    pub bytes: i64,
    /// Level after the last of them.
    level: i64,
    total: Option<i64>,
}

impl GrowingDevice<'_> {
    pub fn sentence(&self, partials: &[Partial]) -> String {
        let left = self.total.map(|total| total.saturating_sub(self.level).max(0) / self.bytes.max(1));
        let until = left.map_or(String::new(), |n| {
            format!("; the device is full in about {} steps", fmt_count(n as u64))
        });
        let site = self.site(partials).map_or(String::new(), |site| {
            format!(
                "; most of what outlives its step is allocated at `{}`: {} a step",
                clip(site.site, 60),
                size(site.bytes_per_group)
            )
        });
        format!(
            "Memory on {} grows in each of the last {}, by {} in the median one{site}{until}",
            self.place.shown(true),
            plural(self.steps, "full step"),
            size(self.bytes)
        )
    }

    /// The site of most survivors: a line if there are any, else an operator.
    pub fn site<'a>(&self, partials: &'a [Partial]) -> Option<MemoryLeakRow<'a>> {
        let of_device = |kind: &'static str| {
            rows::<MemoryLeaks>(partials)
                .filter(move |r| {
                    r.key_kind == kind && r.is_recurring && self.place.is(r.rank, r.device_type, r.device)
                })
                .find(|r| !r.site.starts_with('['))
        };
        of_device("line").or_else(|| of_device("op"))
    }
}

/// The leaks, the one that grows fastest first.
pub fn leaks(partials: &[Partial]) -> Vec<GrowingDevice<'_>> {
    let mut by_place: BTreeMap<ReportedDevice, Vec<MemoryStepRow>> = BTreeMap::new();
    for row in rows::<MemorySteps>(partials) {
        by_place
            .entry(ReportedDevice { rank: row.rank, device_type: row.device_type, device: row.device })
            .or_default()
            .push(row);
    }
    let mut found: Vec<GrowingDevice> = Vec::new();
    for peak in rows::<MemoryPeaks>(partials).filter(|r| r.scope == "capture") {
        let place = ReportedDevice::of(&peak);
        let Some(steps) = by_place.get(&place) else { continue };
        // The first step of the recording makes state that stays.
        let full: Vec<&MemoryStepRow> =
            steps.iter().filter(|s| s.step.is_some_and(|s| s > 0) && s.is_partial == Some(false)).collect();
        let mut growing: Vec<i64> =
            full.iter().rev().map(|s| s.net_bytes).take_while(|net| *net > 0).collect();
        if growing.len() < GROWING_STEPS {
            continue;
        }
        let usual = median(&mut growing).unwrap_or(0);
        let of_peak = if peak.is_relative { 0 } else { peak.peak_bytes / GROWTH_MIN_PART };
        if usual > GROWTH_MIN_BYTES.max(of_peak) {
            found.push(GrowingDevice {
                place,
                steps: growing.len(),
                bytes: usual,
                level: full.last().map_or(0, |s| s.end_bytes),
                total: peak.device_total_bytes.filter(|_| !peak.is_relative),
            });
        }
    }
    found.sort_by_key(|l| std::cmp::Reverse(l.bytes));
    found
}

/// Ranks whose peak differs from the median of those with the same type of device.
pub(crate) fn different(partials: &[Partial]) -> Vec<String> {
    let mut by_type: BTreeMap<&str, BTreeMap<u32, i64>> = BTreeMap::new();
    for row in rows::<MemoryPeaks>(partials).filter(|r| r.scope == "capture" && !r.is_relative) {
        let most = by_type.entry(row.device_type).or_default().entry(row.rank).or_default();
        *most = row.peak_bytes.max(*most);
    }
    let mut told = Vec::new();
    for (device_type, peaks) in by_type.into_iter().filter(|(_, peaks)| peaks.len() >= 3) {
        let usual = median(&mut peaks.values().copied().collect::<Vec<i64>>()).unwrap_or(0);
        let distance =
            |bytes: i64| percent(bytes.saturating_sub(usual).saturating_abs(), usual).unwrap_or(0.0);
        let ranks: Vec<u32> = peaks
            .iter()
            .filter(|(_, bytes)| distance(**bytes) > DIFFERS_FROM_PCT)
            .map(|(rank, _)| *rank)
            .collect();
        let farthest = peaks.iter().max_by_key(|(rank, bytes)| {
            (bytes.saturating_sub(usual).saturating_abs(), std::cmp::Reverse(**rank))
        });
        if let (Some((rank, bytes)), false) = (farthest, ranks.is_empty()) {
            let verb = if ranks.len() == 1 { "differs" } else { "differ" };
            let sentence = format!(
                "The peak of {} {verb} by more than {} from the median of the ranks ({} of {device_type} \
                 memory): rank {rank} has {}",
                ranks_named(&ranks),
                fmt_pct(Some(DIFFERS_FROM_PCT)),
                size(usual),
                size(*bytes)
            );
            told.push(sentence);
        }
    }
    told
}
