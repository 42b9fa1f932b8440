//! Events of a host thread that own what happens inside them: compilers, and events of 1 ms and longer that
//! launch nothing and wait for nothing.
//!
//! ```text
//!   host     [compile [op]  [call]     )  [range  [op]   )  [op [launch]  )
//!   owner     CCCCCCCCCCCCCCCCCCCCCCCCC    RRRRRRRRRRRRRR                     C: all inside is compiled
//! ```

use crate::compilers::compiler;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::{HostActivity, HostNames, HostUse};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::ByText;
use hta_trace::thread::InnermostTimeline;

/// An event that launches nothing owns what happens inside it from this length on, ns.
pub(super) const QUIET_MIN: Ns = 1_000_000;

/// Code outside operators counts as a stretch of its own from this length on; below it is the ordinary time
/// between two operators, ns.
pub(crate) const CODE_MIN: Ns = 200_000;

/// Part of a step that is long for one stretch of a host.
const LONG_PART: Ns = 20;

/// Such events of one thread.
#[derive(Default)]
pub(super) struct OwnRanges {
    /// Without launches; by the innermost.
    quiet: InnermostTimeline,
    /// Of compilers, the outermost; disjoint and in order.
    compilers: Vec<(Span, u32)>,
}

/// `QUIET_MIN`, or in short steps the part of a step from which time is looked at.
pub(super) fn long_min(trace: &RankTrace) -> Ns {
    median_step(trace).map_or(QUIET_MIN, |step| part_of_short(step, LONG_PART))
}

/// `QUIET_MIN`, or of a short step one of so many parts, which is no ordinary time between two operators.
pub(super) fn part_of_short(step: Ns, parts: Ns) -> Ns {
    QUIET_MIN.min(step / parts).max(CODE_MIN)
}

/// Length of the middle one of the steps' windows; `None` without steps.
pub(super) fn median_step(trace: &RankTrace) -> Option<Ns> {
    median(&mut trace.steps.steps.iter().map(|s| s.window.len()).collect::<Vec<_>>())
}

/// Whether the thread runs an operator.
pub(super) fn is_operator(u: &HostUse) -> bool {
    matches!(u.activity, HostActivity::Operator | HostActivity::CommunicationOperator)
}

/// Whether the thread runs code that is neither an operator nor a call.
pub(super) fn is_code(u: &HostUse) -> bool {
    matches!(u.activity, HostActivity::Python | HostActivity::Annotation | HostActivity::Untracked)
}

/// By name: whether events compile, and whether the name alone shows it.
pub(super) type CompilerNames = ByText<Option<bool>>;

/// The names of compilers in a trace; `None` if there are none.
pub(super) fn compiler_names(trace: &RankTrace) -> Option<CompilerNames> {
    let names = trace.columns.strings.each(|text| compiler(text).map(|(_, is_sure)| is_sure));
    names.any(Option::is_some).then_some(names)
}

impl OwnRanges {
    /// Those of the thread with these events, outer ones first. `launches`: its calls that launch work, in
    /// order; `blocked`: when it waits for the device; `long`: the least length of an event without launches.
    pub(super) fn new(
        trace: &RankTrace,
        (names, compilers): (&HostNames, Option<&CompilerNames>),
        rows: &[u32],
        (launches, blocked): (&[Span], &Union),
        long: Ns,
    ) -> Self {
        let name = |row: u32| trace.columns.name(row as usize);
        let is_quiet = |row: &u32| {
            let span = trace.span(*row);
            let is_kind = || match trace.classes[*row as usize] {
                Class::HostOp => names.activity(trace, *row) == HostActivity::Operator,
                Class::Annotation => {
                    names.activity(trace, *row) == HostActivity::Annotation && !names.is_step(trace, *row)
                }
                Class::Python => true,
                _ => false,
            };
            let next = || launches.get(launches.partition_point(|l| l.start < span.start));
            span.len() >= long
                && is_kind()
                && next().is_none_or(|l| l.start >= span.end)
                && blocked.len_in(span) == 0
        };
        let quiet: Vec<u32> = rows.iter().copied().filter(is_quiet).collect();
        let mut out =
            Self { quiet: InnermostTimeline::new(&quiet, &trace.columns, |_| false), ..Self::default() };
        let Some(compilers) = compilers else { return out };
        let is = |row: &u32, is_sure: bool| compilers.get(name(*row)) == Some(&Some(is_sure));
        out.add_compilers(trace, rows.iter().copied().filter(|row| is(row, true)));
        out.add_compilers(trace, quiet.into_iter().filter(|row| is(row, false)));
        out
    }

    /// Adds the outermost of these events that share no time with those that are known.
    fn add_compilers(&mut self, trace: &RankTrace, rows: impl Iterator<Item = u32>) {
        let known = Union::new(self.compilers.iter().map(|(span, _)| *span));
        let mut until = Ns::MIN;
        for row in rows {
            let span = trace.span(row);
            if span.start >= until && !span.is_empty() && known.len_in(span) == 0 {
                self.compilers.push((span, row));
                until = span.end;
            }
        }
        self.compilers.sort_unstable_by_key(|(span, row)| (span.start, *row));
    }

    /// The outermost compiler in which a use lies.
    pub(super) fn compiler_at(&self, u: &HostUse) -> Option<u32> {
        let next = self.compilers.partition_point(|(span, _)| span.end <= u.span.start);
        self.compilers.get(next).filter(|(span, _)| span.start <= u.span.start).map(|(_, row)| *row)
    }

    /// The innermost event without launches in which an operator or a call runs.
    pub(super) fn quiet_at(&self, u: &HostUse) -> Option<u32> {
        let is_own = matches!(u.activity, HostActivity::Operator | HostActivity::RuntimeCall);
        let piece = is_own.then(|| self.quiet.from(u.span.start).next()).flatten();
        piece.filter(|p| p.span.start <= u.span.start).map(|p| p.row)
    }

    /// When an event without launches is open.
    pub(super) fn quiet(&self) -> impl Iterator<Item = Span> {
        self.quiet.from(Ns::MIN).map(|p| p.span)
    }
}
