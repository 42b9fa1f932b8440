//! The rows of `memory_operators`: what operators allocate and free, themselves and with the operators
//! inside.
//!
//! A record counts once for each name around it, so an operator inside another one of its name adds nothing
//! to the totals of the name.

use crate::memory::TRACE;
use crate::memory::device::RecordedDevice;
use crate::memory::tables::{MemoryOperatorRow, MemoryOperators};
use hashbrown::HashMap;
use hta_facts::by_owner::NO_OPERATOR;
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Sums of some records.
#[derive(Debug, Clone, Copy, Default)]
struct RecordSums {
    net: i64,
    alloc: i64,
    count: u64,
}

impl RecordSums {
    fn add(&mut self, bytes: i64) {
        self.net = self.net.saturating_add(bytes);
        if bytes > 0 {
            self.alloc = self.alloc.saturating_add(bytes);
            self.count += 1;
        }
    }
}

/// Number of calls by name.
pub(crate) fn calls(trace: &RankTrace) -> HashMap<StrId, u64> {
    let mut calls = HashMap::new();
    for row in (0..trace.classes.len()).filter(|r| trace.classes[*r] == Class::HostOp) {
        *calls.entry(trace.columns.name(row)).or_default() += 1;
    }
    calls
}

pub(crate) fn add(
    table: &mut MemoryOperators,
    trace: &RankTrace,
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    calls: &HashMap<StrId, u64>,
) {
    // Own sums and totals by name; `None` for what is outside any operator.
    let mut by_name: BTreeMap<Option<StrId>, (RecordSums, RecordSums)> = BTreeMap::new();
    let mut around: Vec<StrId> = Vec::new();
    for (record, place) in memory.records.iter().zip(&memory.places) {
        let Some(op) = place.op else {
            let (own, total) = by_name.entry(None).or_default();
            own.add(record.bytes);
            total.add(record.bytes);
            continue;
        };
        let own = trace.columns.name(op as usize);
        by_name.entry(Some(own)).or_default().0.add(record.bytes);
        around.clear();
        around.extend(places.chain(op).map(|row| trace.columns.name(row as usize)));
        around.sort_unstable();
        around.dedup();
        for name in &around {
            by_name.entry(Some(*name)).or_default().1.add(record.bytes);
        }
    }
    let mut rows: Vec<_> = by_name
        .iter()
        .map(|(name, sums)| (name.map_or(NO_OPERATOR, |n| trace.text(n)), name, sums))
        .collect();
    rows.sort_by_key(|(text, _, (own, _))| (Reverse(own.alloc), *text));
    for (text, name, (own, total)) in rows {
        table.push(MemoryOperatorRow {
            rank: memory.rank,
            device_type: &memory.device_type,
            device: memory.device,
            source: TRACE,
            name: text,
            count: name.map(|n| calls.get(&n).copied().unwrap_or(0)),
            net_bytes: total.net,
            alloc_bytes: total.alloc,
            alloc_count: total.count,
            net_self_bytes: own.net,
            alloc_self_bytes: own.alloc,
            alloc_self_count: own.count,
        });
    }
}
