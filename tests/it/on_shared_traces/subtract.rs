//! A real trace with less recorded gets no other sure verdict.

use crate::robustness::subtract::check;
use crate::shared;

#[test]
fn a_trace_with_less_recorded_gets_no_other_sure_verdict() {
    let Some(root) = shared::folder() else { return };
    check(&root.traces());
}

#[test]
fn a_case_with_less_recorded_gets_no_other_sure_verdict() {
    let Some(root) = shared::folder() else { return };
    for folder in ["reports", "jobs"].iter().filter_map(|f| root.cases(f)) {
        check(&folder);
    }
}
