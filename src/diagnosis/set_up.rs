//! What lies before the first forward pass of a recording without steps: models are built, data is opened,
//! process groups are joined. It happens once, whatever a step costs.
//!
//! ```text
//!   host     [build the model.....][forward][backward]...
//!   device     [i][i][i]    [copy]    [==)[=)[===)[==)      at most 5 % of the compute stands before,
//!   owner    SS  S  S  SSSSSSSSSSSSSSS                       beside kernels i that initialise weights
//! ```
//!
//! S is set-up. Where only later parts of a step have a range, it ends with the first launch of a kernel that
//! initialises no weights.

use crate::CauseKind;
use crate::piece::LostPiece;
use hta_base::units::{Ns, Span};
use hta_facts::kernel_work::KernelWorks;
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::timeline::WorkClass;

/// Smallest share of the capture that the set-up takes, percent: less is the way to any forward pass.
const LEAST_PCT: Ns = 10;

/// Largest share of the compute that stands before the first forward pass, beside kernels that initialise
/// weights, percent: a recording that begins in the middle of a step has more.
const COMPUTE_PCT: Ns = 5;

/// What only the model itself runs.
const MODEL: [Category; 4] = [Category::Gemm, Category::Attention, Category::Convolution, Category::Moe];

/// Cuts lost time, which is in order, at the end of the set-up, and gives what lies before to the set-up.
pub(super) fn by_set_up(end: Option<Ns>, mut lost: Vec<LostPiece>) -> Vec<LostPiece> {
    let Some(end) = end else { return lost };
    let first = lost.partition_point(|p| p.span.end <= end);
    if let Some(cut) = lost.get(first).copied().filter(|p| p.span.start < end) {
        lost[first].span.start = end;
        lost.insert(first, LostPiece { span: Span::new(cut.span.start, end), ..cut });
    }
    for p in lost.iter_mut().take_while(|p| p.span.end <= end) {
        (p.kind, p.row) = (CauseKind::SetUp, u32::MAX);
    }
    lost
}

/// When the set-up ends: where the first range of a step's parts, or call of a module, begins; `None` if
/// there are steps, or if it is not the beginning of the work.
pub(super) fn end_of_set_up(trace: &RankTrace, work: &DeviceWork) -> Option<Ns> {
    if trace.steps.rule != StepRule::Capture || !work.is_gpu {
        return None;
    }
    let is_mark = trace.columns.strings.each(|name| is_forward(name) || is_later(name));
    let is_kind = |row: &u32| matches!(trace.classes[*row as usize], Class::Annotation | Class::Python);
    let rows = trace.host_rows().iter().flat_map(|(_, rows)| rows).filter(|row| is_kind(row));
    let marks = rows.filter(|row| is_mark.holds(trace.columns.name(**row as usize)));
    let (start, mark) = marks.map(|row| (trace.span(*row).start, *row)).min()?;
    let is_long = |end: Ns| (end - work.capture.start) * 100 >= work.capture.len() * LEAST_PCT;
    let works = KernelWorks::of(trace);
    let is_init =
        |a: u32| matches!(works.at(a).category, Category::Random | Category::Elementwise | Category::Layout);
    let activity = |a: u32| &trace.activities[a as usize];
    let compute = work.activities.iter().copied().filter(|a| activity(*a).work == WorkClass::Compute);
    let of_steps = compute.filter(|a| !is_init(*a));
    let before: Vec<u32> = of_steps.take_while(|a| activity(*a).span.start < start).collect();
    let all = work.timeline.when(WorkClass::Compute).len();
    // A model that runs there, as in an evaluation, is no set-up.
    let runs = before.iter().any(|a| MODEL.contains(&works.at(*a).category));
    if !runs && before.iter().map(|a| activity(*a).span.len()).sum::<Ns>() * 100 <= all * COMPUTE_PCT {
        return Some(start).filter(|end| is_long(*end));
    }
    let before = before.first().map(|a| activity(*a));
    let first = before.filter(|_| !is_forward(trace.name(mark)))?;
    let launched = first.launch().map_or(first.span.start, |row| trace.span(row).start);
    let is_built = |a: &u32| trace.activities[*a as usize].span.end <= launched && is_init(*a);
    (is_long(launched) && work.activities.iter().any(is_built)).then_some(launched)
}

/// Whether one of the words stands in the name of a range.
fn has_word(name: &str, words: &[&str]) -> bool {
    let is_one = |part: &str| words.iter().any(|word| part.eq_ignore_ascii_case(word));
    !name.contains(".py(") && name.split(|c: char| !c.is_ascii_alphabetic()).any(is_one)
}

fn is_forward(name: &str) -> bool {
    name.starts_with("nn.Module: ") || has_word(name, &["forward", "fwd"])
}

/// Whether a name is of a part of a step that follows a forward pass.
fn is_later(name: &str) -> bool {
    name.starts_with("Optimizer.step#") || has_word(name, &["backward", "bwd"])
}
