//! Calls of the API in an export of nsys.

use super::database::{Database, int};
use super::nsys_export::{CALLS, Export, place};
use super::rows::{ROWS_BETWEEN_CHECKS, Rows};
use crate::error::ReadError;
use hashbrown::{HashMap, HashSet};
use hta_base::health::Counter;
use hta_trace::strings::StrId;

/// Class of a runtime call that surrounds another row of the same call, in exports of schema 2.
const OUTER_CALL: i64 = 67;

/// A call of the API.
struct NsysCall {
    span: (Option<i64>, Option<i64>),
    is_driver: bool,
    thread: i64,
    correlation: Option<i64>,
    name: StrId,
}

pub(super) fn calls(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    let mut outer: Vec<NsysCall> = Vec::new();
    let mut shown: HashMap<StrId, StrId> = HashMap::new();
    let columns = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId"];
    database.each_with(CALLS, columns, export.only("globalTid"), |r| {
        let Some(thread) = int(r, 3).filter(|id| export.is_mine(Some(*id))) else { return };
        let rows = &mut export.rows;
        let recorded = rows.named(&[int(r, 5)]);
        let name = *shown.entry(recorded).or_insert_with(|| {
            let name = without_version(rows.columns.strings.get(recorded)).to_string();
            rows.columns.strings.intern(&name)
        });
        let class = int(r, 2);
        let is_driver = class == Some(1);
        let call = NsysCall { span: (int(r, 0), int(r, 1)), is_driver, thread, correlation: int(r, 4), name };
        if class == Some(OUTER_CALL) {
            // Each has a place in a set besides.
            let bytes = outer.capacity() * (size_of::<NsysCall>() + size_of::<(i64, Option<i64>)>() * 2);
            if !outer.len().is_multiple_of(ROWS_BETWEEN_CHECKS) || rows.hold_waiting(bytes) {
                outer.push(call);
            }
        } else {
            call.push(rows);
        }
    })?;
    let alone = alone(database, export, &outer)?;
    for call in outer {
        if alone.contains(&(call.thread, call.correlation)) {
            call.push(&mut export.rows);
        } else {
            export.rows.columns.health.add(Counter::CallTwice, 1, None, "");
        }
    }
    export.rows.hold_waiting(0);
    Ok(())
}

/// Threads and correlation ids of those calls that surround no other row of the same call. Most exports have
/// no call that could, and are not read again.
fn alone(
    database: &Database,
    export: &Export,
    outer: &[NsysCall],
) -> Result<HashSet<(i64, Option<i64>)>, ReadError> {
    let mut alone: HashSet<(i64, Option<i64>)> = outer.iter().map(|c| (c.thread, c.correlation)).collect();
    if alone.is_empty() {
        return Ok(alone);
    }
    let columns = ["eventClass", "globalTid", "correlationId"];
    database.each_with(CALLS, columns, export.only("globalTid"), |r| {
        if let Some(thread) = int(r, 1).filter(|_| int(r, 0) != Some(OUTER_CALL)) {
            alone.remove(&(thread, int(r, 2)));
        }
    })?;
    Ok(alone)
}

impl NsysCall {
    fn push(&self, rows: &mut Rows) {
        rows.call(self.is_driver, self.name, self.span, &place(self.thread), self.correlation);
    }
}

/// The name without the version of the API: `cudaLaunchKernel_v7000`; `cuMemcpyDtoH_v2` is another function.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((name, version)) if version.len() >= 4 && version.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_no_part_of_names() {
        let names = ["cudaLaunchKernel_v7000", "cuMemcpyDtoH_v2", "cudaFree", "x_v12a45"];
        assert_eq!(
            names.map(without_version),
            ["cudaLaunchKernel", "cuMemcpyDtoH_v2", "cudaFree", "x_v12a45"]
        );
    }
}
