//! `host_compile`: the device idles while the host compiles, tunes kernels, or records a graph.

use crate::cause_words::CauseWords;
use crate::compilers::{AGAIN, Compiler, compiler_shown};
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LAUNCHING, LostRule, OfHost};

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_compile",
    evidence: "I while the host is in a range of a compiler, of a tuner of kernels, or of the recording of a \
               graph (`dynamo_timed`; by their names, others that launch nothing). In the first two steps: \
               once",
    owns: "I, S behind it",
    shown_by: "tests/it/analyses/owners.rs",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::Any(|host, m| host.compiler(m)),
        late_by: LAUNCHING,
        words,
        // The parts of a compiler are rows of their own.
        names_parts: |_| false,
        finish: |_, cause| cause.is_once = cause.key.is_empty(),
        tint: Some(5),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

fn words(w: &LostWords) -> CauseWords {
    let name = w.top.first().map_or("", |t| t.name);
    let (what, name) = (Compiler::of(name), compiler_shown(name));
    let (is_again, idles) = (w.key == AGAIN, w.device_of_ranks("idles"));
    let (does, noun) = (what.does(is_again), w.trust.step_noun());
    let steps: Vec<&str> = w.large_steps.iter().map(String::as_str).collect();
    let when = match steps.len() {
        1 => format!("{noun} {}", steps.join("")),
        n if n * 2 < w.step_count => format!("{noun}s {}", steps.join(", ")),
        n => format!("{n} of {} {noun}s", w.step_count),
    };
    let sentence = match is_again {
        true => format!("{idles} while the host {does} in {when}: {name}"),
        false => format!("{idles} while {name} {does}, once"),
    };
    CauseWords::new(sentence, w.idle(), what.action(is_again))
}
