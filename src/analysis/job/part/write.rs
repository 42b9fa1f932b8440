//! Converts a [`RankSummary`] to tables.

use crate::facts::experts::ExpertLayer;
use crate::facts::host_activity::HostActivity;
use crate::facts::token_exchange::TokenExchange;
use crate::job::end_together::run_table;
use crate::job::part::chunks::chunk_table;
use crate::job::part::tables::*;
use crate::job::part::{PartLane, RankSummary, Readiness};
use hta_base::table::schema::Batch;
use hta_trace::collective::{CollectiveCall, Members as LocalMembers, RankCalls};
use hta_trace::strings::Interner;

impl RankSummary {
    /// The summary as tables, in the order of [`TABLES`].
    pub fn tables(&self) -> Vec<Batch> {
        let (groups, members) = groups(&self.calls);
        let (windows, spans) = windows(&self.lanes);
        let (cuts, entries) = local(&self.lanes);
        let (layers, tokens) = expert_layers(&self.layers);
        let mut names = PartNames::default();
        own_texts(&self.names).for_each(|name| names.push(PartNameRow { name }));
        vec![
            self.head(),
            self.step_table(),
            self.host_table(),
            backward_lanes(&self.backward_lanes),
            self.phase_table(),
            groups,
            members,
            dtypes(&self.calls),
            titles(&self.calls),
            self.call_table(),
            edges(&self.calls),
            layers,
            tokens,
            lanes(&self.lanes),
            exposed(&self.lanes),
            windows,
            spans,
            cuts,
            entries,
            self.origin_table(),
            chunk_table(&self.chunks),
            run_table(&self.runs),
            unknown_kernels(&self.tokens),
            names.finish(),
        ]
    }

    fn head(&self) -> Batch {
        let mut table = Heads::default();
        table.push(HeadRow {
            rank: self.rank,
            host: self.host.as_deref(),
            world_size: self.world,
            role: self.role.as_ref().map(|role| role.name.as_str()),
            replica: self.role.as_ref().and_then(|role| role.replica),
            role_rank: self.role.as_ref().map(|role| role.rank),
            role_first: self.role.as_ref().map(|role| role.first),
            role_size: self.role.as_ref().map(|role| role.size),
            has_origin: self.has_origin,
            capture_start_ns: self.capture.start,
            capture_end_ns: self.capture.end,
            lists_groups: self.lists_groups,
            device_count: self.device_count,
            is_vllm: self.is_vllm,
            expert_hosts: self.kernel_ranks.map(|k| k.hosts),
            expert_ranks: self.kernel_ranks.map(|k| k.per_host),
            step_rule: self.step_rule.name(),
            gpu_ns: self.tokens.gpu,
            moe_ns: self.tokens.moe,
            exchanges_tokens: self.tokens.is_known,
            peer_copies_ns: self.tokens.peer_copies,
            has_symmetric_memory: self.tokens.has_symmetric_memory,
            moe_run_count: self.tokens.runs,
            moe_summed_count: self.tokens.summed,
        });
        table.finish()
    }

    fn step_table(&self) -> Batch {
        let mut table = PartSteps::default();
        for s in &self.steps {
            table.push(PartStepRow {
                step: s.index,
                step_label: s.label,
                start_ns: s.window.start,
                end_ns: s.window.end,
                host_start_ns: s.host_start,
                is_partial: s.is_partial,
            });
        }
        table.finish()
    }

    fn host_table(&self) -> Batch {
        let mut table = PartHosts::default();
        for s in &self.steps {
            for (activity, time_ns) in HostActivity::ALL.into_iter().zip(s.host).filter(|(_, ns)| *ns > 0) {
                table.push(PartHostRow { step: s.index, activity: activity.name(), time_ns });
            }
        }
        table.finish()
    }

    fn phase_table(&self) -> Batch {
        let mut table = PartPhaseTable::default();
        for p in &self.phases {
            table.push(PartPhaseRow {
                phase: p.phase.name(),
                start_ns: p.span.start,
                end_ns: p.span.end,
                busy_ns: p.busy,
            });
        }
        table.finish()
    }

    fn call_table(&self) -> Batch {
        let mut table = PartCallTable::default();
        self.calls.calls.iter().zip(&self.readiness).for_each(|(c, r): (&CollectiveCall, &Readiness)| {
            table.push(PartCallRow {
                event_id: c.event,
                submit_ns: c.submit,
                thread: c.shape.thread,
                start_ns: c.span.start,
                end_ns: c.span.end,
                released_ns: c.released,
                kind: c.shape.kind.name(),
                process_group: c.shape.group,
                seq: c.seq,
                size_bytes: c.shape.bytes,
                dtype: u32::from(c.shape.dtype),
                root: c.shape.root,
                rank_arg: c.shape.rank_arg,
                title: c.shape.title,
                peer: c.shape.peer,
                step: c.step,
                device: c.shape.device,
                stream: c.shape.stream,
                on_host: c.shape.on_host,
                ready_ns: r.ready,
                runs_on: r.runs_on,
                is_awaited: r.is_awaited,
                idle_since_ns: r.idle_since,
                host_from_ns: r.host_wait.map(|w| w.returned),
                host_after: r.host_wait.map(|w| w.call),
            });
        });
        table.finish()
    }

    fn origin_table(&self) -> Batch {
        let mut table = Origins::default();
        for (kernel, o) in &self.origins {
            table.push(OriginRow { kernel: kernel.0, op: o.op.0, frame: o.frame.0, place: o.place.0 });
        }
        table.finish()
    }
}

fn backward_lanes(lanes: &[u32]) -> Batch {
    let mut table = BackwardLanes::default();
    lanes.iter().for_each(|thread| table.push(BackwardLaneRow { thread: *thread }));
    table.finish()
}

/// All texts except the empty one, which every interner contains.
fn own_texts(names: &Interner) -> impl Iterator<Item = &str> {
    names.iter().skip(1).map(|(_, text)| text)
}

fn groups(calls: &RankCalls) -> (Batch, Batch) {
    let (mut groups, mut members) = (PartGroups::default(), PartMembers::default());
    for (i, g) in calls.groups.iter().enumerate() {
        groups.push(GroupRow {
            name: g.name.as_deref(),
            description: g.desc.as_deref(),
            size: g.size,
            has_members: g.members.is_some(),
            pointer: g.pointer,
        });
        let mut push = |is_head, member, stride, count| {
            members.push(MemberRow { process_group: i as u32, is_head, member, stride, count });
        };
        match &g.members {
            Some(LocalMembers::Regular { first, stride, count }) => push(false, *first, *stride, *count),
            Some(LocalMembers::Listed(ranks)) => ranks.iter().for_each(|rank| push(false, *rank, 1, 1)),
            None => {}
        }
        g.head.iter().for_each(|rank| push(true, *rank, 1, 1));
    }
    (groups.finish(), members.finish())
}

fn dtypes(calls: &RankCalls) -> Batch {
    let mut table = Dtypes::default();
    calls.dtypes.iter().for_each(|dtype| table.push(DtypeRow { dtype }));
    table.finish()
}

fn titles(calls: &RankCalls) -> Batch {
    let mut table = PartTitles::default();
    calls.titles.iter().for_each(|title| table.push(PartTitleRow { title }));
    table.finish()
}

fn edges(calls: &RankCalls) -> Batch {
    let mut table = Edges::default();
    for e in &calls.edges {
        table.push(EdgeRow { call: e.call, src: e.src, dst: e.dst, size_bytes: e.bytes });
    }
    table.finish()
}

fn expert_layers(layers: &[ExpertLayer]) -> (Batch, Batch) {
    let (mut table, mut tokens) = (PartLayers::default(), PartTokens::default());
    for (i, l) in (0u32..).zip(layers) {
        table.push(PartLayerRow {
            dispatch: l.dispatch,
            combine: l.combine,
            before_dispatch: l.barriers[0][0],
            behind_dispatch: l.barriers[0][1],
            before_combine: l.barriers[1][0],
            behind_combine: l.barriers[1][1],
            direction: l.direction.name(),
            ordinal: l.ordinal,
            name: &l.name,
            expert_ns: l.expert,
            received_bytes: l.tokens.received,
            sent_bytes: l.tokens.sent,
            own_bytes: l.tokens.own,
            token_bytes: l.tokens.of_token,
        });
        for (is_received, parts) in [(false, &l.tokens.sent_parts), (true, &l.tokens.received_parts)] {
            for bytes in parts {
                tokens.push(PartTokenRow { layer: i, is_received, size_bytes: *bytes });
            }
        }
    }
    (table.finish(), tokens.finish())
}

fn lanes(lanes: &[PartLane]) -> Batch {
    let mut table = PartLanes::default();
    lanes.iter().for_each(|l| table.push(LaneRow { device: l.device, is_gpu: l.is_gpu }));
    table.finish()
}

fn exposed(lanes: &[PartLane]) -> Batch {
    let mut table = Exposed::default();
    for (lane, l) in (0u32..).zip(lanes) {
        for s in &l.exposed {
            table.push(ExposedRow { lane, start_ns: s.start, end_ns: s.end });
        }
    }
    table.finish()
}

fn windows(lanes: &[PartLane]) -> (Batch, Batch) {
    let (mut windows, mut spans) = (PartWindows::default(), WindowSpans::default());
    let mut position = 0;
    for (lane, l) in (0u32..).zip(lanes) {
        for w in &l.windows {
            windows.push(WindowRow {
                lane,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                is_partial: w.is_partial,
                compute_only_ns: w.compute_only,
                overlapped_ns: w.overlapped,
                exposed_ns: w.exposed,
                fused_ns: w.fused,
                copies_ns: w.copies,
            });
            for s in &w.spans {
                spans.push(WindowSpanRow { window: position, start_ns: s.start, end_ns: s.end });
            }
            position += 1;
        }
    }
    (windows.finish(), spans.finish())
}

fn local(lanes: &[PartLane]) -> (Batch, Batch) {
    let (mut cuts, mut entries) = (Cuts::default(), Entries::default());
    for (lane, l) in (0u32..).zip(lanes) {
        let (times, pieces) = l.local.pieces();
        times.iter().for_each(|&ts_ns| cuts.push(CutRow { lane, ts_ns }));
        for (piece, of_piece) in (0u32..).zip(pieces) {
            for e in of_piece {
                entries.push(EntryRow {
                    lane,
                    piece,
                    what: e.what.name(),
                    name: e.name.0,
                    detail: e.detail.0,
                    count: e.count,
                    time_ns: e.time,
                });
            }
        }
    }
    (cuts.finish(), entries.finish())
}

fn unknown_kernels(tokens: &TokenExchange) -> Batch {
    let mut table = PartUnknownKernels::default();
    for (name, time_ns) in &tokens.unknown {
        table.push(PartUnknownRow { kernel: name.0, time_ns: *time_ns });
    }
    table.finish()
}
