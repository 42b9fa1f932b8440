//! The set of a run from its results: the windows of its steps, and the sums of its events by name and step.

use crate::diff::BY;
use crate::diff::comparable::withheld;
use crate::diff::iterations::counted;
use crate::diff::named_sums::NamedSums;
use crate::diff::owners::{GpuByOwner, KEYS_OF_TRACES};
use crate::diff::set::{Basis, Set, SetRank, WindowOfDevice, WorkSide, recorder};
use crate::results::{Picked, Results, ResultsError, columns};
use hashbrown::HashMap;
use hta_analysis::api::Options;
use hta_analysis::breakdown::Breakdowns;
use hta_analysis::inventory::Ranks;
use hta_analysis::inventory::host_by_name::HostByName;
use hta_analysis::inventory::recorders::Recorders;
use hta_analysis::iterations::tables::IterationsTable;
use hta_analysis::kernels::KernelsByName;
use hta_analysis::steps::tables::{StepSummary, StepsTable};
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_diagnosis::{Findings, TimeAccount};
use hta_job::recording::capability::{Capability, Grade};
use hta_job::recording::facts::{IN_EVENTS, Recordings};
use hta_job::recording::limit::TrustTable;
use hta_trace::step::{StepRule, misses_work};
use std::collections::{BTreeMap, BTreeSet};

columns! {
    Rank of Ranks { rank, world_size: Option<u32>, device_name: Option<Text>, step_rule: Text, step_window: Text }
}

columns! {
    Recorded of Recorders {
        rank, recorder: Text, versions: Option<Text>, has_frames: bool, has_shapes: Option<bool>,
        input_shapes: Option<Text>, recorded_ns: i64, overhead_ns: i64,
    }
}

columns! {
    Held of Recordings {
        rank, vendor: Text, recorded_start_ns: i64, step_launched_ns: i64, step_held_ns: i64,
    }
}

columns! {
    FileEnd of Recordings { rank, file_end: Text }
}

columns! {
    Period of StepSummary { rank, period: Option<u32> }
}

columns! {
    Step of StepsTable { rank, step: u32, step_label, is_partial: bool, ts_ns: i64, dur_ns: i64 }
}

columns! {
    Window of Breakdowns {
        rank, device, scope, step, step_label, is_partial, ts_ns, dur_ns, basis: Text, compute_ns: i64,
        exposed_communication_ns: i64, copies_ns: i64, communication_ns: i64, memory_ns: i64, busy_ns: i64,
    }
}

columns! {
    Divided of TimeAccount { rank, device, step: Option<u32>, step_label, part: Text, time_ns: i64 }
}

columns! {
    Kernel of KernelsByName {
        rank, scope: Text, step: Option<u32>, class: Text, name: Text, category: Text, sum_ns: i64, count: u64,
    }
}

columns! {
    Owned of GpuByOwner {
        rank, has_modules: bool, step: Option<u32>, class: Text, name: Text, owner: Text, count: u64, sum_ns: i64,
    }
}

columns! {
    Host of HostByName {
        rank, scope: Text, step, class: Text, name: Text, count: u64, host_ns: i64, host_self_ns: i64,
    }
}

columns! {
    Limited of TrustTable { rank: Option<u32>, capability: Text, grade: Text, sentence: Text }
}

/// Parts of the account of time that are communication without compute.
const EXPOSED_PARTS: [&str; 3] = ["waiting", "transfer", "unmatched"];

/// Rank, device, number of the step, and its index where it has no number.
type WindowKey = (u32, Option<i64>, Option<i64>, Option<u32>);

/// Names of makers that say nothing about the names of kernels.
const UNKNOWN_VENDORS: [&str; 2] = ["other", "none"];

/// A run as one side of a comparison: its set, its causes, and what cannot be known of it.
#[derive(Debug)]
pub struct ComparedRun {
    pub(crate) set: Set,
    /// The table `findings`; `None` where the results have none.
    pub(crate) findings: Option<Vec<Batch>>,
    /// In sentences, which begin with the name of the side.
    pub(crate) notes: Vec<String>,
}

impl ComparedRun {
    /// Reads results. `name` is what notes call them.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn read(results: &Results, name: &str, options: &Options) -> Result<Self, ResultsError> {
        let mut run = SetReader { results, name, ranks: BTreeMap::new(), notes: Vec::new() };
        run.ranks(options)?;
        run.windows()?;
        run.divide()?;
        let mut sums = NamedSums::default();
        match options.settings.text(&BY) {
            Some(by) if KEYS_OF_TRACES.contains(&by) => run.owned(&mut sums)?,
            _ => run.kernels(&mut sums)?,
        }
        run.host(&mut sums)?;
        let findings = run.table(Findings::SPEC, "causes")?;
        let iterations = run.table(IterationsTable::SPEC, "iterations")?;
        let mut ranks: Vec<SetRank> = run.ranks.into_values().collect();
        ranks.iter_mut().for_each(|rank| sums.give(rank));
        let left_out = left_out(results)?;
        let set = Set {
            shown: results.folder().display().to_string(),
            withheld: findings.as_deref().and_then(withheld),
            iterations: iterations.as_deref().map_or_else(Vec::new, counted),
            ranks,
            why_left_out: left_out.values().next().cloned(),
            left_out: left_out.into_keys().collect(),
        };
        Ok(Self { set, findings, notes: run.notes })
    }
}

/// Ranks of whose devices nothing, or only a part, is recorded, each with the reason; none where that is so
/// of all ranks.
fn left_out(results: &Results) -> Result<BTreeMap<u32, String>, ResultsError> {
    let (mut lost, mut all) = (BTreeMap::new(), BTreeSet::new());
    results.read::<Held>(|r| {
        all.insert(r.rank);
    })?;
    results.read::<Limited>(|r| {
        if r.capability == Capability::DeviceTime.name() && r.grade == Grade::Withheld.name() {
            let why = || r.sentence.to_string();
            r.rank.into_iter().for_each(|rank| {
                lost.entry(rank).or_insert_with(why);
            });
        }
    })?;
    Ok(if lost.keys().eq(&all) { BTreeMap::new() } else { lost })
}

struct SetReader<'a> {
    results: &'a Results,
    name: &'a str,
    ranks: BTreeMap<u32, SetRank>,
    notes: Vec<String>,
}

impl SetReader<'_> {
    /// Reads a table. A table or column that is missing, because the run made only some tables or another
    /// version of hta made them, is a note that `what` cannot be known. Returns whether it could be read.
    fn known<P: Picked>(
        &mut self,
        what: &str,
        each: impl FnMut(&mut BTreeMap<u32, SetRank>, P::Row<'_>),
    ) -> Result<bool, ResultsError> {
        let mut each = each;
        let ranks = &mut self.ranks;
        let why = match self.results.read::<P>(|row| each(ranks, row)) {
            Ok(true) => return Ok(true),
            Ok(false) => format!("the table `{}` is not among these results", P::TABLE),
            Err(ResultsError::Column { column, .. }) => {
                format!(
                    "the table `{}` is of another version of hta, without the column `{column}`",
                    P::TABLE
                )
            }
            Err(e) => return Err(e),
        };
        self.notes.push(format!("{}: {what}: {why}", self.name));
        Ok(false)
    }

    /// A whole table, as [`SetReader::known`]; one that is missing is no note.
    fn table(&mut self, spec: &'static TableSpec, what: &str) -> Result<Option<Vec<Batch>>, ResultsError> {
        match self.results.batches(spec) {
            Err(ResultsError::Column { column, .. }) => {
                let (name, table) = (self.name, spec.name);
                self.notes.push(format!(
                    "{name}: {what} cannot be compared: the table `{table}` has no column `{column}`"
                ));
                Ok(None)
            }
            found => found,
        }
    }

    fn ranks(&mut self, options: &Options) -> Result<(), ResultsError> {
        let mut steps_of: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
        self.results.read::<Rank>(|r| {
            let has_steps = r.step_rule != StepRule::Capture.name();
            let are_iterations =
                StepRule::ALL.iter().any(|rule| rule.name() == r.step_rule && rule.is_iteration());
            let is_on_device = r.step_window == "device";
            steps_of.insert(r.rank, (has_steps, is_on_device));
            let rank = SetRank {
                rank: r.rank,
                world: r.world_size,
                device_name: r.device_name.map(str::to_string),
                step_rule: r.step_rule.to_string(),
                has_steps,
                is_on_device: has_steps && is_on_device && !are_iterations,
                ..SetRank::default()
            };
            self.ranks.insert(r.rank, rank);
        })?;
        self.known::<Recorded>(
            "whether drivers, stacks and shapes are the same is not known",
            |ranks, r| {
                let Some(rank) = ranks.get_mut(&r.rank) else { return };
                rank.recorder = recorder(r.recorder);
                rank.versions = r.versions.map(str::to_string);
                rank.input_shapes = r.input_shapes.map(str::to_string);
                (rank.has_frames, rank.has_shapes) = (Some(r.has_frames), r.has_shapes);
                (rank.recorded, rank.overhead) = (r.recorded_ns, r.overhead_ns);
            },
        )?;
        self.known::<Held>("whether steps hold what they launch is not known", |ranks, r| {
            let Some(rank) = ranks.get_mut(&r.rank) else { return };
            let (has_steps, is_on_device) = steps_of.get(&r.rank).copied().unwrap_or_default();
            rank.recorded_start = r.recorded_start_ns;
            rank.vendor = if UNKNOWN_VENDORS.contains(&r.vendor) { "" } else { r.vendor }.to_string();
            rank.is_missed = has_steps && !is_on_device && misses_work(r.step_held_ns, r.step_launched_ns);
        })?;
        self.known::<FileEnd>("whether files are cut is not known", |ranks, r| {
            if let Some(rank) = ranks.get_mut(&r.rank) {
                rank.is_cut = r.file_end == IN_EVENTS;
            }
        })?;
        if options.model.steps.is_none() {
            self.known::<Period>("whether steps differ in turns is not known", |ranks, r| {
                if let Some(rank) = ranks.get_mut(&r.rank) {
                    rank.period = r.period;
                }
            })?;
        }
        Ok(())
    }

    fn windows(&mut self) -> Result<(), ResultsError> {
        let is_known = self.known::<Window>("steps and kernels cannot be compared", |ranks, w| {
            let Some(rank) = ranks.get_mut(&w.rank) else { return };
            let is_step = w.scope == "step" && rank.has_steps;
            if is_step || w.scope == "capture" {
                rank.windows.push(window(&w, is_step));
            }
        })?;
        if !is_known {
            self.ranks.clear();
            return Ok(());
        }
        // Of a rank that did nothing on devices or host, the length of the steps is known.
        let mut idle: BTreeSet<u32> = BTreeSet::new();
        for rank in self.ranks.values_mut().filter(|rank| rank.windows.is_empty()) {
            idle.insert(rank.rank);
            rank.windows.push(WindowOfDevice {
                ts: rank.recorded_start,
                dur: rank.recorded,
                ..WindowOfDevice::default()
            });
        }
        self.results.read::<Step>(|s| {
            let Some(rank) =
                self.ranks.get_mut(&s.rank).filter(|rank| rank.has_steps && idle.contains(&rank.rank))
            else {
                return;
            };
            let (step, label, is_partial) = (Some(s.step), s.step_label, s.is_partial);
            rank.windows.push(WindowOfDevice {
                step,
                label,
                is_partial,
                ts: s.ts_ns,
                dur: s.dur_ns,
                ..WindowOfDevice::default()
            });
        })?;
        Ok(())
    }

    /// Divides communication that no compute hides by the account of time, which has a number of a step or
    /// else its index.
    fn divide(&mut self) -> Result<(), ResultsError> {
        let mut parts: HashMap<WindowKey, [i64; 3]> = HashMap::new();
        self.known::<Divided>("waiting and transfer cannot be told apart", |_, d| {
            let Some(at) = EXPOSED_PARTS.iter().position(|part| *part == d.part) else { return };
            let key = (d.rank, d.device, d.step_label, d.step.filter(|_| d.step_label.is_none()));
            parts.entry(key).or_default()[at] += d.time_ns;
        })?;
        for (number, rank) in &mut self.ranks {
            for w in &mut rank.windows {
                let key = (*number, w.device, w.label, w.step.filter(|_| w.label.is_none()));
                let Some([waiting, transfer, unmatched]) = parts.get(&key) else { continue };
                // A window that was cut in another way keeps its communication undivided.
                if waiting + transfer + unmatched == w.exposed {
                    (w.waiting, w.transfer) = (*waiting, *transfer);
                }
            }
        }
        Ok(())
    }

    fn kernels(&mut self, sums: &mut NamedSums) -> Result<(), ResultsError> {
        self.known::<Kernel>("kernels cannot be compared", |ranks, k| {
            let Some(rank) = ranks.get(&k.rank) else { return };
            let step = match k.scope {
                "span" => None,
                "step" if rank.has_steps && k.step.is_some() => k.step,
                _ => return,
            };
            sums.add(
                k.rank,
                (WorkSide::Gpu, k.class, k.name, Some(k.category)),
                step,
                [whole(k.count), k.sum_ns, k.sum_ns],
            );
        })?;
        Ok(())
    }

    fn owned(&mut self, sums: &mut NamedSums) -> Result<(), ResultsError> {
        self.known::<Owned>("kernels cannot be compared by what launched them", |ranks, o| {
            let Some(rank) = ranks.get_mut(&o.rank) else { return };
            rank.has_modules = o.has_modules;
            sums.add(
                o.rank,
                (WorkSide::Gpu, o.class, o.name, Some(o.owner)),
                o.step,
                [whole(o.count), o.sum_ns, o.sum_ns],
            );
        })?;
        Ok(())
    }

    fn host(&mut self, sums: &mut NamedSums) -> Result<(), ResultsError> {
        self.known::<Host>(
            "host events cannot be compared, and whether both ran the same program is not known",
            |_, h| {
                let sides = (WorkSide::Host, h.class, h.name, None);
                sums.add(
                    h.rank,
                    sides,
                    h.step.filter(|_| h.scope == "step"),
                    [whole(h.count), h.host_ns, h.host_self_ns],
                );
            },
        )?;
        Ok(())
    }
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn window(w: &Window, is_step: bool) -> WindowOfDevice {
    WindowOfDevice {
        device: w.device,
        basis: Basis::of(w.basis),
        step: w.step.filter(|_| is_step),
        label: w.step_label.filter(|_| is_step),
        is_partial: is_step && w.is_partial == Some(true),
        ts: w.ts_ns,
        dur: w.dur_ns,
        compute: w.compute_ns,
        exposed: w.exposed_communication_ns,
        waiting: 0,
        transfer: 0,
        copies: w.copies_ns,
        communication: w.communication_ns,
        memory: w.memory_ns,
        busy: w.busy_ns,
    }
}
