//! Ranges on the thread that submits a collective, which carry the shape and type of its message: those of
//! the back end (`nccl:all_reduce`), and titles of the user in their place.

use hta_base::units::Span;
use hta_trace::category::Class;
use hta_trace::no_step::is_backend_range;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

/// By thread, in order of time.
pub(super) struct SubmissionRanges {
    by_lane: BTreeMap<u32, Vec<u32>>,
    has_titles: bool,
}

impl SubmissionRanges {
    pub(super) fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let of_backend = c.strings.each(is_backend_range);
        let (mut by_lane, mut has_titles): (BTreeMap<u32, Vec<u32>>, bool) = (BTreeMap::new(), false);
        for (row, class) in trace.classes.iter().enumerate() {
            let is_title = *class == Class::Title;
            let is_own = *class == Class::Annotation && of_backend.holds(c.name(row));
            if is_title || is_own {
                has_titles |= is_title;
                by_lane.entry(c.lane[row]).or_default().push(row as u32);
            }
        }
        by_lane.values_mut().for_each(|rows| rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r)));
        Self { by_lane, has_titles }
    }

    /// The range around a launch.
    pub(super) fn around(&self, lane: u32, at: i64, trace: &RankTrace) -> Option<u32> {
        let rows = self.by_lane.get(&lane)?;
        let i = rows.partition_point(|&r| trace.columns.ts[r as usize] <= at).checked_sub(1)?;
        let row = rows[i];
        (trace.span(row).end >= at).then_some(row)
    }

    /// The title around a launch (else around the start of the submitting operator), else the first one
    /// inside the operator.
    pub(super) fn title(
        &self,
        lane: u32,
        launch: Option<i64>,
        op: Option<Span>,
        trace: &RankTrace,
    ) -> Option<u32> {
        if !self.has_titles {
            return None;
        }
        let is_title = |row: &u32| trace.classes.get(*row as usize) == Some(&Class::Title);
        let at = launch.or(op.map(|op| op.start));
        let around = at.and_then(|at| self.around(lane, at, trace)).filter(is_title);
        around.or_else(|| {
            let (op, rows) = (op?, self.by_lane.get(&lane)?);
            let from = rows.partition_point(|&r| trace.columns.ts[r as usize] < op.start);
            let inside = rows.iter().skip(from).take_while(|r| trace.columns.ts[**r as usize] < op.end);
            inside.copied().find(is_title)
        })
    }
}
