//! Adds what an analysis says of its figures, as far as the recording carries it, and says why not more.

use hta_analysis::api::{Analysis, Options, Output, Partial};
use hta_base::wording::ranks::ranks_named;
use hta_job::Job;
use hta_job::recording::Recording;
use hta_job::recording::capability::{Capability, Grade};
use hta_job::recording::limit::Limit;
use hta_job::recording::rules::TOO_SHORT;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Adds the sentences of an analysis. The diagnosis grades each of its causes itself.
pub(crate) fn say(
    output: &mut Output,
    analysis: &dyn Analysis,
    partials: &[Partial],
    job: &Job,
    options: &Options,
) {
    let needs = analysis.about().needs;
    let recording = Recording::of_job(job);
    let (grade, worst) = recording.grade(needs);
    output.trust.grade = grade;
    if output.verdict.is_some() {
        return;
    }
    let left_out = left_out(&recording, needs);
    let why_ranks = left_out.why.map(|why| &why.sentence);
    let of_job = worst.filter(|l| Some(&l.sentence) != why_ranks).map(of_all);
    output.trust.lines =
        of_job.into_iter().chain(left_out.why.map(|why| of_some(&left_out.ranks, why))).collect();
    let limits = recording.limits().iter().filter(|l| needs.contains(&l.capability));
    let (withheld, bounds): (Vec<&Limit>, Vec<&Limit>) =
        limits.partition(|l| said_grade(l) == Grade::Withheld);
    let silent: BTreeSet<Option<u32>> =
        left_out.ranks.iter().copied().map(Some).chain(withheld.iter().map(|l| l.rank)).collect();
    if silent.contains(&None) {
        return;
    }
    // What is said of all ranks is said without those.
    let told: Cow<[Partial]> = match silent.is_empty() {
        true => partials.into(),
        false => partials.iter().filter(|p| !silent.contains(&Some(p.rank))).cloned().collect(),
    };
    if told.is_empty() {
        return;
    }
    let is_bound = bounds.iter().any(|l| said_grade(l) == Grade::AtMost && !silent.contains(&l.rank));
    let suffix = if is_bound { " (at most)" } else { "" };
    let sentences = analysis.sentences(&told, job, options).into_iter();
    output.sentences = sentences.map(|sentence| sentence + suffix).collect();
}

/// Ranks that are left out of what is said about all.
struct LeftOutRanks<'a> {
    ranks: BTreeSet<u32>,
    why: Option<&'a Limit>,
}

fn left_out<'a>(recording: &'a Recording, needs: &[Capability]) -> LeftOutRanks<'a> {
    let ranks = recording.left_out();
    let lost = |l: &&Limit| {
        let is_left_out = l.rank.is_some_and(|rank| ranks.contains(&rank));
        is_left_out && l.grade == Grade::Withheld && needs.contains(&l.capability)
    };
    let limits: Vec<&Limit> = recording.limits().iter().filter(lost).collect();
    LeftOutRanks { ranks: limits.iter().filter_map(|l| l.rank).collect(), why: limits.first().copied() }
}

/// How far an analysis says what a limit is about. Where nothing is wrong but that the recording is short,
/// what an analysis counts in it is true, although it says nothing about the job; in a file that is cut it is
/// a bound.
fn said_grade(limit: &Limit) -> Grade {
    match (limit.rule == TOO_SHORT, limit.is_behind_cut()) {
        (true, true) => Grade::AtMost,
        (true, false) => Grade::Ok,
        (false, _) => limit.grade,
    }
}

fn of_all(limit: &Limit) -> String {
    let (sentence, next) = (&limit.sentence, &limit.next);
    match said_grade(limit) {
        Grade::Ok => sentence.clone(),
        Grade::AtMost if limit.is_behind_cut() => format!("at most: {sentence}; {next}"),
        Grade::AtMost => format!("at most: {sentence}"),
        Grade::Withheld => format!("withheld: {sentence}; {next}"),
    }
}

fn of_some(ranks: &BTreeSet<u32>, why: &Limit) -> String {
    let ranks: Vec<u32> = ranks.iter().copied().collect();
    format!("nothing is said about {}: {}", ranks_named(&ranks), why.sentence)
}
