//! The account of the job that the diagnosis divides: the parts of every device's time in every step, with
//! what is known about each part.

use crate::CauseKind;
use crate::copy_times::{CopyTime, CopyTimes};
use crate::host_time::LostHostTime;
use crate::kernel_mix::KernelMix;
use crate::kernel_repairs::KernelRepairs;
use crate::lost::LostTime;
use hashbrown::HashMap;
use hta_analysis::api::{Partial, rows};
use hta_analysis::efficiency::account::{
    Account, DeviceWindows, Factors, PartDevice, Parts, StepAccount, StepLength, steps,
};
use hta_base::units::Ns;
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lost time of a device in a step that one cause owns.
#[derive(Debug, Clone)]
pub(crate) struct Lost {
    pub(crate) part: TimePart,
    pub(crate) kind: CauseKind,
    pub(crate) key: String,
    pub(crate) detail: String,
    /// The function of the user; empty if it is not recorded.
    pub(crate) place: String,
    pub(crate) time: Ns,
    pub(crate) count: u64,
}

/// Parts of a step's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimePart {
    Compute,
    /// Exchange and product in one kernel: work, of which no part can be told lost.
    Fused,
    Waiting,
    Transfer,
    Unmatched,
    Copies,
    Idle,
    FinishedEarly,
}

impl TimePart {
    pub(crate) const ALL: [TimePart; 8] = [
        TimePart::Compute,
        TimePart::Fused,
        TimePart::Waiting,
        TimePart::Transfer,
        TimePart::Unmatched,
        TimePart::Copies,
        TimePart::Idle,
        TimePart::FinishedEarly,
    ];

    /// Whether the devices work in it, so that no cause has to own it.
    pub(crate) fn is_work(self) -> bool {
        matches!(self, TimePart::Compute | TimePart::Fused)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            TimePart::Compute => "compute",
            TimePart::Fused => "fused",
            TimePart::Waiting => "waiting",
            TimePart::Transfer => "transfer",
            TimePart::Unmatched => "unmatched",
            TimePart::Copies => "copies",
            TimePart::Idle => "idle",
            TimePart::FinishedEarly => "finished_early",
        }
    }

    pub fn of(self, parts: &Parts) -> Ns {
        match self {
            TimePart::Compute => parts.compute,
            TimePart::Fused => parts.fused,
            TimePart::Waiting => parts.waiting,
            TimePart::Transfer => parts.transfer,
            TimePart::Unmatched => parts.unmatched,
            TimePart::Copies => parts.copies,
            TimePart::Idle => parts.idle,
            TimePart::FinishedEarly => parts.finished_early,
        }
    }
}

/// Compute time of one category of kernels in a step of a device.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MixTime {
    pub(crate) time: Ns,
    pub(crate) count: u64,
}

impl MixTime {
    fn add(&mut self, other: &MixTime) {
        self.time += other.time;
        self.count += other.count;
    }
}

/// Compute time that a repair of kernels is about, as in `kernel_repairs`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RepairTime {
    pub(crate) time: Ns,
    pub(crate) count: u64,
    pub(crate) known: Ns,
    pub(crate) ideal: Ns,
}

impl RepairTime {
    fn add(&mut self, other: &RepairTime) {
        self.time += other.time;
        self.count += other.count;
        self.known += other.known;
        self.ideal += other.ideal;
    }
}

/// One device in one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellOfStep {
    /// With the time after the end of a step that finished early.
    pub(crate) parts: Parts,
    pub(crate) lost: Vec<Lost>,
    /// Host time of the launching thread by what it does; `None` for calls that wait for the device.
    pub(crate) host: FewSums<Option<CauseKind>, Ns>,
    pub(crate) mix: FewSums<String, MixTime>,
    pub(crate) repairs: FewSums<CauseKind, RepairTime>,
    /// By direction.
    pub(crate) copies: FewSums<String, CopyTime>,
}

/// A few sums, each with what it is of. There are several for every device and step, and a map takes room for
/// eleven.
#[derive(Debug, Clone)]
pub(crate) struct FewSums<K, V>(Vec<(K, V)>);

impl<K, V> Default for FewSums<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: PartialEq, V: Default> FewSums<K, V> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn of(&mut self, key: K) -> &mut V {
        let at = self.0.iter().position(|(k, _)| *k == key).unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.reserve_exact(1);
            self.0.push((key, V::default()));
        }
        &mut self.0[at].1
    }
}

impl CellOfStep {
    /// Idle time beside that of the recording is waiting for other roles, whose step is longer.
    fn wait_for_roles(&mut self) {
        let known: Ns = self.lost.iter().filter(|l| l.part == TimePart::Idle).map(|l| l.time).sum();
        let time = self.parts.idle - known;
        if time > 0 {
            self.lost.push(Lost {
                part: TimePart::Idle,
                kind: CauseKind::RoleWait,
                key: String::new(),
                detail: String::new(),
                place: String::new(),
                time,
                count: 1,
            });
        }
    }

    /// Host time outside calls that wait for the device, ns.
    pub(crate) fn host_time(&self) -> Ns {
        self.host.iter().filter(|(kind, _)| kind.is_some()).map(|(_, ns)| *ns).sum()
    }

    /// Host time of one kind, ns.
    pub(crate) fn host_of(&self, kind: CauseKind) -> Ns {
        self.host.get(&Some(kind)).copied().unwrap_or(0)
    }
}

/// One step of the job.
#[derive(Debug, Clone)]
pub(crate) struct JobStep {
    pub(crate) key: Option<StepKey>,
    /// The longest window of the devices, ns.
    pub(crate) time: Ns,
    pub(crate) cells: BTreeMap<PartDevice, CellOfStep>,
    /// The window of each device, on its rank's own clock.
    pub(crate) windows: Arc<DeviceWindows>,
}

/// The whole account.
#[derive(Debug, Clone, Default)]
pub struct JobAccount {
    pub(crate) steps: Vec<JobStep>,
    /// Sum of the steps' times, ns: the sum of the parts of a device.
    pub(crate) time: Ns,
    /// Length of the steps, ns: what gains are a share of.
    pub(crate) length: Ns,
    pub(crate) devices: u32,
    /// Factors of the efficiency; `None` without compute.
    pub(crate) factors: Option<Factors>,
    /// Time of kernels by the cause that their repair is and the operator with most of it in a window, ns.
    pub(crate) operators: BTreeMap<(CauseKind, String), Ns>,
    /// Host time of the launching threads in what a cause names, by rank, over the capture.
    pub(crate) named_host: BTreeMap<(CauseKind, String), BTreeMap<u32, Ns>>,
}

/// Finds the cell of a row.
struct CellIndex {
    /// Index of the part, by rank.
    parts: HashMap<u32, u32>,
    steps: HashMap<Option<StepKey>, usize>,
}

impl CellIndex {
    /// The step of a row; without steps the account has the span, which is no step's row.
    fn key(&self, scope: &str, step: Option<u32>, label: Option<i64>) -> Option<StepKey> {
        step.filter(|_| scope != "span").map(|index| StepKey::new(index, label))
    }

    fn cell<'a>(
        &self,
        steps: &'a mut [JobStep],
        key: Option<StepKey>,
        rank: u32,
        device: Option<i64>,
    ) -> Option<&'a mut CellOfStep> {
        let step = steps.get_mut(*self.steps.get(&key)?)?;
        step.cells.get_mut(&(*self.parts.get(&rank)?, device))
    }
}

impl JobAccount {
    pub(crate) fn new(job: &Job, partials: &[Partial]) -> Self {
        let part_of: HashMap<u32, u32> = (0u32..).zip(&job.parts).map(|(i, p)| (p.rank, i)).collect();
        let mut out = Self { length: StepLength::of(job).time, ..Self::default() };
        let mut index = CellIndex { parts: part_of, steps: HashMap::new() };
        let steps = steps(job);
        out.factors = Account::new(&steps, |_| true).and_then(|a| a.factors);
        for StepAccount { key, parts, windows } in steps.iter() {
            let time = parts.values().map(|p| p.window()).max().unwrap_or(0);
            let cell = |p: &Parts| CellOfStep {
                parts: Parts { finished_early: time - p.window(), ..*p },
                ..CellOfStep::default()
            };
            let cells: BTreeMap<PartDevice, CellOfStep> =
                parts.iter().map(|(place, p)| (*place, cell(p))).collect();
            index.steps.insert(*key, out.steps.len());
            out.time += time;
            out.devices = out.devices.max(cells.len() as u32);
            out.steps.push(JobStep { key: *key, time, cells, windows: Arc::clone(windows) });
        }
        for r in rows::<LostTime>(partials) {
            let key = index.key(r.scope, r.step, r.step_label);
            let Some(cell) = index.cell(&mut out.steps, key, r.rank, r.device) else { continue };
            cell.lost.push(Lost {
                part: if r.part == "m" { TimePart::Copies } else { TimePart::Idle },
                kind: CauseKind::named(r.cause).unwrap_or(CauseKind::NotExplained),
                key: r.key.to_string(),
                detail: r.detail.to_string(),
                place: r.place.to_string(),
                time: r.time_ns,
                count: r.count,
            });
        }
        if job.parts.iter().any(|p| p.role.is_some()) {
            out.steps
                .iter_mut()
                .flat_map(|step| step.cells.values_mut())
                .for_each(CellOfStep::wait_for_roles);
        }
        for r in rows::<LostHostTime>(partials) {
            let kind = CauseKind::named(r.cause);
            if let Some(kind) = kind.filter(|_| !r.key.is_empty()) {
                let by_rank = out.named_host.entry((kind, r.key.to_string())).or_default();
                *by_rank.entry(r.rank).or_default() += r.time_ns;
                continue;
            }
            let key = index.key(r.scope, r.step, r.step_label);
            let Some(cell) = index.cell(&mut out.steps, key, r.rank, r.device) else { continue };
            *cell.host.of(kind) += r.time_ns;
        }
        for r in rows::<KernelMix>(partials) {
            let key = index.key(r.scope, r.step, r.step_label);
            let Some(cell) = index.cell(&mut out.steps, key, r.rank, r.device) else { continue };
            let time = MixTime { time: r.time_ns, count: r.kernel_count };
            cell.mix.of(r.category.to_string()).add(&time);
        }
        for r in rows::<CopyTimes>(partials) {
            let key = index.key(r.scope, r.step, r.step_label);
            let Some(cell) = index.cell(&mut out.steps, key, r.rank, r.device) else { continue };
            cell.copies.of(r.direction.to_string()).add(&CopyTime {
                bytes: r.size_bytes,
                sized: r.sized_ns,
                pageable_bytes: r.pageable_bytes,
                linked: r.linked_ns,
                seen: r.seen_ns,
            });
        }
        for r in rows::<KernelRepairs>(partials) {
            let key = index.key(r.scope, r.step, r.step_label);
            let Some(cell) = index.cell(&mut out.steps, key, r.rank, r.device) else { continue };
            let Some(kind) = CauseKind::named(r.cause) else { continue };
            let time =
                RepairTime { time: r.time_ns, count: r.kernel_count, known: r.known_ns, ideal: r.ideal_ns };
            cell.repairs.of(kind).add(&time);
            if !r.operator.is_empty() {
                *out.operators.entry((kind, r.operator.to_string())).or_default() += r.time_ns;
            }
        }
        out
    }

    /// Time of all devices together, ns.
    pub(crate) fn all(&self) -> Ns {
        self.time * i64::from(self.devices)
    }

    /// Sum of one part over devices and steps, ns.
    pub(crate) fn sum(&self, part: TimePart) -> Ns {
        self.cells().map(|(_, _, c)| part.of(&c.parts)).sum()
    }

    /// All cells: index of the step, place, cell.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (usize, PartDevice, &CellOfStep)> {
        self.steps
            .iter()
            .enumerate()
            .flat_map(|(s, step)| step.cells.iter().map(move |(place, cell)| (s, *place, cell)))
    }

    /// Mean time of a step, ns.
    pub(crate) fn step_time(&self) -> Ns {
        self.length / (self.steps.len().max(1) as Ns)
    }

    /// Compute of all devices and steps by category, ns.
    pub(crate) fn mix(&self) -> BTreeMap<&str, MixTime> {
        let mut out: BTreeMap<&str, MixTime> = BTreeMap::new();
        for (_, _, cell) in self.cells() {
            for (category, time) in cell.mix.iter() {
                out.entry(category).or_default().add(time);
            }
        }
        out
    }

    /// Compute that a repair of kernels is about, over all devices and steps.
    pub(crate) fn repair(&self, kind: CauseKind) -> RepairTime {
        self.cells().filter_map(|(_, _, cell)| cell.repairs.get(&kind)).fold(
            RepairTime::default(),
            |mut sum, r| {
                sum.add(r);
                sum
            },
        )
    }
}
