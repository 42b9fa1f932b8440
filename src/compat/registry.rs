//! The list of all answers, and the choice of the analyses of a run.

use crate::{hta, osdi25, tensorboard, tracelens};
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_analysis::settings::Settings;
use hta_diagnosis::registry::ANALYSES;
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;
use std::sync::LazyLock;

/// The tool or paper whose definitions are used in place of hta's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// Meta's Holistic Trace Analysis 0.5.0.
    Hta,
    /// AMD's TraceLens.
    TraceLens,
    /// The distributed view of the PyTorch TensorBoard plugin.
    TensorBoard,
    /// The what-if analysis of the OSDI'25 paper, on its own timeline format.
    Osdi25,
}

impl Compat {
    /// The tools that `--compat` selects. The other variants are methods of one analysis, which `--method`
    /// selects.
    pub const TOOLS: [Self; 2] = [Self::Hta, Self::TraceLens];

    /// The value of the option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hta => hta::NAME,
            Self::TraceLens => tracelens::NAME,
            Self::TensorBoard => "shortest",
            Self::Osdi25 => "published",
        }
    }
}

/// The option of an analysis that chooses one of these definitions.
const METHOD: &str = "--method";

/// Every answer, in the order of the analyses that they replace.
pub const ANSWERS: &[(Compat, &dyn Analysis)] = &[
    (Compat::Hta, &hta::breakdown::HtaBreakdown),
    (Compat::Hta, &hta::stragglers::HtaStragglers),
    (Compat::Hta, &hta::overlap::HtaOverlap),
    (Compat::Hta, &hta::idle::HtaIdle),
    (Compat::Hta, &hta::launches::HtaLaunches),
    (Compat::Hta, &hta::queue::HtaQueue),
    (Compat::Hta, &hta::copies::Copies),
    (Compat::Hta, &hta::kernels::HtaKernels),
    (Compat::Hta, &hta::patterns::HtaPatterns),
    (Compat::Hta, &hta::annotations::HtaAnnotations),
    (Compat::Hta, &hta::cupti::HtaCupti),
    (Compat::Hta, &hta::diff::HtaDiff),
    (Compat::TraceLens, &tracelens::breakdown::TraceLensBreakdown),
    (Compat::TensorBoard, &tensorboard::sync::PluginSync),
    (Compat::Osdi25, &osdi25::what_if::PublishedWhatIf),
];

/// The answer of `by` that replaces the analysis with this stem.
pub fn find(by: Compat, stem: &str) -> Option<&'static dyn Analysis> {
    ANSWERS.iter().find(|(of, a)| *of == by && a.stem() == stem).map(|(_, a)| *a)
}

/// The answer that the `--method` of an analysis names, where it is not hta's own.
pub fn of_method(analysis: &dyn Analysis, settings: &Settings) -> Option<Compat> {
    let method = analysis.about().settings.iter().find(|s| s.flag == METHOD)?;
    let name = settings.text(method)?;
    ANSWERS.iter().find(|(by, a)| a.stem() == analysis.stem() && by.name() == name).map(|(by, _)| *by)
}

/// All answers that replace the analysis with this stem.
pub fn of(stem: &str) -> impl Iterator<Item = &'static dyn Analysis> {
    ANSWERS.iter().map(|(_, a)| *a).filter(move |a| a.stem() == stem)
}

/// The analyses of a run, in the requested order. With `by`, each one is replaced by its answer, or by a
/// placeholder if there is no answer.
pub fn chosen(by: Option<Compat>, analyses: &[&'static dyn Analysis]) -> Vec<&'static dyn Analysis> {
    let Some(by) = by else { return analyses.to_vec() };
    analyses.iter().filter_map(|a| find(by, a.stem()).or_else(|| unanswered(a.stem()))).collect()
}

/// Placeholder for an analysis that has no answer in the chosen definitions: it has neither tables nor views.
/// It joins ranks as the analysis does, because the clocks in the table `ranks` are computed from the joined
/// ranks.
struct Unanswered(&'static dyn Analysis);

fn unanswered(stem: &str) -> Option<&'static dyn Analysis> {
    static ALL: LazyLock<Vec<Unanswered>> =
        LazyLock::new(|| ANALYSES.iter().map(|a| Unanswered(*a)).collect());
    ALL.iter().find(|a| a.about().stem == stem).map(|a| a as &dyn Analysis)
}

impl Analysis for Unanswered {
    fn about(&self) -> About {
        let About { stem, title, explain, joins_ranks, joins_peers, .. } = self.0.about();
        let (needs_known_events, takes_steps) = (false, false);
        About {
            stem,
            title,
            explain,
            joins_ranks,
            joins_peers,
            needs_known_events,
            takes_steps,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial { rank: trace.rank, ..Partial::default() }
    }

    fn reduce(&self, _: &[Partial], _: &Job, _: &Options) -> Output {
        Output::default()
    }
}
