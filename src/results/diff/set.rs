//! One set of traces: ranks with their steps, and their sums by name.

use crate::diff::iterations::CountedIteration;
use hashbrown::HashSet;
use hta_base::units::Ns;
use hta_trace::meta::Recorder;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct Set {
    /// The path as the user wrote it.
    pub shown: String,
    /// Why the set has no diagnosis, if it has none.
    pub withheld: Option<String>,
    /// Iterations of an inference engine that count.
    pub iterations: Vec<CountedIteration>,
    pub ranks: Vec<SetRank>,
    /// Ranks of whose devices one side has recorded nothing, or a part only.
    pub left_out: Vec<u32>,
    /// Why this side cannot tell of some of them, if it cannot.
    pub why_left_out: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct SetRank {
    pub rank: u32,
    pub(crate) recorder: Recorder,
    pub(crate) world: Option<u32>,
    pub(crate) device_name: Option<String>,
    /// Maker of the devices; empty where it is not known or there are none.
    pub(crate) vendor: String,
    /// How steps were found.
    pub(crate) step_rule: String,
    /// Mark of the shapes of all inputs of operators, where they are recorded.
    pub(crate) input_shapes: Option<String>,
    pub(crate) has_modules: bool,
    /// Whether Python frames are recorded, where that is known.
    pub(crate) has_frames: Option<bool>,
    pub(crate) has_shapes: Option<bool>,
    /// Of the driver and the runtime.
    pub(crate) versions: Option<String>,
    /// Start of the first recorded event, ns.
    pub(crate) recorded_start: Ns,
    /// Length of the capture, and time of it in which the profiler itself worked, ns.
    pub(crate) recorded: Ns,
    pub(crate) overhead: Ns,
    pub(crate) has_steps: bool,
    /// Whether steps have the windows of the device.
    pub(crate) is_on_device: bool,
    /// Whether steps have the windows of the host, which miss what they launch.
    pub(crate) is_missed: bool,
    /// Whether its file ends in the middle of its events.
    pub(crate) is_cut: bool,
    /// Every how many steps one launches more.
    pub(crate) period: Option<u32>,
    /// Sorted by device, then step.
    pub(crate) windows: Vec<WindowOfDevice>,
    pub(crate) keys: Vec<CellKey>,
    pub(crate) cells: Vec<KeyedStep>,
}

/// A step of one device, or the whole capture if there is no index.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WindowOfDevice {
    pub(crate) device: Option<i64>,
    pub(crate) basis: Basis,
    pub(crate) step: Option<u32>,
    pub(crate) label: Option<i64>,
    pub(crate) is_partial: bool,
    pub(crate) ts: Ns,
    pub(crate) dur: Ns,
    pub(crate) compute: Ns,
    /// Communication that no compute hides, and what is known of its parts.
    pub(crate) exposed: Ns,
    pub(crate) waiting: Ns,
    pub(crate) transfer: Ns,
    pub(crate) copies: Ns,
    pub(crate) communication: Ns,
    pub(crate) memory: Ns,
    pub(crate) busy: Ns,
}

/// Whether the parts of a step are device or host work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Basis {
    Gpu,
    Cpu,
    #[default]
    None,
}

impl Basis {
    const ALL: [Basis; 3] = [Basis::Gpu, Basis::Cpu, Basis::None];

    pub fn of(name: &str) -> Basis {
        Basis::ALL.into_iter().find(|k| k.name() == name).unwrap_or(Basis::None)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Basis::Gpu => "gpu",
            Basis::Cpu => "cpu",
            Basis::None => "none",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WorkSide {
    Gpu,
    Host,
}

impl WorkSide {
    pub(crate) fn name(self) -> &'static str {
        match self {
            WorkSide::Gpu => "gpu",
            WorkSide::Host => "host",
        }
    }
}

/// Identifies sums of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CellKey {
    pub(crate) side: WorkSide,
    pub(crate) class: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) owner: Option<Arc<str>>,
}

#[derive(Debug, Clone, Copy)]
pub struct KeyedStep {
    /// Index into the keys.
    pub(crate) key: u32,
    /// `None` for the capture.
    pub(crate) step: Option<u32>,
    pub(crate) count: i64,
    pub(crate) ns: Ns,
    pub(crate) own: Ns,
}

impl Set {
    /// Leaves out ranks of which a side cannot tell.
    pub fn without(&mut self, ranks: &[u32]) {
        self.ranks.retain(|r| !ranks.contains(&r.rank));
        self.iterations.retain(|i| !ranks.contains(&i.rank));
        self.left_out = ranks.to_vec();
        self.left_out.sort_unstable();
        self.left_out.dedup();
    }
}

/// The recorder of a name; an unknown one is taken for the usual one.
pub(crate) fn recorder(name: &str) -> Recorder {
    Recorder::ALL.into_iter().find(|r| r.name() == name).unwrap_or_default()
}

/// Interned texts, because the ranks of a job share names.
#[derive(Default)]
pub(crate) struct SetTexts(HashSet<Arc<str>>);

impl SetTexts {
    pub(crate) fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}
