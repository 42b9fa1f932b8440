//! What a diagnosis says to a reader: two sentences, the most important causes, and the totals of the job.

use hta_base::units::Ns;
use serde::Serialize;

/// A cause as it is printed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ToldCause {
    pub finding_id: String,
    /// Kind of cause, as in the table `findings`.
    pub kind: &'static str,
    pub ranks: Vec<u32>,
    pub sentence: String,
    /// The numbers that show it, as a sentence; empty if the first one has them.
    pub detail: String,
    /// Line or function of the user's code, with the module; empty if it is not recorded.
    pub place: String,
    /// What fixing it saves, and its share of the step; empty if it saves no time.
    pub saved: String,
    /// The same of what only a later recording saves, and not the job itself.
    #[serde(skip)]
    pub once: String,
    /// The same as a share of the job's time, percent.
    pub saved_pct: f64,
    /// The number that supports it best.
    pub evidence: String,
    pub action: String,
    /// The command whose answer shows it.
    pub command: &'static str,
    /// Why it is not to be trusted fully.
    pub reason: Option<String>,
    /// sure, likely, at most or withheld.
    pub certainty: &'static str,
}

/// The parts of the time of all devices, which sum to it: columns of tables and fields of the totals, with
/// their words.
pub const TIME_PARTS: [(&str, &str); 8] = [
    ("compute_ns", "compute"),
    ("fused_ns", "fused"),
    ("waiting_ns", "waiting"),
    ("transfer_ns", "transfer"),
    ("unmatched_ns", "unmatched"),
    ("copies_ns", "copies"),
    ("idle_ns", "idle"),
    ("finished_early_ns", "finished early"),
];

/// Where the time of all devices went, summed over devices and steps, ns; and the factors of the efficiency,
/// in (0, 1].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct JobTotals {
    pub device_count: u32,
    pub step_count: u32,
    /// Sum over the steps of the longest window of the devices.
    pub time_ns: Ns,
    /// Length of the steps, of which gains are shares: the most that the windows of one device take together.
    pub length_ns: Ns,
    /// The longest of them.
    #[serde(skip)]
    pub longest_step_ns: Ns,
    pub compute_ns: Ns,
    pub fused_ns: Ns,
    pub waiting_ns: Ns,
    pub transfer_ns: Ns,
    pub unmatched_ns: Ns,
    pub copies_ns: Ns,
    pub idle_ns: Ns,
    pub finished_early_ns: Ns,
    pub parallel_efficiency: Option<f64>,
    pub load_balance: Option<f64>,
    pub communication_efficiency: Option<f64>,
    pub orchestration_efficiency: Option<f64>,
}

/// The diagnosis of a job in words.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct JobVerdict {
    /// What costs most and what fixing it saves; then the numbers that show it, and where it is.
    pub lines: [String; 2],
    /// What users of such jobs look for first: phase, batch, time a token and tokens a second of an engine.
    pub headline: Option<String>,
    /// The energy of a step, and of a token where tokens are known; `None` where it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<String>,
    /// The ranks that were read, and what the recording lacks.
    pub recorded: String,
    /// The most important first.
    pub causes: Vec<ToldCause>,
    /// Number of causes that are only in the table.
    pub more: usize,
    /// Remarks on what the causes leave open.
    pub notes: Vec<String>,
    /// Kind and gain of every cause that is not withheld, percent of the job's time,
    pub gains: Vec<(&'static str, f64)>,
    /// and of those that only a later recording saves.
    #[serde(skip)]
    pub once: Vec<(&'static str, f64)>,
    pub totals: JobTotals,
    /// Compute by category of kernel, the largest first, percent.
    pub mix: Vec<(String, f64)>,
    /// The operators with the most time of their own, on the devices or, in a job without, on the host; the
    /// largest first, percent.
    pub operators: Vec<(String, f64)>,
}

impl JobVerdict {
    /// Whether the job runs on CPUs alone.
    pub fn is_of_host(&self) -> bool {
        self.mix.is_empty() && !self.operators.is_empty()
    }
}
