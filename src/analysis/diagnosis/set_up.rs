//! What lies before the first forward pass of a recording without steps: models are built, data is opened,
//! process groups are joined. It happens once, whatever a step costs.
//!
//! ```text
//!   host     [build the model.....][forward][backward]...
//!   device                  [copy]    [==)[=)[===)[==)      at most 5 % of the compute stands before
//!   owner    SSSSSSSSSSSSSSS      SSSS                       S: set-up
//! ```

use crate::diagnosis::CauseKind;
use crate::diagnosis::piece::LostPiece;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::timeline::WorkClass;

/// Smallest share of the capture that the set-up takes, percent: less is the way to any forward pass.
const LEAST_PCT: Ns = 10;

/// Largest share of the compute that stands before the first forward pass, percent: a recording that begins
/// in the middle of a step has more.
const COMPUTE_PCT: Ns = 5;

/// Cuts idle time, which is in order, at the start of the first forward pass, and gives what lies before to
/// the set-up.
pub(super) fn by_set_up(trace: &RankTrace, work: &DeviceWork, mut idle: Vec<LostPiece>) -> Vec<LostPiece> {
    let Some(start) = first_forward(trace, work) else { return idle };
    let first = idle.partition_point(|p| p.span.end <= start);
    if let Some(cut) = idle.get(first).copied().filter(|p| p.span.start < start) {
        idle[first].span.start = start;
        idle.insert(first, LostPiece { span: Span::new(cut.span.start, start), ..cut });
    }
    for p in idle.iter_mut().take_while(|p| p.span.end <= start) {
        (p.kind, p.row) = (CauseKind::SetUp, u32::MAX);
    }
    idle
}

/// When the first range of a forward pass, or call of a module, begins; `None` if there are steps, or if it
/// is not the beginning of the work.
fn first_forward(trace: &RankTrace, work: &DeviceWork) -> Option<Ns> {
    if trace.steps.rule != StepRule::Capture || !work.is_gpu {
        return None;
    }
    let forward = trace.columns.strings.each(is_forward);
    let is_kind = |row: &u32| matches!(trace.classes[*row as usize], Class::Annotation | Class::Python);
    let rows = trace.host_rows().iter().flat_map(|(_, rows)| rows).filter(|row| is_kind(row));
    let of_forward = rows.filter(|row| forward.holds(trace.columns.name(**row as usize)));
    let start = of_forward.map(|row| trace.span(*row).start).min()?;
    let compute = work.timeline.when(WorkClass::Compute);
    let before = compute.len_in(Span::new(work.capture.start.min(start), start));
    let is_long = (start - work.capture.start) * 100 >= work.capture.len() * LEAST_PCT;
    (is_long && before * 100 <= compute.len() * COMPUTE_PCT).then_some(start)
}

fn is_forward(name: &str) -> bool {
    let is_word = |word: &str| word.eq_ignore_ascii_case("forward") || word.eq_ignore_ascii_case("fwd");
    name.starts_with("nn.Module: ")
        || !name.contains(".py(") && name.split(|c: char| !c.is_ascii_alphabetic()).any(is_word)
}
