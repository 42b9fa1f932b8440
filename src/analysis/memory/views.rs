//! What is printed of memory, of traces and of dumps.

use crate::memory::report::{CATEGORIES, EVENTS, HOLDERS, RESERVED};
use crate::memory::snapshot::tables::{MemoryAllocated, MemoryCategories, MemoryReserved};
use crate::memory::tables::{
    MemoryContent, MemoryEvents, MemoryHighest, MemoryLeaks, MemoryOperators, MemorySteps,
};
use crate::memory::{MIN_BYTES, TRACE};
use hta_base::table::view::{Keep, Note, RowTest, TableError, ViewScope, ViewSpec};

/// A device as PyTorch writes it: `cuda:0`, and `cpu` for the host.
const DEVICE: &[(&str, &str, &str)] = &[("device_type", ":", "device")];
const PLACE: &[&str] = &["rank", "device_type", "device"];
const DETAILED: Keep = Keep::Made(PLACE, is_detailed);
const ALSO: &[&hta_base::table::schema::TableSpec] = &[MemoryHighest::SPEC];

pub(crate) const VIEWS: [ViewSpec; 10] = [
    ViewSpec {
        title: "Highest level of memory",
        columns: &[
            "rank",
            "device_type",
            "peak_bytes",
            "total_pct?",
            "reserved_max_bytes?",
            "reserved_bytes?",
            "unused_bytes?",
            "unused_max_bytes?",
            "active_bytes?",
            "split_bytes?",
            "split_pct?",
            "in_step_ns?",
            "phase?",
        ],
        joined: DEVICE,
        notes: &[
            Note::If("total_pct", "share: of the device's memory"),
            Note::If(
                "unused_max_bytes",
                "unused: reserved by the caching allocator but not allocated, at the peak and at most; \
                 blocks that wait for their next use are normal",
            ),
            Note::If(
                "is_relative",
                "the file has no totals: levels count from 0 at the start of the recording, and what was \
                 allocated before is not known",
            ),
        ],
        ..ViewSpec::of(MemoryHighest::SPEC)
    },
    ViewSpec {
        title: HOLDERS,
        also: ALSO,
        columns: &["rank?", "device_type", "key", "count", "bytes", "pct"],
        keep: &[Keep::Made(
            &["rank", "device_type", "device", "key_kind", "moment", "step", "bytes"],
            is_chosen,
        )],
        joined: DEVICE,
        each: PLACE,
        sums: &["bytes"],
        ..ViewSpec::of(MemoryContent::SPEC)
    },
    ViewSpec {
        title: RESERVED,
        also: ALSO,
        columns: &["rank?", "device_type", "part", "bytes", "pct", "meaning"],
        keep: &[DETAILED],
        joined: DEVICE,
        is_whole: true,
        ..ViewSpec::of(MemoryReserved::SPEC)
    },
    ViewSpec {
        title: "Allocated over the history",
        also: ALSO,
        columns: &["rank?", "device_type", "key", "count", "bytes"],
        shares: &[("bytes", "share")],
        keep: &[Keep::Made(&["rank", "device_type", "device", "key_kind", "bytes"], is_chosen)],
        joined: DEVICE,
        each: PLACE,
        notes: &[Note::Sum("bytes", "", "allocated over the history")],
        sums: &["bytes"],
        ..ViewSpec::of(MemoryAllocated::SPEC)
    },
    ViewSpec {
        title: "Allocated by phase",
        also: ALSO,
        columns: &["rank?", "device_type", "key", "count", "bytes"],
        shares: &[("bytes", "share")],
        keep: &[DETAILED, Keep::Is("key_kind", &["phase"])],
        joined: DEVICE,
        each: PLACE,
        is_whole: true,
        sums: &["bytes"],
        ..ViewSpec::of(MemoryAllocated::SPEC)
    },
    ViewSpec {
        title: "Operators by what they allocate",
        also: ALSO,
        columns: &[
            "rank?",
            "device_type",
            "name",
            "count",
            "alloc_self_count",
            "alloc_self_bytes",
            "net_self_bytes",
            "alloc_bytes",
        ],
        keep: &[DETAILED, Keep::Positive("alloc_self_bytes")],
        joined: DEVICE,
        ..ViewSpec::of(MemoryOperators::SPEC)
    },
    ViewSpec {
        title: "Memory by step",
        also: ALSO,
        columns: &[
            "rank?",
            "device_type",
            "step",
            "start_bytes",
            "max_bytes",
            "end_bytes",
            "net_bytes",
            "survivor_bytes",
        ],
        keep: &[DETAILED],
        joined: DEVICE,
        notes: &[Note::Text("survives: allocated in the step and alive when the next one ends")],
        ..ViewSpec::of(MemorySteps::SPEC)
    },
    ViewSpec {
        title: "Alive when the next step ends, or at the end of the history",
        also: ALSO,
        columns: &[
            "rank?",
            "device_type",
            "site",
            "key_kind",
            "groups",
            "count",
            "bytes",
            "bytes_per_group",
            "is_recurring",
        ],
        keep: &[DETAILED, Keep::Made(&["source", "is_recurring"], is_told)],
        joined: DEVICE,
        each: PLACE,
        notes: &[Note::Text("groups: steps, or parts of the history, with such allocations")],
        ..ViewSpec::of(MemoryLeaks::SPEC)
    },
    ViewSpec {
        title: EVENTS,
        also: ALSO,
        columns: &["rank?", "device_type", "kind", "seq", "bytes", "reserved_bytes", "site"],
        keep: &[
            DETAILED,
            Keep::Known("seq"),
            Keep::Is("kind", &["oom", "retry", "empty_cache", "empty_cache or retry", "annotation"]),
        ],
        joined: DEVICE,
        each: PLACE,
        ..ViewSpec::of(MemoryEvents::SPEC)
    },
    ViewSpec {
        title: CATEGORIES,
        columns: &["rank?", "category", "bytes", "max_bytes"],
        shares: &[("bytes", "share")],
        each: &["rank"],
        is_whole: true,
        notes: &[Note::Sum("bytes", "", "in all")],
        ..ViewSpec::of(MemoryCategories::SPEC)
    },
];

/// A device whose memory is printed in detail, and what is printed of it.
struct DetailedDevice {
    rank: i64,
    device_type: String,
    device: Option<i64>,
    key_kind: String,
    moment: String,
    step: Option<i64>,
}

fn detailed(scope: &ViewScope) -> Result<Vec<DetailedDevice>, TableError> {
    let mut all = Vec::new();
    scope.each::<MemoryHighest>(|r| {
        if r.is_detailed {
            all.push(DetailedDevice {
                rank: i64::from(r.rank),
                device_type: r.device_type.to_string(),
                device: r.device,
                key_kind: r.key_kind.to_string(),
                moment: r.moment.to_string(),
                step: r.step.map(i64::from),
            });
        }
    })?;
    Ok(all)
}

fn is_detailed(scope: &ViewScope) -> Result<RowTest, TableError> {
    let all = detailed(scope)?;
    Ok(Box::new(move |c, row| {
        all.iter().any(|d| {
            (Some(d.rank), d.device) == (c[0].int(row), c[2].int(row))
                && c[1].text(row) == Some(d.device_type.as_str())
        })
    }))
}

/// Holders of at least the bytes that are asked for, by the key and at the moment that are printed.
fn is_chosen(scope: &ViewScope) -> Result<RowTest, TableError> {
    let (all, is_detailed) = (detailed(scope)?, is_detailed(scope)?);
    let least = (scope.option)(MIN_BYTES.flag).and_then(|text| text.parse().ok()).unwrap_or(0i64);
    Ok(Box::new(move |c, row| {
        let is_moment = |d: &DetailedDevice| match c {
            [_, _, _, _, moment, step, _] => {
                moment.text(row) == Some(d.moment.as_str()) && step.int(row) == d.step
            }
            _ => true,
        };
        let is_of = |d: &&DetailedDevice| {
            (Some(d.rank), d.device) == (c[0].int(row), c[2].int(row))
                && c[3].text(row) == Some(d.key_kind.as_str())
        };
        is_detailed(c, row)
            && all.iter().filter(is_of).any(is_moment)
            && c.last().and_then(|c| c.int(row)).is_some_and(|bytes| bytes >= least)
    }))
}

/// Of traces only sites that come again; of snapshots all.
fn is_told(_: &ViewScope) -> Result<RowTest, TableError> {
    Ok(Box::new(|c, row| c[0].text(row) != Some(TRACE) || c[1].int(row) == Some(1)))
}
