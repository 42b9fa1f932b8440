//! `host_compile`: the device idles while the host compiles, tunes kernels, or records a graph.

use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::compilers::{Compiler, compiler};
use crate::diagnosis::lost_words::LostWords;
use crate::diagnosis::rule::{CauseFamily, CauseRule, LostRule, OfHost};

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_compile",
    evidence: "I while the host is in a range of a compiler, of a tuner of kernels, or of the recording of a \
               graph (`dynamo_timed`; by their names, others that launch nothing). In the first two steps: \
               once",
    owns: "I, S behind it",
    shown_by: "tests/it/analyses/owners.rs",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::Any(|host, m| host.compiler(m)),
        words,
        // The parts of a compiler are rows of their own.
        names_parts: |_| false,
        finish: |context, cause| cause.is_once = later(&context.large_steps(cause)).is_empty(),
        tint: Some(5),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

/// Number of steps at the beginning in which programs compile for the first time.
const FIRST_STEPS: usize = 2;

/// The steps in which something is compiled again.
fn later(steps: &[(usize, String)]) -> Vec<&str> {
    steps.iter().filter(|(i, _)| *i >= FIRST_STEPS).map(|(_, step)| step.as_str()).collect()
}

fn words(w: &LostWords) -> CauseWords {
    let what = w.top.first().and_then(|t| compiler(t.name)).map_or(Compiler::Code, |(what, _)| what);
    let later = later(&w.large_steps);
    let (once, again) = match what {
        Compiler::Code => ("compiles", "recompiles"),
        Compiler::Tuning => ("tunes kernels", "tunes kernels again"),
        Compiler::Graph => ("records a graph", "records graphs again"),
    };
    let idles = w.device_of_ranks("idles");
    if later.is_empty() {
        return CauseWords::new(
            format!("{idles} while {} {once}, once", w.top_name()),
            w.idle(),
            "record after a warm-up: run some iterations before the profiler starts, as schedule(warmup=...) \
             does",
        );
    }
    let noun = w.trust.step_noun();
    let when = match later.len() {
        1 => format!("in {noun} {}", later.join("")),
        n if n * 2 <= w.step_count => format!("in {noun}s {}", later.join(", ")),
        n => format!("in {n} of {} {noun}s", w.step_count),
    };
    let action = match what {
        Compiler::Code => {
            "find out why (TORCH_LOGS=recompiles): an input whose shape or value changes; pad it to a few \
             sizes, mark it as dynamic, or compile all sizes in a warm-up"
        }
        Compiler::Tuning => "keep the results of tuning (a cache on disk), or pad inputs to a few sizes",
        Compiler::Graph => "pad inputs to a few sizes, and record the graphs of all of them in a warm-up",
    };
    CauseWords::new(format!("{idles} while the host {again} {when}: {}", w.top_name()), w.idle(), action)
}
