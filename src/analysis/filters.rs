//! Filters of the command line: which analyses they apply to, and the error if one selects nothing.
//!
//! [`map`] notes for each rank and each given filter whether the filter selects something on the rank, and
//! what it could have selected. When all ranks are known, a filter that selects nothing on any of them is an
//! error ([`check`]). The notes are a table of the rank's inventory, so that several processes can map parts
//! of a job. A run without filters has no such table.

use crate::annotations;
use crate::api::{AcrossOption, Analysis, KERNEL_WAIT_MAX, Options, Partial, STRAGGLER_MIN_PCT};
use crate::collectives::GroupSelection;
use crate::critical_path;
use crate::memory;
use crate::patterns;
use crate::settings::Setting;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, TableSpec, Text};
use hta_job::{ClockMode, Job, MeshShape, ProgramExtent, ToldMeshes};
use hta_read::error::SetError;
use hta_trace::category::Class;
use hta_trace::rank_trace::{RankTrace, StepFilter};
use hta_trace::step::StepRule;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// What the filters that were given select on a rank. Only partials hold it.
    struct Filters, FilterRow = "filters" by "rank, option" {
        rank;
        option: Text, "", "the option";
        value: Text, "", "what was given";
        is_hit: bool, "", "it selects something on this rank";
        there: Option<Text>, "",
            "one of the things that it could select; null where there are none, or it selects one";
    }
}

/// The tables of the notes, for reading partials.
pub const TABLES: &[&TableSpec] = &[Filters::SPEC];

const STEP_PATTERN: &str = "--step-pattern";

/// Largest number of alternatives that an error lists.
const LISTED: usize = 12;

/// The note for one filter on one rank.
struct FilterNote {
    option: &'static str,
    value: String,
    is_hit: bool,
    /// What the filter could have selected; empty if it selected something.
    there: Vec<String>,
}

impl FilterNote {
    fn new(option: &'static str, value: &str, is_hit: bool, there: impl FnOnce() -> Vec<String>) -> Self {
        let there = if is_hit { Vec::new() } else { there() };
        Self { option, value: value.to_string(), is_hit, there }
    }
}

/// The notes of a rank; `None` if no filter was given.
pub fn map(trace: &RankTrace, analyses: &[&'static dyn Analysis], options: &Options) -> Option<Batch> {
    let notes = notes(trace, analyses, options);
    if notes.is_empty() {
        return None;
    }
    let mut table = Filters::default();
    for FilterNote { option, value, is_hit, there } in &notes {
        let mut row = |there: Option<&str>| {
            table.push(FilterRow { rank: trace.rank, option, value, is_hit: *is_hit, there });
        };
        match there.as_slice() {
            [] => row(None),
            all => all.iter().take(LISTED + 1).for_each(|t| row(Some(t))),
        }
    }
    Some(table.finish())
}

fn notes(trace: &RankTrace, analyses: &[&'static dyn Analysis], options: &Options) -> Vec<FilterNote> {
    let settings = &options.settings;
    let mut out = Vec::new();
    if let Some(pattern) = &options.model.step_pattern {
        let is_hit = trace.steps.rule == StepRule::Pattern;
        out.push(FilterNote::new(STEP_PATTERN, pattern.as_str(), is_hit, || names(trace, Class::Annotation)));
    }
    if let Some(filter) = &options.model.steps {
        let recorded = || trace.steps.steps.iter().map(|s| (s.index, s.label)).collect();
        let all: Vec<_> = analyses.iter().find_map(|a| a.steps(trace)).unwrap_or_else(recorded);
        let is_hit = all.iter().any(|(index, label)| filter.keeps(*index, *label));
        out.push(FilterNote::new("--steps", &filter.to_string(), is_hit, || shown(&all)));
    }
    if let Some(text) = settings.text(&critical_path::ANNOTATION) {
        let is_hit = critical_path::annotation(trace, text).is_some();
        out.push(FilterNote::new("--annotation", text, is_hit, || names(trace, Class::Annotation)));
    }
    if let Some(regex) = settings.regex(&annotations::MATCH) {
        let mut there = names(trace, Class::Annotation);
        there.extend(names(trace, Class::GpuAnnotation));
        let is_hit = there.iter().any(|n| regex.is_match(n));
        out.push(FilterNote::new("--match", regex.as_str(), is_hit, || there));
    }
    for setting in [&patterns::OP, &patterns::OP_GLOB] {
        let Some(text) = settings.text(setting) else { continue };
        let there = names(trace, Class::HostOp);
        let fits =
            |name: &String| if setting == &patterns::OP { name == text } else { patterns::glob(text, name) };
        let is_hit = analyses.iter().find_map(|a| a.selects(trace, setting, text));
        let is_hit = is_hit.unwrap_or_else(|| there.iter().any(fits));
        out.push(FilterNote::new(setting.flag, text, is_hit, || there));
    }
    for setting in memory::SELECTING.iter().filter(|setting| settings.is_given(setting)) {
        let Some(text) = settings.text(setting) else { continue };
        if let Some((is_hit, there)) = memory::selects(trace, setting, text) {
            out.push(FilterNote::new(setting.flag, text, is_hit, || there));
        }
    }
    out
}

/// Checks that a filter chooses one of these steps, index and label, which are in order.
///
/// # Errors
/// When it chooses none.
pub fn check_steps(filter: &StepFilter, all: &[(u32, Option<i64>)]) -> Result<(), SetError> {
    match all.iter().any(|(index, label)| filter.keeps(*index, *label)) {
        true => Ok(()),
        false => Err(nothing("--steps", filter.to_string(), &shown(all))),
    }
}

/// Steps in the notation of the command line: ranges of labels, or else indices.
fn shown(all: &[(u32, Option<i64>)]) -> Vec<String> {
    let run = |first: String, last: String| if first == last { first } else { format!("{first}-{last}") };
    let labels: Option<Vec<i64>> = all.iter().map(|(_, label)| *label).collect();
    match (labels, all.first(), all.last()) {
        (Some(labels), _, _) => labels
            .chunk_by(|a, b| a.checked_add(1) == Some(*b))
            .filter_map(|c| Some(run(c.first()?.to_string(), c.last()?.to_string())))
            .collect(),
        (None, Some(first), Some(last)) => vec![run(format!("@{}", first.0), format!("@{}", last.0))],
        _ => Vec::new(),
    }
}

/// Names of the events of a class, the most frequent first.
fn names(trace: &RankTrace, class: Class) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in (0..trace.columns.len() as u32).filter(|&r| trace.classes.get(r as usize) == Some(&class)) {
        *counts.entry(trace.name(row)).or_default() += 1;
    }
    let mut all: Vec<(&str, u64)> = counts.into_iter().collect();
    all.sort_by_key(|(name, n)| (Reverse(*n), *name));
    all.into_iter().map(|(name, _)| name.to_string()).collect()
}

/// Whether any filter was given.
pub fn has_any(options: &Options) -> bool {
    let own = [critical_path::ANNOTATION, annotations::MATCH, patterns::OP, patterns::OP_GLOB];
    let mut own = own.iter().chain(&memory::SELECTING);
    options.model.steps.is_some() || own.any(|s| options.settings.is_given(s))
}

/// Checks the notes of all ranks. Inventories are read one by one until each filter has selected something.
///
/// # Errors
/// The first filter that selects nothing on any rank.
pub fn check(inventories: impl Iterator<Item = Partial>) -> Result<(), SetError> {
    check_of(inventories, |option| option != STEP_PATTERN)
}

/// Checks that `--step-pattern` matches an annotation of some rank. Separate from the other filters: it
/// defines what a step is, and matching nothing is an error only on the command line.
///
/// # Errors
/// When no annotation of any rank matches.
pub fn check_pattern(inventories: &[Partial]) -> Result<(), SetError> {
    check_of(inventories.iter().cloned(), |option| option == STEP_PATTERN)
}

fn check_of(
    inventories: impl Iterator<Item = Partial>,
    is_asked: impl Fn(&str) -> bool,
) -> Result<(), SetError> {
    let mut hits: BTreeSet<String> = BTreeSet::new();
    let mut missed: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for inventory in inventories {
        let Some(table) = inventory.table(Filters::SPEC) else { return Ok(()) };
        for row in Filters::rows(table).filter(|r| is_asked(r.option)) {
            if row.is_hit {
                hits.insert(row.option.to_string());
                continue;
            }
            let asked = missed.entry(row.option.to_string());
            let (_, there) = asked.or_insert_with(|| (row.value.to_string(), Vec::new()));
            if let Some(thing) = row.there
                && there.len() <= LISTED
                && !there.iter().any(|t| t == thing)
            {
                there.push(thing.to_string());
            }
        }
        if !hits.is_empty() && missed.keys().all(|option| hits.contains(option)) {
            return Ok(());
        }
    }
    match missed.into_iter().find(|(option, _)| !hits.contains(option)) {
        None => Ok(()),
        Some((option, (value, there))) => Err(nothing(&option, value, &there)),
    }
}

/// The error for a filter that selects nothing.
fn nothing(option: &str, value: String, there: &[String]) -> SetError {
    let (option, noun) = match option {
        "--steps" => ("--steps", "step"),
        STEP_PATTERN => (STEP_PATTERN, "annotation"),
        "--annotation" => ("--annotation", "annotation"),
        "--match" => ("--match", "annotation"),
        "--op" => ("--op", "operator"),
        "--group" => ("--group", "process group"),
        "--device" => ("--device", "device"),
        "--at" => ("--at", "moment"),
        "--by" => ("--by", "kind of holder"),
        "--steps-by" => ("--steps-by", "annotation"),
        _ => ("--op-glob", "operator"),
    };
    let found = match (there, there.len() > LISTED) {
        ([], _) => format!("there is no {noun}"),
        (all, false) => format!("there are {}", all.join(", ")),
        (all, true) => format!("there are {} and more", all[..LISTED].join(", ")),
    };
    let a = if noun.starts_with(['a', 'o']) { "an" } else { "a" };
    let reason = format!("expected {a} {noun} of the traces, found none like it; {found}");
    SetError::Argument { option, value, reason }
}

/// Checks that each requested process group exists in the job.
///
/// # Errors
/// The first group that does not exist.
pub fn check_groups(job: &Job, options: &Options) -> Result<(), SetError> {
    let wanted = &options.across.groups;
    match wanted.iter().find(|w| !GroupSelection::knows(job, w)) {
        None => Ok(()),
        Some(name) => {
            let there = GroupSelection::new(job, options);
            Err(no_group(name, there.names().map(str::to_string)))
        }
    }
}

/// The error for a process group that is not among those of the job.
pub fn no_group(name: &str, there: impl Iterator<Item = String>) -> SetError {
    nothing("--group", name.to_string(), &there.take(LISTED + 1).collect::<Vec<_>>())
}

/// Checks that `--mesh` is the mesh of the job.
///
/// # Errors
/// When it has another number of ranks.
pub fn check_mesh(told: &ToldMeshes, programs: &[ProgramExtent]) -> Result<(), SetError> {
    let value = || told.shape.as_ref().map_or_else(String::new, MeshShape::to_string);
    told.check(programs).map_err(|reason| SetError::Argument { option: "--mesh", value: value(), reason })
}

/// Refuses filters that no analysis applies, because the unfiltered answer would look like a filtered one.
///
/// # Errors
/// The first such filter.
pub fn refuse_unused(analyses: &[&'static dyn Analysis], options: &Options) -> Result<(), SetError> {
    let refuse = |option, value: String, what: &str| {
        let of = match (analyses.iter().find_map(|a| a.about().definitions), analyses) {
            (Some(tool), _) => format!("answers in the definitions of {tool} are for all {what}"),
            (None, [one]) => format!("`{}` answers for all {what}", one.stem()),
            (None, _) => format!("what was asked for answers for all {what}"),
        };
        Err(SetError::Argument { option, value, reason: format!("{of}: leave {option} out") })
    };
    if let Some(filter) = &options.model.steps
        && !analyses.iter().any(|a| a.about().takes_steps)
    {
        return refuse("--steps", filter.to_string(), "steps");
    }
    let only_own = [(&annotations::MATCH, "annotations"), (&patterns::OP_GLOB, "operators")];
    for (setting, what) in only_own {
        let is_taken = analyses.iter().any(|a| a.about().settings.contains(setting));
        if let (Some(value), false) = (settings_text(options, setting), is_taken) {
            return refuse(setting.flag, value, what);
        }
    }
    if let (Some(name), Some(_)) =
        (options.settings.text(&patterns::OP), options.settings.text(&patterns::OP_GLOB))
    {
        let reason = "--op-glob chooses the operators: leave one of them out".to_string();
        return Err(SetError::Argument { option: "--op", value: name.to_string(), reason });
    }
    let takes = |option: AcrossOption| analyses.iter().any(|a| a.about().takes.contains(&option));
    if let (Some(name), false) = (options.across.groups.first(), takes(AcrossOption::Group)) {
        return refuse("--group", name.clone(), "process groups");
    }
    ignored(analyses, options, &takes)?;
    one_window(options)
}

/// Refuses options without which the answer is the same.
fn ignored(
    analyses: &[&'static dyn Analysis],
    options: &Options,
    takes: &dyn Fn(AcrossOption) -> bool,
) -> Result<(), SetError> {
    let joins = analyses.iter().any(|a| a.about().joins_ranks || a.about().joins_peers);
    let across = &options.across;
    let given = [
        (
            across.straggler_min_pct != STRAGGLER_MIN_PCT && !takes(AcrossOption::StragglerMin),
            "--straggler-min-pct",
            across.straggler_min_pct.to_string(),
        ),
        (
            options.kernel_wait_max != KERNEL_WAIT_MAX && !takes(AcrossOption::KernelWaitMax),
            "--kernel-wait-max-us",
            (options.kernel_wait_max / 1000).to_string(),
        ),
        (across.clock != ClockMode::default() && !joins, "--clock", across.clock.name().to_string()),
        (
            across.mesh.is_some() && !joins && !across.chooses_by_mesh,
            "--mesh",
            across.mesh.as_ref().map_or_else(String::new, MeshShape::to_string),
        ),
    ];
    match given.into_iter().find(|(is_ignored, ..)| *is_ignored) {
        None => Ok(()),
        Some((_, option, value)) => {
            let reason = format!("the answer does not depend on it: leave {option} out");
            Err(SetError::Argument { option, value, reason })
        }
    }
}

fn settings_text(options: &Options, setting: &Setting) -> Option<String> {
    let settings = &options.settings;
    settings.text(setting).or_else(|| settings.regex(setting).map(regex::Regex::as_str)).map(str::to_string)
}

/// Refuses more than one option that selects the window of the critical path.
///
/// # Errors
/// When two of them are given.
pub fn one_window(options: &Options) -> Result<(), SetError> {
    let windows = [critical_path::ANNOTATION, critical_path::CAPTURE];
    let mut given = windows.iter().filter(|s| options.settings.is_given(s)).map(|s| s.flag);
    let first = given.next();
    if let (Some(flag), Some(filter)) = (first, &options.model.steps) {
        let reason = format!("{flag} chooses the window: leave one of them out");
        return Err(SetError::Argument { option: "--steps", value: filter.to_string(), reason });
    }
    if let (Some(_), Some(_)) = (first, given.next()) {
        let value = options.settings.text(&critical_path::ANNOTATION).unwrap_or_default().to_string();
        let reason = "--capture chooses the window: leave one of them out".to_string();
        return Err(SetError::Argument { option: "--annotation", value, reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_listed_as_they_are_written_on_the_command_line() {
        let of = |labels: &[Option<i64>]| -> Vec<(u32, Option<i64>)> {
            (0..).zip(labels.iter().copied()).collect()
        };
        assert_eq!(shown(&of(&[Some(3), Some(4), Some(5), Some(9)])), ["3-5", "9"]);
        assert_eq!(shown(&of(&[None, Some(4)])), ["@0-@1"]);
        assert_eq!(shown(&of(&[None])), ["@0"]);
        assert!(shown(&[]).is_empty());
    }
}
