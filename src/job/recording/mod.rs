//! What was recorded of each rank, and what may be said from it: decided once, before any analysis.
//!
//! The facts of a rank are a row of the table `recordings`. Rules turn the rows of all ranks into limits:
//! what the recording of a rank, or of the job, does not carry, and why. Whatever makes sentences asks here
//! first.

pub mod belong;
pub mod capability;
pub mod facts;
pub mod limit;
pub mod rules;

use crate::Job;
use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::{RecordingRow, Recordings};
use crate::recording::limit::{Limit, trust_table};
use crate::recording::rules::{RULES, Recorded, STEP_RULES, TOO_SHORT};
use hta_base::table::schema::{Batch, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The recording of a job.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Rows of the table `recordings`, in order of rank.
    rows: Vec<Batch>,
    /// In the order of the rules; within a rule the worst first.
    limits: Vec<Limit>,
    rank_count: usize,
}

impl Recording {
    /// Judges the recordings of all ranks, given as rows of the table `recordings` in order of rank. `job`
    /// has no parts where ranks are not joined.
    pub fn of(rows: Vec<Batch>, job: &Job) -> Self {
        let mut out = Self { rows, ..Self::default() };
        let ranks: Vec<RecordingRow> = out.ranks().collect();
        let rank_count = ranks.len();
        let recorded = Recorded { ranks: &ranks, job };
        let limits = RULES.iter().flat_map(|rule| (rule.find)(&recorded)).collect();
        drop(ranks);
        (out.limits, out.rank_count) = (limits, rank_count);
        let left_out = out.left_out();
        // To the others a rank that is left out is missing, and so is what stands behind the cut of a file.
        let is_lost = |l: &&Limit| match l.rank {
            Some(rank) if left_out.contains(&rank) => leaves_out(l).is_some(),
            Some(_) => rank_count > 1 && l.capability == Capability::DeviceTime && l.is_behind_cut(),
            None => false,
        };
        let missing: Vec<Limit> = out.limits.iter().filter(is_lost).flat_map(to_the_others).collect();
        out.limits.extend(missing);
        out
    }

    /// The recording of so many ranks from its table `trust`: rank, then capability, grade, rule, sentence
    /// and next. Limits in words of another version are left out.
    pub fn of_texts<'a>(
        limits: impl Iterator<Item = (Option<u32>, [&'a str; 5])>,
        rank_count: usize,
    ) -> Self {
        let limit = |(rank, [capability, grade, rule, sentence, next]): (Option<u32>, [&str; 5])| {
            Some(Limit {
                rank,
                capability: Capability::named(capability)?,
                grade: Grade::named(grade)?,
                rule: RULES.iter().map(|r| r.name).find(|name| *name == rule)?,
                measured: String::new(),
                limit: String::new(),
                sentence: sentence.to_string(),
                next: next.to_string(),
            })
        };
        Self { rows: Vec::new(), limits: limits.filter_map(limit).collect(), rank_count }
    }

    /// The recording of a joined job, from [`Recording::give_to`].
    pub fn of_job(job: &Job) -> Arc<Recording> {
        job.shared(|_| Recording::default())
    }

    /// Lets the analyses that are given the job ask.
    pub fn give_to(&self, job: &Job) {
        job.shared(|_| self.clone());
    }

    /// What is recorded of each rank, in order of rank.
    pub fn ranks(&self) -> impl Iterator<Item = RecordingRow<'_>> {
        self.rows.iter().flat_map(Recordings::rows)
    }

    /// Ranks of whose devices nothing, or only a part, is recorded: out of shares, means and sums. Empty
    /// where that is so of all ranks.
    pub fn left_out(&self) -> BTreeSet<u32> {
        let lost: BTreeSet<u32> = self.limits.iter().filter_map(leaves_out).collect();
        if lost.len() == self.rank_count { BTreeSet::new() } else { lost }
    }

    /// The first reason for which a rank is left out; `None` if none is.
    pub fn why_left_out(&self) -> Option<&Limit> {
        let left_out = self.left_out();
        self.limits.iter().find(|l| leaves_out(l).is_some_and(|rank| left_out.contains(&rank)))
    }

    /// Whether steps are iterations of an engine.
    pub fn has_iterations(&self) -> bool {
        self.ranks().any(|r| r.iteration_count > 0) && !self.has_mixed_steps()
    }

    /// Whether the steps of ranks were found in different ways, so that their recordings are compared.
    pub fn has_mixed_steps(&self) -> bool {
        self.limits.iter().any(|l| l.rule == STEP_RULES)
    }

    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// The reason for the worst grade of what is said about the job, in which ranks that are left out do not
    /// count; `None` if the capability is carried in full.
    pub fn reason(&self, capability: Capability) -> Option<&Limit> {
        self.worst(&[capability])
    }

    /// The reason for the worst grade of several capabilities.
    pub fn worst(&self, needs: &[Capability]) -> Option<&Limit> {
        let left_out = self.left_out();
        let is_told = |l: &&Limit| l.rank.is_none_or(|rank| !left_out.contains(&rank));
        worst(self.limits.iter().filter(|l| needs.contains(&l.capability)).filter(is_told))
    }

    /// The grade of what needs these, and the reason. What is counted in a recording that is short is true,
    /// although it says nothing about the job.
    pub fn grade(&self, needs: &[Capability]) -> (Grade, Option<&Limit>) {
        match self.worst(needs) {
            Some(short) if short.rule == TOO_SHORT => (Grade::AtMost, Some(short)),
            worst => (worst.map_or(Grade::Ok, |l| l.grade), worst),
        }
    }

    /// The reason for the worst grade of what is said about some ranks; about none: about the job.
    pub fn worst_of(&self, ranks: &[u32], needs: &[Capability]) -> Option<&Limit> {
        if ranks.is_empty() {
            return self.worst(needs);
        }
        let is_about =
            |l: &&Limit| needs.contains(&l.capability) && l.rank.is_none_or(|r| ranks.contains(&r));
        worst(self.limits.iter().filter(is_about))
    }

    /// The first capability of these that is withheld of a rank or of the job, because something was not
    /// recorded: a recording that is short is whole.
    pub fn withheld(&self, needs: &[Capability]) -> Option<&Limit> {
        let is_whole = |l: &Limit| l.rule == TOO_SHORT;
        self.limits
            .iter()
            .find(|l| l.grade == Grade::Withheld && needs.contains(&l.capability) && !is_whole(l))
    }

    /// The table `trust`.
    pub fn table(&self) -> Batch {
        trust_table(&self.limits)
    }
}

/// What a step is called.
pub fn step_noun(are_iterations: bool) -> &'static str {
    if are_iterations { "iteration" } else { "step" }
}

/// Behind a time that is a mean of them.
pub fn per_step(are_iterations: bool) -> &'static str {
    if are_iterations { " an iteration" } else { " a step" }
}

/// The rank that a limit leaves out.
fn leaves_out(limit: &Limit) -> Option<u32> {
    limit.rank.filter(|_| limit.capability == Capability::DeviceTime && limit.grade == Grade::Withheld)
}

/// What a rank that is left out or cut means to those that it works with.
fn to_the_others(lost: &Limit) -> Vec<Limit> {
    let limit = Limit { rank: None, grade: Grade::AtMost, ..lost.clone() };
    limit.of_all(&[Capability::Ranks, Capability::Transfer])
}

/// The first limit with the worst grade.
fn worst<'a>(limits: impl Iterator<Item = &'a Limit>) -> Option<&'a Limit> {
    limits.reduce(|worst, l| if l.grade > worst.grade { l } else { worst })
}
