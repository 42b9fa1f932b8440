//! The first cause of traces in which it is known, read from `tests/data/acceptance.json`.
//!
//! A row has the trace (`shared:` is below the folder of real traces), the kind of the first cause (`null`: none is
//! listed), and optionally its ranks, kinds that must be listed, texts that the printed diagnosis must and must not
//! contain, the range of the gain in percent, and how sure the first cause.

use crate::run::{Answer, answer, options};
use crate::shared;
use hta::analysis::verdict::JobVerdict;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    trace: String,
    first: Option<String>,
    ranks: Option<String>,
    #[serde(default)]
    listed: Vec<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    gain_pct: Option<(f64, f64)>,
    certainty: Option<String>,
    #[serde(default, rename = "why")]
    _why: String,
}

fn expected() -> Vec<Expected> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/acceptance.json");
    serde_json::from_slice(&std::fs::read(path).expect("the list can be read"))
        .expect("the list has this form")
}

fn verdict(answer: &Answer) -> &JobVerdict {
    let made = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref());
    made.expect("a run of all analyses has a verdict")
}

/// All words of a verdict.
fn words(told: &JobVerdict) -> String {
    let mut out: Vec<&str> = told.lines.iter().map(String::as_str).collect();
    for c in &told.causes {
        out.extend([c.sentence.as_str(), &c.detail, &c.place, &c.saved, &c.evidence, &c.action]);
        out.extend(c.reason.as_deref());
    }
    out.extend(told.notes.iter().map(String::as_str));
    out.join("\n")
}

/// What differs from the expectation.
fn mistakes(e: &Expected, trace: PathBuf) -> Vec<String> {
    let answer = answer(&[trace], &options());
    let told = verdict(&answer);
    let text = words(told);
    let rows = answer.rows("findings");
    let mut wrong = Vec::new();
    let first = told.causes.first();
    if first.map(|c| c.kind) != e.first.as_deref() {
        wrong.push(format!("first is {:?}", first.map(|c| c.kind)));
    }
    let row = first.and_then(|c| rows.iter().find(|r| r.text("finding_id") == c.finding_id));
    let cell = |column: &str| row.map_or("", |r| r.text(column)).to_string();
    if e.ranks.as_ref().is_some_and(|ranks| *ranks != cell("ranks")) {
        wrong.push(format!("ranks are {}", cell("ranks")));
    }
    if e.certainty.as_ref().is_some_and(|certainty| *certainty != cell("certainty")) {
        wrong.push(format!("it is {}", cell("certainty")));
    }
    let gain = first.map_or(0.0, |c| c.saved_pct);
    if e.gain_pct.is_some_and(|(least, most)| !(least..=most).contains(&gain)) {
        wrong.push(format!("the gain is {gain:.1} %"));
    }
    wrong.extend(
        e.listed
            .iter()
            .filter(|k| !told.causes.iter().any(|c| c.kind == **k))
            .map(|k| format!("{k} is not listed")),
    );
    wrong.extend(e.says.iter().filter(|s| !text.contains(*s)).map(|s| format!("`{s}` is not said")));
    wrong.extend(e.never.iter().filter(|s| text.contains(*s)).map(|s| format!("`{s}` is said")));
    wrong.extend(told.lines.iter().filter(|l| l.chars().count() > 200).map(|l| format!("too long: {l}")));
    wrong.into_iter().map(|w| format!("{}: {w}", e.trace)).collect()
}

#[test]
fn recordings_and_samples_have_the_expected_first_cause() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own: Vec<Expected> = expected().into_iter().filter(|e| !e.trace.starts_with("shared:")).collect();
    assert!(own.len() >= 20);
    let wrong: Vec<String> = own.iter().flat_map(|e| mistakes(e, root.join(&e.trace))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn real_traces_have_the_expected_first_cause() {
    let Some(root) = shared::folder() else { return };
    let theirs =
        expected().into_iter().filter_map(|e| Some((root.trace(e.trace.strip_prefix("shared:")?), e)));
    let wrong: Vec<String> = theirs.flat_map(|(path, e)| mistakes(&e, path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
