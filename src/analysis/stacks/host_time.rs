//! The time of threads, by the innermost open event: every instant in which anything is open belongs to one
//! event, even if events overlap.

use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;

/// Calls `give` with the innermost open operator, call or Python frame and its time, for all pieces of time
/// of all threads; first with their lanes.
pub(crate) fn each_host_piece(trace: &RankTrace, mut give: impl FnMut(u32, u32, Ns)) {
    let counts =
        |row: u32| matches!(trace.classes[row as usize], Class::HostOp | Class::Runtime | Class::Python);
    for (lane, rows) in trace.host_rows_where(counts) {
        innermost(
            &rows,
            |r| (trace.columns.ts[r as usize], trace.span(r).end),
            |row, ns| give(lane, row, ns),
        );
    }
}

/// Calls `give` with pieces of time and the innermost open event of one thread. `rows` must be sorted outer
/// first.
fn innermost(rows: &[u32], span: impl Fn(u32) -> (Ns, Ns), mut give: impl FnMut(u32, Ns)) {
    let mut open: Vec<(u32, Ns)> = Vec::new();
    let mut at = Ns::MIN;
    let ends = rows.iter().map(|&r| (span(r), Some(r))).chain([((Ns::MAX, Ns::MAX), None)]);
    for ((start, end), row) in ends {
        while let Some(&(top, until)) = open.last() {
            let stop = until.min(start);
            if stop > at {
                give(top, stop - at);
                at = stop;
            }
            if until > start {
                break;
            }
            open.pop();
        }
        at = start;
        if let Some(row) = row.filter(|_| end > start) {
            open.push((row, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instant_goes_to_the_innermost_open_event() {
        //  0 [0,12)   1 [4,9)   2 [6,20) overlaps in part   3 [30,30) empty
        let spans = [(0, 12), (4, 9), (6, 20), (30, 30)];
        let mut given = [0; 4];
        innermost(&[0, 1, 2, 3], |r| spans[r as usize], |r, ns| given[r as usize] += ns);
        assert_eq!(given, [4, 2, 14, 0]);
    }
}
