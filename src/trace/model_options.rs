//! Options of the data model, and which steps are selected.

use crate::graph_capture::Captures;
use crate::record_edges::HIDDEN_MIN;
use crate::rules::ClassRules;
use crate::step::{Step, StepWindow};
use hta_base::units::Ns;
use regex::Regex;
use std::sync::Arc;

/// Options of the data model; the same for all ranks of a set.
pub struct ModelOptions {
    pub rules: ClassRules,
    pub step_pattern: Option<Regex>,
    pub step_window: StepWindow,
    /// Leave out activities without a launch record.
    pub linked_only: bool,
    /// Steps to select; all if absent.
    pub steps: Option<StepFilter>,
    /// Shortest wait of a stream's first activity that is evidence of work from before the recording, ns.
    pub hidden_min: Ns,
    /// Captured graphs whose operators name the kernels of replays.
    pub graph_captures: Arc<Captures>,
}

impl ModelOptions {
    /// Whether a step is selected.
    pub fn selects(&self, step: &Step) -> bool {
        self.steps.as_ref().is_none_or(|f| f.keeps(step.index, step.label))
    }
}

impl Default for ModelOptions {
    /// The options of a command without arguments.
    fn default() -> Self {
        Self {
            rules: ClassRules::builtin(),
            step_pattern: None,
            step_window: StepWindow::default(),
            linked_only: false,
            steps: None,
            hidden_min: HIDDEN_MIN,
            graph_captures: Arc::default(),
        }
    }
}

/// `--steps`: labels, or indices written `@n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepFilter {
    pub labels: Vec<(i64, i64)>,
    pub indices: Vec<(u32, u32)>,
}

impl std::fmt::Display for StepFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let run = |mark: &str, a: i64, b: i64| match a == b {
            true => format!("{mark}{a}"),
            false => format!("{mark}{a}-{mark}{b}"),
        };
        let labels = self.labels.iter().map(|(a, b)| run("", *a, *b));
        let indices = self.indices.iter().map(|(a, b)| run("@", i64::from(*a), i64::from(*b)));
        f.write_str(&labels.chain(indices).collect::<Vec<_>>().join(","))
    }
}

impl StepFilter {
    pub fn keeps(&self, index: u32, label: Option<i64>) -> bool {
        self.indices.iter().any(|(a, b)| (*a..=*b).contains(&index))
            || label.is_some_and(|l| self.labels.iter().any(|(a, b)| (*a..=*b).contains(&l)))
    }
}
