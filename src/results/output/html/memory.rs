//! The section on memory: peaks of all ranks, and of the device nearest to its limit the level over time,
//! what holds the peak, and the steps.

use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::overview::{PageRanks, nothing};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::memory::tables::{MemoryContent, MemoryCurve, MemoryPeaks, MemorySteps};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::ratio;
use std::cmp::Reverse;

/// Number of stretches into which the recorded time is divided.
const STRETCHES: i64 = 400;
/// Largest number of devices, holders of one kind, and steps that are listed.
const MOST_DEVICES: usize = 256;
const MOST_HOLDERS: usize = 40;
const MOST_STEPS: usize = 400;

columns! {
    Peak of MemoryPeaks {
        rank, device_type: Text, device, scope: Text, step, peak_bytes: i64, base_bytes: Option<i64>,
        is_relative: bool, reserved_bytes: Option<i64>, unused_max_bytes: Option<i64>, ts_ns: Option<i64>,
        in_step_ns: Option<i64>, phase: Option<Text>, trigger_op: Option<Text>, trigger_site: Option<Text>,
        device_total_bytes: Option<i64>,
    }
}

columns! {
    Level of MemoryCurve {
        rank, device_type: Text, device, ts_ns: Option<i64>, allocated_bytes: i64, reserved_bytes: Option<i64>,
    }
}

columns! {
    Held of MemoryContent {
        rank, device_type: Text, device, moment: Text, step, key_kind: Text, key: Text, count: Option<u64>, bytes: i64,
    }
}

columns! {
    StepLevel of MemorySteps {
        rank, device_type: Text, device, step, step_label, start_bytes: i64, end_bytes: i64, net_bytes: i64,
        max_bytes: i64, survivor_bytes: Option<i64>,
    }
}

table! {
    /// Peaks of devices.
    struct ShownPeaks, ShownPeakRow = "memory_peaks" by "share descending" {
        rank;
        device: Text, "", "device; cpu: the host";
        peak_bytes: i64, "bytes", "highest level";
        share: Option<f64>, "share", "share of the device's memory", "of device";
        base_bytes: i64, "bytes", "level before the recording", "before";
        reserved_bytes: Option<i64>, "bytes", "reserved by the caching allocator at that moment";
        unused_bytes: Option<i64>, "bytes", "largest difference of reserved and allocated",
            "unused at most";
        at_ns: i64, "ns", "time of the peak since the recording of the rank in the charts began";
        in_step_ns: Option<i64>, "ns", "time since the start of its step";
        phase: Option<Text>, "", "forward, backward, optimizer, zero_grad, data or outside";
        trigger: Option<Text>, "", "operator of the allocation that reaches the peak", "reached by";
        site: Option<Text>, "", "line or function of the user's code around it", "at line";
    }
}

table! {
    /// The level of a device by stretch of time.
    struct LevelStretches, LevelStretchRow = "memory_curve" by "start_ns" {
        start_ns: i64, "ns", "start of the stretch, since the recording began", "from";
        lowest_bytes: Option<i64>, "bytes", "lowest level in the stretch";
        highest_bytes: Option<i64>, "bytes", "highest level in the stretch";
        reserved_bytes: Option<i64>, "bytes", "most that is reserved in the stretch";
    }
}

table! {
    /// What holds the peak of a device.
    struct PeakHolders, PeakHolderRow = "memory_content" by "kind, bytes descending" {
        kind: Text, "", "op, line, module or phase", "by";
        holder: Text, "", "`[before window]`: allocated before the recording began";
        count: Option<u64>, "", "allocations that are alive at the peak", "allocations";
        bytes: i64, "bytes", "their size";
    }
}

table! {
    /// The level of a device by step.
    struct LevelSteps, LevelStepRow = "memory_steps" by "start_ns" {
        step: Option<i64>, "", "number in the step's name, or its index";
        start_ns: Option<i64>, "ns", "start of the step, since the recording began", "from";
        start_bytes: i64, "bytes", "level when the step begins";
        max_bytes: i64, "bytes", "highest level in the step", "highest";
        end_bytes: i64, "bytes", "level when it ends";
        net_bytes: i64, "bytes", "the end minus the start";
        survivor_bytes: Option<i64>, "bytes", "allocated in it and alive when the next one ends",
            "survives";
    }
}

/// A peak of the capture, as it is listed.
struct ListedPeak {
    place: PageDevice,
    peak: i64,
    base: i64,
    total: Option<i64>,
    ts: i64,
    reserved: Option<i64>,
    unused: Option<i64>,
    in_step: Option<i64>,
    is_relative: bool,
    texts: [Option<String>; 3],
}

/// A device of a rank.
#[derive(Clone, PartialEq, Eq)]
struct PageDevice {
    rank: u32,
    device_type: String,
    device: Option<i64>,
}

impl PageDevice {
    fn is(&self, rank: u32, device_type: &str, device: Option<i64>) -> bool {
        self.rank == rank && self.device == device && self.device_type == device_type
    }

    fn name(&self) -> String {
        self.device.map_or_else(|| self.device_type.clone(), |id| format!("{}:{id}", self.device_type))
    }
}

/// The section.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut listed: Vec<ListedPeak> = Vec::new();
    let there = results.read::<Peak>(|r| {
        if r.scope == "capture" {
            let texts = [r.phase, r.trigger_op, r.trigger_site].map(|t| t.map(str::to_string));
            listed.push(ListedPeak {
                place: PageDevice { rank: r.rank, device_type: r.device_type.to_string(), device: r.device },
                peak: r.peak_bytes,
                base: r.base_bytes.unwrap_or(0),
                total: r.device_total_bytes.filter(|total| *total > 0),
                ts: r.ts_ns.unwrap_or(0),
                reserved: r.reserved_bytes,
                unused: r.unused_max_bytes,
                in_step: r.in_step_ns,
                is_relative: r.is_relative,
                texts,
            });
        }
    })?;
    let share = |l: &ListedPeak| l.total.map(|total| i128::from(l.peak) * (1 << 20) / i128::from(total));
    listed.sort_by_key(|l| (Reverse(share(l)), l.place.device.is_none(), Reverse(l.peak), l.place.rank));
    let Some(first) = listed.first() else {
        let none = "No memory was recorded: profile_memory=True records it.";
        return Ok(Section::without(if there { nothing(results, none)? } else { missing("memory_peaks") }));
    };
    let mut section = Section::default();
    section.notes.push(format!(
        "The charts show {} of rank {}, of all devices the one nearest to its limit (the largest, where \
         limits are not known).",
        first.place.name(),
        first.place.rank
    ));
    if first.is_relative {
        section.notes.push("The level before the recording is not known: it counts from 0.".to_string());
    }
    let start = ranks.captures.get(&first.place.rank).map_or(first.ts, |c| c.first)
        + ranks.offsets.get(&first.place.rank).copied().unwrap_or(0);
    let length = ranks.captures.get(&first.place.rank).map_or(0, |c| c.last - c.first);
    let section = section
        .with("curve", texts.grid(curve(results, first, start, length)?))
        .with("content", content(results, first, texts)?)
        .with("steps", steps(results, first, start, texts)?)
        .with("peaks", peaks(&listed, start, texts));
    Ok(section)
}

fn peaks(listed: &[ListedPeak], start: i64, texts: &mut Texts) -> Grid {
    let mut peaks = ShownPeaks::default();
    for l in listed.iter().take(MOST_DEVICES) {
        let [phase, trigger, site] = l.texts.each_ref().map(Option::as_deref);
        peaks.push(ShownPeakRow {
            rank: l.place.rank,
            device: &l.place.name(),
            peak_bytes: l.peak,
            share: l.total.and_then(|total| ratio(l.peak, total)),
            base_bytes: l.base,
            reserved_bytes: l.reserved,
            unused_bytes: l.unused,
            at_ns: l.ts.saturating_sub(start),
            in_step_ns: l.in_step,
            phase,
            trigger,
            site,
        });
    }
    let mut grid = texts.grid(peaks);
    grid.leave_out(listed.len().saturating_sub(MOST_DEVICES), Vec::new());
    grid
}

/// The lowest and highest level of each stretch of time. A level holds until the next record.
fn curve(
    results: &Results,
    of: &ListedPeak,
    start: i64,
    length: i64,
) -> Result<LevelStretches, ResultsError> {
    let width = (length.max(1) as u64).div_ceil(STRETCHES as u64) as i64;
    let used = (length / width.max(1) + 1).clamp(1, STRETCHES);
    let mut ends: Vec<Option<(i64, i64)>> = vec![None; used as usize];
    let mut reserved: Vec<Option<i64>> = vec![None; used as usize];
    let mut carried = (of.base, None);
    let mut at = 0i64;
    let mut reach = |from: i64, until: i64, (level, held): (i64, Option<i64>)| {
        for i in from.max(0)..=until.min(used - 1) {
            let Ok(i) = usize::try_from(i) else { continue };
            if let (Some(e), Some(r)) = (ends.get_mut(i), reserved.get_mut(i)) {
                *e = Some(e.map_or((level, level), |(a, b)| (a.min(level), b.max(level))));
                *r = (*r).max(held);
            }
        }
    };
    results.read::<Level>(|r| {
        let Some(ts) = r.ts_ns.filter(|_| of.place.is(r.rank, r.device_type, r.device)) else { return };
        let now = ts.saturating_sub(start).div_euclid(width.max(1)).clamp(0, used - 1);
        // The level before the record holds up to its stretch.
        reach(at, now, carried);
        carried = (r.allocated_bytes, r.reserved_bytes);
        at = now;
        reach(now, now, carried);
    })?;
    reach(at, used - 1, carried);
    let mut stretches = LevelStretches::default();
    for (i, (e, reserved_bytes)) in (0i64..).zip(ends.iter().zip(reserved)) {
        stretches.push(LevelStretchRow {
            start_ns: i * width,
            lowest_bytes: e.map(|e| e.0),
            highest_bytes: e.map(|e| e.1),
            reserved_bytes,
        });
    }
    Ok(stretches)
}

/// What holds the peak, by each kind of holder.
fn content(results: &Results, of: &ListedPeak, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut rows: Vec<(String, String, Option<u64>, i64)> = Vec::new();
    results.read::<Held>(|r| {
        if r.moment == "peak" && r.step.is_none() && of.place.is(r.rank, r.device_type, r.device) {
            rows.push((r.key_kind.to_string(), r.key.to_string(), r.count, r.bytes));
        }
    })?;
    let (mut holders, mut left_out) = (PeakHolders::default(), 0);
    for of_kind in rows.chunk_by(|a, b| a.0 == b.0) {
        for (kind, holder, count, bytes) in of_kind.iter().take(MOST_HOLDERS) {
            holders.push(PeakHolderRow { kind, holder, count: *count, bytes: *bytes });
        }
        left_out += of_kind.len().saturating_sub(MOST_HOLDERS);
    }
    let mut grid = texts.grid(holders);
    grid.leave_out(left_out, Vec::new());
    Ok(grid)
}

fn steps(results: &Results, of: &ListedPeak, start: i64, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut starts: Vec<(Option<u32>, i64)> = Vec::new();
    results.read::<Peak>(|r| {
        if r.scope == "step" && of.place.is(r.rank, r.device_type, r.device) {
            starts.extend(
                r.ts_ns
                    .zip(r.in_step_ns)
                    .map(|(ts, inside)| (r.step, ts.saturating_sub(inside).saturating_sub(start))),
            );
        }
    })?;
    let (mut steps, mut listed, mut left_out) = (LevelSteps::default(), 0, 0);
    results.read::<StepLevel>(|r| {
        if !of.place.is(r.rank, r.device_type, r.device) {
            return;
        }
        if listed >= MOST_STEPS {
            left_out += 1;
            return;
        }
        listed += 1;
        steps.push(LevelStepRow {
            step: r.step_label.or(r.step.map(i64::from)),
            start_ns: starts.iter().find(|s| s.0 == r.step).map(|s| s.1),
            start_bytes: r.start_bytes,
            max_bytes: r.max_bytes,
            end_bytes: r.end_bytes,
            net_bytes: r.net_bytes,
            survivor_bytes: r.survivor_bytes,
        });
    })?;
    let mut grid = texts.grid(steps);
    grid.leave_out(left_out, Vec::new());
    Ok(grid)
}
