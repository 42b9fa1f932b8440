//! Lengths of unions of what operators and calls launched. Activities that overlap no other, which are most,
//! are summed.

use crate::calls::CallForest;
use crate::calls::forest::WorkBelow;
use hta_base::units::{Ns, Span};
use hta_trace::interval::Union;

impl CallForest<'_> {
    /// Length of the union of activities, ns.
    pub fn busy(&self, activities: impl Iterator<Item = u32>) -> Ns {
        let mut alone = 0;
        let mut crowded: Vec<Span> = Vec::new();
        for i in activities {
            let span = self.trace.activities[i as usize].span;
            match self.alone[i as usize] {
                true => alone += span.len(),
                false => crowded.push(span),
            }
        }
        alone + Union::new(crowded).len()
    }

    /// What was launched at or below some positions, none of which is below another.
    pub fn launched_below(&self, instances: &[u32]) -> impl Iterator<Item = u32> {
        instances.iter().flat_map(|p| self.launched_at_or_below(&self.below, *p))
    }

    fn launched_at_or_below<'b>(
        &self,
        part: &'b WorkBelow,
        position: u32,
    ) -> impl Iterator<Item = u32> + use<'b> {
        part.within(position, self.forest.end[position as usize]).iter().map(|l| l.1)
    }

    /// Length of the union of the same. The union of each instance is known; only those whose work overlaps
    /// in time are united again.
    pub fn busy_below(&self, instances: &[u32]) -> Ns {
        self.busy_below_of(&self.below, instances)
    }

    /// The same of a part of the work.
    pub fn busy_below_of(&self, part: &WorkBelow, instances: &[u32]) -> Ns {
        let extent = |p: &u32| part.at(*p).extent;
        let mut sorted: Vec<u32> = instances.to_vec();
        sorted.sort_unstable_by_key(|p| (extent(p).start, extent(p).end));
        let of_run = |run: &[u32]| match run {
            [one] => part.at(*one).busy_ns,
            several => self.busy(several.iter().flat_map(|p| self.launched_at_or_below(part, *p))),
        };
        overlapping(&sorted, extent).map(of_run).sum()
    }
}

/// Runs of items in order of start, whose extents overlap in time.
pub fn overlapping<T>(sorted: &[T], extent: impl Fn(&T) -> Span) -> impl Iterator<Item = &[T]> {
    let mut rest = sorted;
    std::iter::from_fn(move || {
        let (first, others) = rest.split_first()?;
        let mut end = extent(first).end;
        let joins = |item: &&T| {
            let of = extent(item);
            let is_inside = of.start < end;
            end = if is_inside { end.max(of.end) } else { end };
            is_inside
        };
        let (run, after) = rest.split_at(1 + others.iter().take_while(joins).count());
        rest = after;
        Some(run)
    })
}
