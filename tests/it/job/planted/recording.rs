//! What the ranks recorded of a job, with which clocks and how much detail about collectives; written as trace files.

use super::job::{Group, Kind};
use super::simulate::{Call, Key, Row, Simulated};
use crate::run::{Answer, answer, options};
use hta::analysis::api::Options;
use hta_testkit::{Call as Api, Collective, Detail, Format, SyncKind, TraceBuilder, WhiteSpace, us};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A rank's clock: true time plus offset plus drift.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub offset: i64,
    /// ns per second; 50 ppm is 50 000.
    pub drift: i64,
}

impl Clock {
    /// A true time as shown by the rank's clock.
    pub fn shows(&self, t: i64) -> i64 {
        t + self.offset + (i128::from(self.drift) * i128::from(t) / 1_000_000_000) as i64
    }
}

/// A collective that only one rank recorded and no other took part in.
#[derive(Clone, Debug)]
pub struct Extra {
    pub rank: u32,
    pub group: usize,
    pub run: Range<i64>,
    pub elements: u64,
    pub seq: u64,
}

/// What is recorded; by default everything.
#[derive(Clone, Debug)]
pub struct Recording {
    pub detail: Detail,
    pub has_numbers: bool,
    /// Whether the file lists the groups of its rank, as recent versions of torch do.
    pub lists_groups: bool,
    /// Whether steps are marked.
    pub has_steps: bool,
    /// By rank; other ranks have the true time.
    pub clocks: Vec<Clock>,
    pub absent: Vec<u32>,
    /// Ranks that recorded only a part of the time.
    pub windows: Vec<(u32, Range<i64>)>,
    pub dropped: Vec<(u32, Key)>,
    pub extra: Vec<Extra>,
}

impl Recording {
    /// Everything is recorded, with this level of detail.
    pub fn new(detail: Detail) -> Self {
        Recording {
            detail,
            has_numbers: true,
            // The versions with positional inputs list no groups.
            lists_groups: detail != Detail::Positional,
            has_steps: true,
            clocks: Vec::new(),
            absent: Vec::new(),
            windows: Vec::new(),
            dropped: Vec::new(),
            extra: Vec::new(),
        }
    }

    pub fn full() -> Self {
        Self::new(Detail::Full)
    }

    /// Recordings without sequence numbers: `NoSequence`, `Positional` and `Nothing`, with and without step marks.
    pub fn unnumbered() -> Vec<Recording> {
        let details = [Detail::NoSequence, Detail::Positional, Detail::Nothing];
        let both =
            |d| [true, false].map(|has_steps| Recording { has_steps, has_numbers: false, ..Self::new(d) });
        details.into_iter().flat_map(both).collect()
    }

    pub fn clock(&self, rank: u32) -> Clock {
        self.clocks.get(rank as usize).copied().unwrap_or_default()
    }

    pub fn clocks(mut self, offsets: &[i64]) -> Self {
        self.clocks = offsets.iter().map(|&offset| Clock { offset, drift: 0 }).collect();
        self
    }

    pub fn absent(mut self, rank: u32) -> Self {
        self.absent.push(rank);
        self
    }

    pub fn only(mut self, rank: u32, window: Range<i64>) -> Self {
        self.windows.push((rank, window));
        self
    }

    pub fn without(mut self, rank: u32, key: Key) -> Self {
        self.dropped.push((rank, key));
        self
    }

    fn has_span(&self, rank: u32, span: &Range<i64>) -> bool {
        let inside = |w: &Range<i64>| w.start <= span.start && span.end <= w.end;
        !self.absent.contains(&rank) && self.windows.iter().all(|(r, w)| *r != rank || inside(w))
    }

    /// Whether a rank recorded a call.
    pub fn has(&self, call: &Call) -> bool {
        self.has_span(call.rank, &(call.submit.start..call.run.end))
            && !self.dropped.contains(&(call.rank, call.key))
    }

    /// Calls that were recorded.
    pub fn calls<'a>(&'a self, job: &'a Simulated) -> impl Iterator<Item = &'a Call> {
        job.calls().filter(|c| self.has(c))
    }

    /// Writes the files and runs all analyses over them.
    pub fn answer(&self, job: &Simulated) -> Answer {
        self.answer_with(job, &options())
    }

    pub fn answer_with(&self, job: &Simulated, options: &Options) -> Answer {
        let folder = tempfile::tempdir().expect("a temporary folder");
        answer(&self.write(job, folder.path()), options)
    }

    /// One file per rank.
    pub fn write(&self, job: &Simulated, folder: &Path) -> Vec<PathBuf> {
        let ranks = (0..job.world).filter(|r| !self.absent.contains(r));
        let write = |rank: u32| {
            let path = folder.join(format!("rank_{rank}.json"));
            let format = Format { layout: WhiteSpace::Compact, ..Format::default() };
            std::fs::write(&path, self.trace(job, rank).to_bytes(&format))
                .expect("a temporary file can be written");
            path
        };
        ranks.map(write).collect()
    }

    fn trace(&self, job: &Simulated, rank: u32) -> TraceBuilder {
        let host = format!("node-{}", rank / 4);
        let mut trace =
            TraceBuilder::new().rank(rank).world(job.world).host(&host).device("NVIDIA H100", 132);
        let is_listed = |g: &&Group| self.lists_groups && g.ranks.contains(&rank);
        for group in job.groups.iter().skip(1).filter(is_listed) {
            trace = trace.group(group.name, group.description, group.ranks.iter().copied());
        }
        let clock = self.clock(rank);
        let shown = |span: &Range<i64>| clock.shows(span.start)..clock.shows(span.end);
        for row in &job.rows[rank as usize] {
            let mut main = trace.thread(1);
            match row {
                Row::Step { number, span } if self.has_steps && self.has_span(rank, span) => {
                    main.step(*number, shown(span));
                }
                Row::Sync(span) if self.has_span(rank, span) => {
                    let call = shown(span);
                    let inside = call.start + 400..call.end - 400;
                    main.call(Api::DeviceSync, call).sync_row(SyncKind::ContextSync, -1, inside);
                }
                Row::Loader(span) if self.has_span(rank, span) => {
                    main.data_loader(shown(span));
                }
                Row::Frame(name, span) if self.has_span(rank, span) => {
                    main.frame(name, shown(span));
                }
                Row::Kernel { name, launch, run } if self.has_span(rank, &(launch.start..run.end)) => {
                    main.launch(shown(launch)).kernel(name, 7, shown(run)).grid([264, 1, 1]);
                }
                Row::Call(call) if self.has(call) => {
                    let stream = 20 + call.key.group as i64;
                    let collective = self.collective(job, call);
                    main.nccl(&collective, shown(&call.submit), stream, shown(&call.run));
                }
                _ => {}
            }
        }
        for e in self.extra.iter().filter(|e| e.rank == rank) {
            let group = &job.groups[e.group];
            let mut collective = Collective::all_reduce(e.elements, "Float").detail(self.detail).group(
                group.name,
                group.description,
                group.ranks.iter().copied(),
            );
            if self.has_numbers {
                collective = collective.seq(e.seq);
            }
            let submit = e.run.start - us(30)..e.run.start - us(10);
            trace.thread(2).nccl(&collective, shown(&submit), 50, shown(&e.run));
        }
        trace
    }

    fn collective(&self, job: &Simulated, call: &Call) -> Collective {
        let group = &job.groups[call.key.group];
        let n = group.ranks.len() as u64;
        let (elements, dtype) = (call.elements, "Float");
        let wire = call.key.wire.unwrap_or_default();
        let collective = match call.kind {
            Kind::AllReduce => Collective::all_reduce(elements, dtype),
            Kind::AllGather => Collective::all_gather(elements, n, dtype),
            Kind::ReduceScatter => Collective::reduce_scatter(elements, n, dtype),
            Kind::AllToAll => Collective::new("all_to_allv", elements, dtype),
            Kind::Barrier => Collective::new("barrier", elements, dtype),
            Kind::Broadcast => Collective::new("broadcast", elements, dtype),
            Kind::Reduce => Collective::new("reduce", elements, dtype),
            Kind::Send => Collective::send(elements, dtype, wire.1),
            Kind::Receive => Collective::receive(elements, dtype, wire.0),
        };
        let collective = match (call.kind, call.root) {
            (Kind::Broadcast, Some(root)) => collective.source(root),
            _ => collective,
        };
        let named =
            collective.detail(self.detail).group(group.name, group.description, group.ranks.iter().copied());
        if self.has_numbers { named.seq(call.key.nth + 1) } else { named }
    }
}
