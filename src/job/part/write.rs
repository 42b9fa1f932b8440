//! Converts a [`RankSummary`] to tables.

use crate::end_together::PartRuns;
use crate::part::chunks::PartChunks;
use crate::part::tables::*;
use crate::part::{PartLane, RankSummary};
use hta_base::table::schema::Batch;
use hta_base::table::stored::Stored;
use hta_facts::host_activity::HostActivity;
use hta_trace::collective::{LocalGroup, Members as LocalMembers};

impl RankSummary {
    /// The summary as tables, in the order of [`TABLES`].
    pub fn tables(&self) -> Vec<Batch> {
        let calls = &self.calls;
        let mut tables = PartTables {
            head: Heads::of([self]),
            steps: PartSteps::of(&self.steps),
            backward_lanes: BackwardLanes::of(&self.backward_lanes),
            phases: PartPhaseTable::of(&self.phases),
            dtypes: Dtypes::of(&calls.dtypes),
            titles: PartTitles::of(&calls.titles),
            edges: Edges::of(&calls.edges),
            layers: PartLayers::of(self.layers.iter()),
            lanes: PartLanes::of(&self.lanes),
            origins: Origins::of(&self.origins),
            chunks: PartChunks::of(&self.chunks),
            runs: PartRuns::of(&self.runs),
            unknown: PartUnknownKernels::of(&self.tokens.unknown),
            ..PartTables::default()
        };
        self.put_hosts(&mut tables.hosts);
        put_groups(&calls.groups, &mut tables);
        for (c, ready) in calls.calls.iter().zip(&self.readiness) {
            let times = (c.event, c.submit, c.span, c.released, c.seq, c.step);
            tables.calls.put((&times, &c.shape, ready));
        }
        for (i, l) in (0u32..).zip(self.layers.iter()) {
            l.tokens.sent_parts.iter().for_each(|bytes| tables.tokens.put((&i, &false, bytes)));
            l.tokens.received_parts.iter().for_each(|bytes| tables.tokens.put((&i, &true, bytes)));
        }
        put_lanes(&self.lanes, &mut tables);
        // All texts except the empty one, which every interner contains.
        self.names.iter().skip(1).for_each(|(_, name)| tables.names.push(PartNameRow { name }));
        tables.finish()
    }

    fn put_hosts(&self, table: &mut PartHosts) {
        for s in &self.steps {
            for (activity, time) in HostActivity::ALL.iter().zip(&s.host).filter(|(_, ns)| **ns > 0) {
                table.put((&s.index, activity, time));
            }
        }
    }
}

fn put_groups(groups: &[LocalGroup], tables: &mut PartTables) {
    for (process_group, g) in (0u32..).zip(groups) {
        tables.groups.put((g, &g.members.is_some()));
        let mut push = |is_head, member, stride, count| {
            tables.members.push(MemberRow { process_group, is_head, member, stride, count });
        };
        match &g.members {
            Some(LocalMembers::Regular { first, stride, count }) => push(false, *first, *stride, *count),
            Some(LocalMembers::Listed(ranks)) => ranks.iter().for_each(|rank| push(false, *rank, 1, 1)),
            None => {}
        }
        g.head.iter().for_each(|rank| push(true, *rank, 1, 1));
    }
}

/// What the lanes hold, each with the position of its lane.
fn put_lanes(lanes: &[PartLane], tables: &mut PartTables) {
    let mut window = 0u32;
    for (lane, l) in (0u32..).zip(lanes) {
        l.exposed.iter().for_each(|span| tables.exposed.put((&lane, span)));
        for w in &l.windows {
            tables.windows.put((&lane, w));
            w.spans.iter().for_each(|span| tables.spans.put((&window, span)));
            window += 1;
        }
        let (cuts, pieces) = l.local.pieces();
        cuts.iter().for_each(|time| tables.cuts.put((&lane, time)));
        for (piece, entries) in (0u32..).zip(pieces) {
            entries.iter().for_each(|entry| tables.entries.put((&lane, &piece, entry)));
        }
    }
}
