//! Converts the times of a rank for analysis: adds the base time, and drops or clips impossible ones.

use hta_base::health::Counter;
use hta_trace::category::Class;
use hta_trace::events::ColumnsBuilder;
use hta_trace::meta::{Meta, TimeEra};

/// Times below this cannot be since 1970, ns (trace-format, section 3, rule 5).
const EPOCH_MIN_NS: i64 = 100_000_000_000_000_000;

/// Largest distance of a start from 1970, ns (146 years), so that differences fit 64 bits.
const FARTHEST: i64 = 1 << 62;

/// Longest plausible event, ns (30 days); used if no record window is known.
const LONGEST: i64 = 30 * 86_400 * 1_000_000_000;

/// Drops starts that cannot be, adds the base time, tells the era, clips durations beyond the record window.
pub(super) fn settle_times(columns: &mut ColumnsBuilder, meta: &mut Meta) {
    let base = meta.base_ns.unwrap_or(0);
    let fits = |t: &i64| t.checked_add(base).is_some_and(|t| t.unsigned_abs() <= FARTHEST.unsigned_abs());
    let kept: Vec<bool> =
        columns.ts.iter().map(|t| t.unsigned_abs() <= FARTHEST.unsigned_abs() && fits(t)).collect();
    let lost = kept.iter().filter(|k| !**k).count() as u64;
    columns.health.add(Counter::TimeOverflow, lost, None, "");
    columns.retain(&kept);
    let start = columns.window_start.or_else(|| columns.ts.iter().copied().min());
    let span = start.zip(columns.window_end).filter(|(s, e)| e > s);
    let mut overflow = 0;
    let is_noise: Vec<bool> = columns.categories.iter().map(|c| c.class == Class::Noise).collect();
    for (row, (ts, cat)) in columns.ts.iter().zip(&columns.cat).enumerate() {
        let dur = columns.dur[row];
        // the profiler's own span is the window, and a little more
        let window = span.filter(|_| is_noise.get(usize::from(*cat)) != Some(&true));
        if dur > window.map_or(LONGEST, |(s, e)| e.saturating_sub(s).min(LONGEST)) {
            // Cut only what exceeds the end of the window.
            let end = span.map_or(*ts, |(_, e)| e);
            let clipped = (end.saturating_sub(*ts)).clamp(0, dur);
            overflow += u64::from(clipped != dur);
            columns.dur[row] = clipped;
        }
    }
    columns.health.add(Counter::DurOverflow, overflow, None, "");
    // Impossible times do not extend the capture.
    let possible = |t: i64| t.unsigned_abs() <= FARTHEST.unsigned_abs() && fits(&t);
    columns.unloaded = columns.unloaded.filter(|(s, e)| possible(*s) && possible(*e));
    let held = |c: &ColumnsBuilder| c.memory.len() + c.counter_samples.len();
    let records = held(columns);
    columns.memory.retain(|m| possible(m.ts));
    columns.counter_samples.retain(|s| possible(s.ts));
    let lost = (records - held(columns)) as u64;
    columns.health.add(Counter::TimeOverflow, lost, None, "");
    meta.era = match meta.base_ns {
        Some(_) => TimeEra::Based,
        None if columns.ts.iter().all(|t| t.unsigned_abs() < EPOCH_MIN_NS.unsigned_abs()) => {
            columns.health.add(Counter::BaseMissing, 1, None, "");
            TimeEra::Unknown
        }
        None if columns.has_fraction => TimeEra::EpochDecimal,
        None => TimeEra::EpochInteger,
    };
    if let Some(base) = meta.base_ns {
        for ts in &mut columns.ts {
            *ts = ts.saturating_add(base);
        }
        for flow in &mut columns.flows {
            flow.ts = flow.ts.saturating_add(base);
        }
        for record in &mut columns.memory {
            record.ts = record.ts.saturating_add(base);
        }
        for sample in &mut columns.counter_samples {
            sample.ts = sample.ts.saturating_add(base);
        }
        columns.unloaded = columns.unloaded.map(|(s, e)| (s.saturating_add(base), e.saturating_add(base)));
        columns.window_start = columns.window_start.map(|t| t.saturating_add(base));
        columns.window_end = columns.window_end.map(|t| t.saturating_add(base));
    }
}
