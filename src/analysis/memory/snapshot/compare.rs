//! Compares two memory snapshots, device by device: the peak, and what holds it by line.

use super::content::{ContentKey, ContentPart};
use super::device::{device_words, type_of};
use super::tables::{MemoryDeviceRow, MemoryDevices, MemoryDiff, MemoryDiffRow};
use super::timeline::TIMELINE;
use crate::api::Output;
use crate::memory::report::size;
use crate::memory::tables::{MemoryContent, MemoryContentRow};
use hta_base::table::schema::{Batch, Table};
use hta_base::table::view::{ViewScope, ViewSpec};
use hta_base::units::{fmt_count, fmt_signed_pct, percent};
use hta_trace::memory_moment::MemoryMoment;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A change below this percentage is none.
const LEAST_CHANGE_PCT: f64 = 1.0;

/// Number of lines in the sentence of a device.
const NAMED: usize = 2;

/// What is compared of one device of a snapshot.
struct ComparedDevice {
    rank: u32,
    device: Option<i64>,
    device_type: &'static str,
    name: String,
    moment: MemoryMoment,
    /// Bytes by line at that moment.
    parts: Vec<ContentPart>,
    reserved: i64,
    /// Whether the first entries of the history are missing, so that the level is at least this.
    is_bound: bool,
}

/// Whether the tables of dumps are of memory timelines, which are not compared.
pub fn has_timelines(tables: &[Batch]) -> bool {
    rows_of::<MemoryDevices>(tables).any(|device| device.source == TIMELINE)
}

fn rows_of<T: Table>(tables: &[Batch]) -> impl Iterator<Item = T::Row<'_>> {
    tables.iter().filter(|b| b.spec.name == T::SPEC.name).flat_map(T::rows)
}

/// The devices in the tables of a set of snapshots: each at its peak; without a history at the end.
fn compared(tables: &[Batch]) -> Vec<ComparedDevice> {
    let device = |row: MemoryDeviceRow| {
        let moment = if row.peak_bytes.is_some() { MemoryMoment::Peak } else { MemoryMoment::End };
        let at = moment.name();
        let held = rows_of::<MemoryContent>(tables).filter(|r: &MemoryContentRow| {
            (r.rank, r.device_type, r.device) == (row.rank, row.device_type, row.device)
                && r.key_kind == ContentKey::Line.name()
                && r.moment == at
        });
        ComparedDevice {
            rank: row.rank,
            device: row.device,
            device_type: type_of(row.device),
            name: device_words(row.device),
            moment,
            parts: held
                .map(|r| ContentPart { key: r.key.to_string(), count: r.count.unwrap_or(0), bytes: r.bytes })
                .collect(),
            reserved: row.reserved_max_bytes.or(row.reserved_bytes).unwrap_or(0),
            is_bound: row.is_bound,
        }
    };
    rows_of::<MemoryDevices>(tables).map(device).collect()
}

impl ComparedDevice {
    fn bytes(&self) -> i64 {
        self.parts.iter().map(|p| p.bytes).sum()
    }
}

/// Bytes and allocations of one line on both sides.
struct LineChange<'a> {
    line: &'a str,
    bytes: [i64; 2],
    count: [u64; 2],
}

impl LineChange<'_> {
    fn delta(&self) -> i64 {
        self.bytes[1] - self.bytes[0]
    }
}

/// The lines of both sides, the largest change first.
fn lines<'a>(sides: [&'a ComparedDevice; 2]) -> Vec<LineChange<'a>> {
    let mut by_line: BTreeMap<&str, LineChange> = BTreeMap::new();
    for (side, device) in sides.into_iter().enumerate() {
        for part in &device.parts {
            let line = part.key.as_str();
            let of = by_line.entry(line).or_insert(LineChange { line, bytes: [0; 2], count: [0; 2] });
            of.bytes[side] += part.bytes;
            of.count[side] += part.count;
        }
    }
    let mut all: Vec<LineChange> = by_line.into_values().collect();
    all.sort_by_key(|l| (Reverse(l.delta().abs()), l.line));
    all
}

fn signed(bytes: i64) -> String {
    if bytes > 0 { format!("+{}", size(bytes)) } else { size(bytes) }
}

/// The comparison of the tables of two sets of snapshots. Devices that only one of them has are named.
pub fn compare(base: &[Batch], test: &[Batch], top: usize) -> Output {
    compare_devices(&compared(base), &compared(test), top)
}

fn compare_devices(base: &[ComparedDevice], test: &[ComparedDevice], top: usize) -> Output {
    let key = |d: &ComparedDevice| (d.rank, d.device.is_none(), d.device);
    let mut notes: Vec<String> = Vec::new();
    let mut out = Output::default();
    let mut table = MemoryDiff::default();
    for before in base {
        let Some(after) = test.iter().find(|t| key(t) == key(before)) else { continue };
        if before.moment != after.moment {
            notes.push(format!(
                "rank {}, {}: only one side has a history, so its peak has no counterpart: record both with \
                 torch.cuda.memory._record_memory_history()",
                before.rank, before.name
            ));
            continue;
        }
        let changes = lines([before, after]);
        for line in &changes {
            table.push(MemoryDiffRow {
                rank: before.rank,
                device_type: before.device_type,
                device: before.device,
                moment: &before.moment.name(),
                site: line.line,
                base_count: line.count[0],
                test_count: line.count[1],
                base_bytes: line.bytes[0],
                test_bytes: line.bytes[1],
                delta_bytes: line.delta(),
            });
        }
        out.sentences.push(sentence(before, after, &changes));
        notes.push(format!(
            "rank {}, {}: most reserved: {} before, {} after",
            before.rank,
            before.name,
            size(before.reserved),
            size(after.reserved)
        ));
    }
    let only = |side: &str, of: &[ComparedDevice], other: &[ComparedDevice]| -> Vec<String> {
        let alone = of.iter().filter(|d| !other.iter().any(|o| key(o) == key(d)));
        alone.map(|d| format!("only in {side}: rank {}, {}, {}", d.rank, d.name, size(d.bytes()))).collect()
    };
    notes.extend([only("base", base, test), only("test", test, base)].concat());
    out.tables.push(table.finish());
    let scope =
        ViewScope { tables: &out.tables, top, of_steps: false, is_one_rank: false, option: &|_| None };
    // The table is in memory, so that it cannot be damaged.
    let mut view = CHANGES.rows(&scope).ok().flatten().unwrap_or_default();
    view.notes.extend(notes);
    out.shown.push(view);
    out
}

fn sentence(before: &ComparedDevice, after: &ComparedDevice, changes: &[LineChange]) -> String {
    let least = |d: &ComparedDevice| if d.is_bound { "at least " } else { "" };
    let what = match before.moment {
        MemoryMoment::Peak => "the peak",
        _ => "what is held",
    };
    let delta = after.bytes() - before.bytes();
    let named: Vec<String> = changes
        .iter()
        .filter(|l: &&LineChange| l.delta() != 0)
        .take(NAMED)
        .map(|l| {
            let (exact, size) = (fmt_count(l.delta().unsigned_abs()), signed(l.delta()));
            format!("{} {size} ({exact} bytes)", l.line)
        })
        .collect();
    // Changes of lines may cancel out.
    let holds_most =
        |l: &LineChange| l.delta().signum() == delta.signum() && l.delta().abs() >= delta.abs() / 2;
    let how = if changes.first().is_some_and(holds_most) { "most of it at" } else { "changed most:" };
    let named = if named.is_empty() { String::new() } else { format!("; {how} {}", named.join(", ")) };
    let overflow = match before.is_bound || after.is_bound {
        true => "; a history overflowed, so that its peak may lie before",
        false => "",
    };
    let sizes = [before, after].map(|side| format!("{}{}", least(side), size(side.bytes())));
    let [was, is] = &sizes;
    let told = match percent(delta, before.bytes()) {
        Some(pct) if pct.abs() < LEAST_CHANGE_PCT && before.is_bound == after.is_bound => {
            format!("is {is}, as before")
        }
        Some(pct) => format!("was {was}, is {is} ({}, {})", signed(delta), fmt_signed_pct(pct)),
        None => format!("was {was}, is {is}"),
    };
    format!("rank {}, {}: {what} {told}{named}{overflow}", before.rank, before.name)
}

const CHANGES: ViewSpec = ViewSpec {
    title: "What holds the memory, before and after",
    columns: &["rank", "device_type", "moment", "site", "base_bytes", "test_bytes", "delta_bytes"],
    joined: &[("device_type", ":", "device")],
    each: &["rank", "device_type", "device"],
    ..ViewSpec::of(MemoryDiff::SPEC)
};

#[cfg(test)]
mod tests {
    use super::*;

    fn device(number: i64, parts: &[(&str, i64)], is_bound: bool) -> ComparedDevice {
        let part =
            |(key, bytes): &(&str, i64)| ContentPart { key: (*key).to_string(), count: 1, bytes: *bytes };
        ComparedDevice {
            rank: 0,
            device: Some(number),
            device_type: "cuda",
            name: format!("device {number}"),
            moment: MemoryMoment::Peak,
            parts: parts.iter().map(part).collect(),
            reserved: 0,
            is_bound,
        }
    }

    #[test]
    fn the_line_whose_bytes_grow_is_named() {
        let base =
            [device(0, &[("a.py:1", 3_000), ("b.py:2", 1_000)], false), device(1, &[("a.py:1", 1)], false)];
        let test = [device(0, &[("a.py:1", 3_000), ("b.py:2", 5_000), ("c.py:3", 10)], false)];
        let out = compare_devices(&base, &test, 5);
        assert_eq!(
            out.sentences,
            ["rank 0, device 0: the peak was 4.00 kB, is 8.01 kB (+4.01 kB, +100.2 %); most of it at \
                 b.py:2 +4.00 kB (4,000 bytes), c.py:3 +10 B (10 bytes)"]
        );
        let view = &out.shown[0];
        let first: Vec<String> = view.columns.iter().zip(&view.rows[0]).map(|(c, v)| c.text(v)).collect();
        assert_eq!(first, ["0", "cuda:0", "peak", "b.py:2", "1.00 kB", "5.00 kB", "4.00 kB"]);
        assert_eq!(view.notes.last().map(String::as_str), Some("only in base: rank 0, device 1, 1 B"));
    }

    #[test]
    fn lines_that_cancel_out_are_not_most_of_the_change() {
        let (base, test) =
            ([device(0, &[("a.py:1", 3_000)], false)], [device(0, &[("b.py:2", 3_001)], false)]);
        let out = compare_devices(&base, &test, 5);
        assert!(out.sentences[0].contains("; most of it at b.py:2 +3.00 kB"));
        let test = [device(0, &[("b.py:2", 2_900), ("c.py:3", 200)], false)];
        let out = compare_devices(&base, &test, 5);
        assert!(out.sentences[0].contains("; changed most: a.py:1 -3.00 kB"));
    }

    #[test]
    fn a_peak_is_not_compared_with_what_is_held_at_the_end() {
        let base = [device(0, &[("a.py:1", 3_000)], false)];
        let mut test = [device(0, &[("a.py:1", 1_000)], false)];
        test[0].moment = MemoryMoment::End;
        let out = compare_devices(&base, &test, 5);
        assert!(out.sentences.is_empty());
        assert!(out.shown[0].notes[0].starts_with("rank 0, device 0: only one side has a history"));
    }

    #[test]
    fn a_peak_of_a_history_that_overflowed_is_at_least_what_is_left() {
        let (base, test) =
            ([device(0, &[("a.py:1", 1_000)], true)], [device(0, &[("a.py:1", 1_000)], false)]);
        let out = compare_devices(&base, &test, 5);
        assert!(out.sentences[0].contains("was at least 1.00 kB, is 1.00 kB (0 B, 0.0 %); a history"));
    }
}
