//! Reference implementation of the definitions, which counts nanosecond by nanosecond: slow, but as simple as their
//! text.

use crate::plan::{Class, END, Kind, LOADER, Row};
use std::collections::BTreeMap;

/// The content of a device's window, ns; `outside` may have several parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub scope: &'static str,
    pub step: Option<i64>,
    pub start: i64,
    pub dur: i64,
    /// Number of instants by set of classes: bit 0 compute, 1 communication, 2 memory; 0 is idle.
    pub sets: [i64; 8],
    pub gaps: i64,
    pub host_wait: i64,
    pub kernel_wait: i64,
    pub other: i64,
    pub unlinked: i64,
    /// Host wait by name of the innermost open event.
    pub host: BTreeMap<String, i64>,
}

/// Idle time of a stream: gaps, idle, host wait, kernel wait, other, unlinked, other stream busy.
pub type Stream = [i64; 7];

/// One device, or the host of a CPU-only rank.
#[derive(Debug)]
pub struct Device {
    pub device: Option<i64>,
    pub windows: Vec<Window>,
    pub streams: BTreeMap<i64, Stream>,
}

/// What an idle instant waits for.
#[derive(Clone)]
enum Wait {
    Host(String),
    Kernel,
    Other,
    Unlinked,
}

pub struct Brute<'a> {
    rows: &'a [Row],
    kernel_wait_max: i64,
    pub capture: (i64, i64),
    /// Host range and window of each step.
    pub steps: Vec<((i64, i64), (i64, i64))>,
}

impl<'a> Brute<'a> {
    /// `None` for a trace that contains only the profiler's own rows.
    pub fn new(rows: &'a [Row], device_windows: bool, kernel_wait_max: i64) -> Option<Self> {
        let recorded = || rows.iter().filter(|r| r.kind != Kind::Overhead);
        let start = recorded().map(|r| r.start).min()?;
        let end = recorded().map(|r| r.end).max()?;
        assert!(start >= 0 && end <= END);
        let mut b = Self { rows, kernel_wait_max, capture: (start, end), steps: Vec::new() };
        b.steps = b.find_steps(device_windows);
        Some(b)
    }

    fn find_steps(&self, device_windows: bool) -> Vec<((i64, i64), (i64, i64))> {
        let hosts: Vec<(i64, i64)> =
            self.rows.iter().filter(|r| r.kind == Kind::Step).map(|r| (r.start, r.end)).collect();
        if hosts.is_empty() {
            // The whole capture is one step, even if it has no length.
            return vec![(self.capture, self.capture)];
        }
        // Without any launch record, activities belong to steps by their start.
        let has_launches = self.gpu().any(|(_, r)| r.launch.is_some());
        let mut before = i64::MIN;
        let mut steps = Vec::new();
        for host in hosts {
            let mut window = host;
            if device_windows {
                let inside = |r: &Row| match r.launch {
                    Some(l) => (host.0..host.1).contains(&self.rows[l].start),
                    None => !has_launches && (host.0..host.1).contains(&r.start),
                };
                let last = self.gpu().filter(|(_, r)| inside(r)).map(|(_, r)| r.end).max();
                window.0 = host.0.max(before);
                window.1 = window.0.max(host.1).max(last.unwrap_or(i64::MIN));
                before = window.1;
            }
            steps.push((host, window));
        }
        steps
    }

    fn gpu(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter(|(_, r)| r.kind == Kind::Gpu)
    }

    /// Index of the step whose host range holds `t`.
    pub fn step_at(&self, t: i64) -> Option<i64> {
        self.steps.iter().position(|(host, _)| (host.0..host.1).contains(&t)).map(|i| i as i64)
    }

    /// Every device in order; the host if there is none.
    pub fn devices(&self) -> Vec<Device> {
        let mut ids: Vec<i64> = self.gpu().map(|(_, r)| r.device).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return self.host().into_iter().collect();
        }
        ids.into_iter().map(|id| self.device(id)).collect()
    }

    fn device(&self, id: i64) -> Device {
        let own: Vec<usize> = self.gpu().filter(|(_, r)| r.device == id).map(|(i, _)| i).collect();
        let start = own.iter().map(|&i| self.rows[i].start).min().unwrap_or(0);
        let end = own.iter().map(|&i| self.rows[i].end).max().unwrap_or(0);
        let bit = |class: Class| 1u8 << class as u8;
        let cells = self.cells(|r| (r.kind == Kind::Gpu && r.device == id).then(|| bit(r.class)));
        let default_thread =
            self.most(own.iter().filter_map(|&i| self.rows[i].launch).map(|l| self.rows[l].thread));
        let waits = self.waits(&cells, self.capture, &own, default_thread);
        let mut streams: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for &i in &own {
            streams.entry(self.rows[i].stream).or_default().push(i);
        }
        let streams =
            streams.into_iter().map(|(s, own)| (s, self.stream(&own, &cells, default_thread))).collect();
        Device { device: Some(id), windows: self.windows((start, end), &cells, &waits), streams }
    }

    /// A CPU-only rank: operators and calls are compute, collectives communication.
    fn host(&self) -> Option<Device> {
        let cells = self.cells(|r| match r.kind {
            Kind::Op | Kind::Call => Some(1),
            Kind::CommunicationOp | Kind::CommunicationRange => Some(2),
            _ => None,
        });
        let start = cells.iter().position(|c| *c != 0)? as i64;
        let end = cells.iter().rposition(|c| *c != 0)? as i64 + 1;
        let ops = self.rows.iter().filter(|r| matches!(r.kind, Kind::Op | Kind::CommunicationOp));
        let of_steps = self.rows.iter().find(|r| r.kind == Kind::Step).map(|r| r.thread);
        let main = of_steps.or_else(|| self.most(ops.map(|r| r.thread)));
        let waits = self.waits(&cells, self.capture, &[], main);
        Some(Device {
            device: None,
            windows: self.windows((start, end), &cells, &waits),
            streams: BTreeMap::new(),
        })
    }

    /// The most frequent thread; ties: the first in the file.
    fn most(&self, threads: impl Iterator<Item = i64>) -> Option<i64> {
        let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
        threads.for_each(|t| *counts.entry(t).or_default() += 1);
        let most = counts.values().copied().max()?;
        let on_host = self.rows.iter().filter(|r| r.thread != 0);
        on_host.map(|r| r.thread).find(|t| counts.get(t) == Some(&most))
    }

    fn cells(&self, bits: impl Fn(&Row) -> Option<u8>) -> Vec<u8> {
        let mut cells = vec![0; END as usize];
        for r in self.rows {
            if let Some(b) = bits(r) {
                (r.start..r.end).for_each(|t| cells[t as usize] |= b);
            }
        }
        cells
    }

    /// For each idle instant of `range`, the number of its gap and what it waits for.
    fn waits(
        &self,
        cells: &[u8],
        range: (i64, i64),
        own: &[usize],
        thread: Option<i64>,
    ) -> Vec<Option<(usize, Wait)>> {
        let mut out: Vec<Option<(usize, Wait)>> = vec![None; END as usize];
        let (mut t, mut number) = (range.0, 0);
        while t < range.1 {
            let a = t;
            while t < range.1 && cells[t as usize] == 0 {
                t += 1;
            }
            let b = t;
            t += 1;
            if a == b {
                continue;
            }
            number += 1;
            let launched = |i: usize| self.rows[i].launch.map_or(i64::MAX, |l| self.rows[l].start);
            let after = own.iter().copied().filter(|&i| self.rows[i].start >= b);
            let next = after.min_by_key(|&i| (self.rows[i].start, launched(i), i));
            for cell in a..b {
                let wait = match next.map(|i| self.rows[i].launch) {
                    None => Wait::Host(self.innermost(thread, cell)),
                    Some(None) => Wait::Unlinked,
                    Some(Some(l)) => {
                        let h = self.rows[l].end.clamp(a, b);
                        match cell < h {
                            true => Wait::Host(self.innermost(Some(self.rows[l].thread), cell)),
                            false if b - h < self.kernel_wait_max => Wait::Kernel,
                            false => Wait::Other,
                        }
                    }
                };
                out[cell as usize] = Some((number, wait));
            }
        }
        out
    }

    /// Name of the open host event that started last (ties: the shorter); a data loader around it takes precedence.
    fn innermost(&self, thread: Option<i64>, t: i64) -> String {
        let host = |r: &&Row| !matches!(r.kind, Kind::Gpu | Kind::Drawn | Kind::Overhead);
        let open =
            self.rows.iter().filter(host).filter(|r| Some(r.thread) == thread && r.start <= t && t < r.end);
        let open: Vec<&Row> = open.collect();
        if open.iter().any(|r| r.kind == Kind::Loader) {
            return LOADER.to_string();
        }
        open.iter().max_by_key(|r| (r.start, -r.end)).map_or(String::new(), |r| r.name.clone())
    }

    fn windows(&self, span: (i64, i64), cells: &[u8], waits: &[Option<(usize, Wait)>]) -> Vec<Window> {
        let one = |scope, step, part| self.window(scope, step, &[part], cells, waits);
        let mut all = vec![one("span", None, span), one("capture", None, self.capture)];
        let mut outside = Vec::new();
        let mut at = self.capture.0;
        for (i, (_, w)) in self.steps.iter().enumerate() {
            outside.extend((at < w.0).then_some((at, w.0)));
            at = at.max(w.1);
            all.push(one("step", Some(i as i64), *w));
        }
        if !self.steps.is_empty() {
            outside.extend((at < self.capture.1).then_some((at, self.capture.1)));
            all.push(self.window("outside", None, &outside, cells, waits));
        }
        all
    }

    fn window(
        &self,
        scope: &'static str,
        step: Option<i64>,
        parts: &[(i64, i64)],
        cells: &[u8],
        waits: &[Option<(usize, Wait)>],
    ) -> Window {
        let mut w = Window {
            scope,
            step,
            start: parts.first().map_or(0, |p| p.0),
            dur: parts.iter().map(|p| p.1 - p.0).sum(),
            sets: [0; 8],
            gaps: 0,
            host_wait: 0,
            kernel_wait: 0,
            other: 0,
            unlinked: 0,
            host: BTreeMap::new(),
        };
        for part in parts {
            let mut gap = 0;
            for t in part.0..part.1 {
                w.sets[usize::from(cells[t as usize])] += 1;
                let Some((number, wait)) = &waits[t as usize] else { continue };
                w.gaps += i64::from(*number != gap);
                gap = *number;
                match wait {
                    Wait::Host(name) => {
                        w.host_wait += 1;
                        *w.host.entry(name.clone()).or_default() += 1;
                    }
                    Wait::Kernel => w.kernel_wait += 1,
                    Wait::Other => w.other += 1,
                    Wait::Unlinked => {
                        w.other += 1;
                        w.unlinked += 1;
                    }
                }
            }
        }
        w
    }

    fn stream(&self, own: &[usize], device: &[u8], thread: Option<i64>) -> Stream {
        let start = own.iter().map(|&i| self.rows[i].start).min().unwrap_or(0);
        let end = own.iter().map(|&i| self.rows[i].end).max().unwrap_or(0);
        let mut cells = vec![0; END as usize];
        for r in own.iter().map(|&i| &self.rows[i]) {
            (r.start..r.end).for_each(|t| cells[t as usize] = 1);
        }
        let waits = self.waits(&cells, (start, end), own, thread);
        let w = self.window("span", None, &[(start, end)], &cells, &waits);
        let held = |t: &i64| matches!(waits[*t as usize], Some((_, Wait::Other | Wait::Unlinked)));
        let others = (start..end).filter(held).filter(|t| device[*t as usize] != 0).count() as i64;
        [w.gaps, w.sets[0], w.host_wait, w.kernel_wait, w.other, w.unlinked, others]
    }
}
