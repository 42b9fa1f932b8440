//! `report.html`: one file for people, made from the tables of a results folder and the findings.
//!
//! It opens offline and can be mailed: the charts' script (Plotly, in `plotly/`), the style and the data are in it, and
//! a policy in its head forbids every load. What is shown is bounded, whatever the number of ranks: each part says what
//! was joined or left out, and which Parquet table has all of it. The tables are read in pieces and summed on the way.
//!
//! `page.html`, `page.css` and the scripts in `script/` are what it looks like; here is what it says.

mod across;
mod axis;
mod breakdown;
mod grid;
mod idle;
mod names;
mod overview;
mod page;
mod results;
mod tally;
mod texts;
mod time;

/// Tables that the page is made of.
pub const TABLES: [&str; 20] = [
    "call_tree",
    "collective_summary",
    "counters",
    "critical_path_summary",
    "health",
    "idle",
    "idle_host",
    "kernels_by_name",
    "modules",
    "operators",
    "process_groups",
    "ranks",
    "record_edges",
    "repeats",
    "stack_anomalies",
    "straggler_causes",
    "straggler_delays",
    "stragglers",
    "temporal_breakdown",
    "what_if",
];

pub use overview::Found;
pub use page::{Editor, PageOptions, write};
pub use results::{Results, ResultsError};

#[cfg(test)]
mod tests {
    use super::TABLES;
    use std::collections::BTreeSet;

    #[test]
    fn the_tables_of_the_page_are_those_that_its_parts_read() {
        let sources = [
            include_str!("across.rs"),
            include_str!("breakdown.rs"),
            include_str!("idle.rs"),
            include_str!("names.rs"),
            include_str!("overview.rs"),
            include_str!("time.rs"),
        ];
        let named = |source: &'static str| {
            source.split(".read(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0)).collect::<Vec<_>>()
        };
        let read: BTreeSet<&str> = sources.into_iter().flat_map(named).collect();
        assert_eq!(read, BTreeSet::from(TABLES));
    }
}
