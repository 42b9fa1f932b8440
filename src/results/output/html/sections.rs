//! The grids of the page by section: their names for the reader, the columns that tell their rows apart, and, of
//! those that show a table of the results as it is, which columns and rows.

use crate::output::html::grid::{Section, missing};
use crate::output::html::listed::{Keep, Listed};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError};
use hta_analysis::collectives::tables::{CollectiveSummaries, ProcessGroups};
use hta_analysis::stragglers::tables::{StragglerCauses, StragglerTable};
use hta_analysis::what_if::WhatIfs;

/// A grid of a section.
#[derive(Debug)]
pub(crate) struct GridEntry {
    pub(crate) section: &'static str,
    /// Its name in the data of the page.
    pub(crate) grid: &'static str,
    /// Its name for the reader; empty where the script of the section names it or shows no table of it.
    title: &'static str,
    made: GridSource,
}

#[derive(Debug)]
enum GridSource {
    /// The section makes it of several rows or tables. Columns tell its rows apart in two runs; none where these
    /// are not put beside each other.
    Section(&'static [&'static str]),
    Table(Listed),
}

const fn made(
    section: &'static str,
    grid: &'static str,
    title: &'static str,
    key: &'static [&'static str],
) -> GridEntry {
    GridEntry { section, grid, title, made: GridSource::Section(key) }
}

const fn table(section: &'static str, grid: &'static str, title: &'static str, listed: Listed) -> GridEntry {
    GridEntry { section, grid, title, made: GridSource::Table(listed) }
}

/// The grids of all sections.
const GRIDS: &[GridEntry] = &[
    made("findings", "findings", "causes", &["id"]),
    made("findings", "places", "cost of ranks by host", &[]),
    made("breakdown", "lanes", "", &["rank", "device"]),
    made("breakdown", "steps", "", &["step"]),
    made("breakdown", "cells", "", &["rank", "device", "step"]),
    table(
        "stragglers",
        "verdicts",
        "ranks that make the others wait",
        Listed {
            columns: &[
                "pattern",
                "ranks",
                "gain_per_step_ns",
                "gain_pct",
                "steps",
                "late_step_count",
                "behind_ranks",
                "cause",
                "cause_name",
                "cause_ns",
            ],
            ..Listed::of(StragglerTable::SPEC, 100)
        },
    ),
    table(
        "stragglers",
        "causes",
        "why they are late",
        Listed {
            columns: &["delta_ns", "rank", "step", "cause", "name", "op", "frame"],
            by: "delta_ns",
            sums: &["delta_ns"],
            ..Listed::of(StragglerCauses::SPEC, 100)
        },
    ),
    made("stragglers", "delays", "delay by rank and step", &["ranks", "steps"]),
    table(
        "collectives",
        "sizes",
        "collectives by kind and size",
        Listed {
            columns: &[
                "kind",
                "dtype",
                "process_group",
                "size_bytes",
                "count",
                "timed_count",
                "dur_sum_ns",
                "wait_sum_ns",
                "transfer_p50_ns",
                "start_skew_p50_ns",
                "alg_bw_gb_per_s",
                "bus_bw_gb_per_s",
            ],
            by: "dur_sum_ns",
            sums: &["count", "timed_count", "dur_sum_ns", "wait_sum_ns"],
            ..Listed::of(CollectiveSummaries::SPEC, 1_500)
        },
    ),
    table(
        "collectives",
        "groups",
        "how calls were matched",
        Listed {
            columns: &[
                "process_group",
                "member_count",
                "present_count",
                "matched_by",
                "call_count",
                "matched_count",
                "collective_count",
                "complete_count",
            ],
            sums: &["call_count", "matched_count", "collective_count", "complete_count"],
            ..Listed::of(ProcessGroups::SPEC, 100)
        },
    ),
    made("idle", "lanes", "", &["rank", "device"]),
    made("idle", "host", "", &["activity", "name"]),
    made("kernels", "kernels", "", &["category", "class", "name"]),
    made("kernels", "categories", "", &["category"]),
    made("patterns", "sequences", "", &["names", "length"]),
    made("utilization", "stretches", "utilization over time", &[]),
    made("utilization", "map", "utilization by rank", &[]),
    made("critical-path", "classes", "the path by class", &["class", "window"]),
    made("critical-path", "names", "names with most of the path", &["class", "window", "name"]),
    made("memory", "peaks", "", &["rank", "device"]),
    made("memory", "content", "", &["kind", "holder"]),
    made("memory", "steps", "", &["step"]),
    made("ops", "operators", "", &["name"]),
    made("ops", "waits", "", &["kind", "name", "first_stack"]),
    made("ops", "roofline", "", &["name"]),
    made("ops", "mfu", "", &["rank", "device", "number"]),
    made("ops", "python", "", &["name", "thread"]),
    made("modules", "tree", "", &["rank", "path"]),
    made("lines", "lines", "", &["name", "thread"]),
    table(
        "what-if",
        "repairs",
        "repairs",
        Listed {
            columns: &["scope", "what", "step_ns", "gain_ns", "gain_pct"],
            keep: Keep::Positive("gain_ns"),
            none: "No repair of a rank, step or cause would make the step shorter. With one rank, or without \
                   matched collectives, there is nothing to replay.",
            ..Listed::of(WhatIfs::SPEC, 100)
        },
    ),
    made("iterations", "iterations", "iterations", &[]),
    made("health", "problems", "problems by kind", &["counter", "severity"]),
    made("health", "refused", "files that were not analysed", &[]),
    made("ranks", "ranks", "ranks", &["rank"]),
];

/// The grids that stand beside those of another run, with the columns of their keys.
pub(crate) fn compared() -> impl Iterator<Item = (&'static GridEntry, Vec<&'static str>)> {
    let key = |entry: &GridEntry| match &entry.made {
        GridSource::Section(key) => key.to_vec(),
        GridSource::Table(listed) => listed.key(),
    };
    GRIDS.iter().map(move |entry| (entry, key(entry))).filter(|(_, key)| !key.is_empty())
}

/// Adds the grids that show a table as it is, and names all of them.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn complete(
    name: &str,
    mut section: Section,
    results: &Results,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    if section.empty.is_some() {
        return Ok(section);
    }
    for entry in GRIDS.iter().filter(|entry| entry.section == name) {
        if let GridSource::Table(listed) = &entry.made {
            match listed.grid(results, texts)? {
                None if !listed.none.is_empty() => section.empty = Some(missing(listed.table.name)),
                Some(grid) if grid.len() == 0 && !listed.none.is_empty() => {
                    section.empty = Some(listed.none.to_string());
                }
                made => section = section.with(entry.grid, made.unwrap_or_else(|| listed.no_rows())),
            }
        }
        section.name(entry.grid, entry.title);
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_show_columns_that_their_tables_have() {
        for GridEntry { grid, made, .. } in GRIDS {
            let GridSource::Table(of) = made else { continue };
            for name in of.columns.iter().chain(of.sums) {
                assert!(of.table.column_spec(name).is_some() && of.columns.contains(name), "{grid}: {name}");
            }
            assert!(of.by.is_empty() || of.columns.contains(&of.by), "{grid} is sorted by what it does not show");
        }
    }

    #[test]
    fn a_grid_stands_once() {
        let mut names: Vec<_> = GRIDS.iter().map(|entry| (entry.section, entry.grid)).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
