//! The queries of `queries/`, compiled into the program. Each file begins with a header that is its
//! documentation:
//!
//! ```text
//! -- Title
//! --
//! -- Answers: the question
//! -- Read: how to read the answer
//! -- Columns:
//! --   name: meaning
//! -- Tables: names, of, tables
//! ```
//!
//! Continuation lines are indented by two blanks more than the line that they continue.

use crate::sql::QueryError;

/// A query: its name and its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub name: &'static str,
    /// The whole file, including the header.
    pub text: &'static str,
}

macro_rules! queries {
    ($($name:literal,)+) => {
        &[$(Query { name: $name, text: include_str!(concat!("../../../queries/", $name, ".sql")) },)+]
    };
}

/// Every file of `queries/`, in the order of the listing.
pub const QUERIES: &[Query] = queries![
    "ranks_overview",
    "import_health",
    "events_by_category",
    "time_by_rank",
    "ranks_that_differ",
    "slowest_steps",
    "slow_step_causes",
    "critical_path_by_class",
    "idle_causes",
    "longest_gaps",
    "data_loader_time",
    "gpu_utilization",
    "recorded_counters",
    "energy_per_step",
    "top_kernels",
    "small_kernels",
    "kernel_time_by_class",
    "kernels_that_differ",
    "unlinked_kernels",
    "gpu_time_by_stream",
    "repeated_patterns",
    "operators_by_gpu_time",
    "operators_by_host_time",
    "modules_by_gpu_time",
    "annotations_by_gpu_time",
    "python_functions",
    "slowest_lines",
    "lines_that_differ",
    "memory_peak_holders",
    "memory_growth_by_step",
    "matrix_shapes",
    "kernel_mix",
    "model_flops_utilization",
    "far_from_roofline",
    "memory_bound_operators",
    "tensor_core_candidates",
    "low_occupancy",
    "partial_waves",
    "layers_by_gpu_time",
    "layout_changes",
    "unknown_work",
    "dtype_conversions",
    "launch_overhead_by_operator",
    "launch_calls",
    "queue_by_stream",
    "sync_calls_in_steps",
    "host_waits",
    "pageable_copies",
    "copies_by_size",
    "copy_costs",
    "worst_collectives",
    "collective_bandwidth",
    "collective_time_by_rank",
    "exposed_communication_by_group",
    "communication_overlap",
    "unmatched_collectives",
    "late_ranks",
    "late_causes",
    "pipeline_bubbles",
    "hot_experts",
    "slow_places",
    "fixes",
];

pub fn find(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|q| q.name == name)
}

/// The error for an unknown query; suggests the nearest name.
pub fn unknown(name: &str, tables: &[String]) -> QueryError {
    let nearest = crate::sql::nearest::nearest(name, QUERIES.iter().map(|q| q.name));
    QueryError::UnknownName { name: name.to_string(), nearest, is_table: tables.iter().any(|t| t == name) }
}

/// The parsed header of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Header {
    pub title: String,
    /// The question that it answers.
    pub answers: String,
    /// How to read the answer.
    pub read: String,
    /// Name and meaning of each column, in the order of the answer.
    pub columns: Vec<(String, String)>,
    pub tables: Vec<String>,
}

impl Query {
    /// The title: the first line.
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches("--").trim()
    }

    pub fn header(&self) -> Header {
        let lines = self.text.lines().map_while(|l| l.strip_prefix("--"));
        let mut header = Header::default();
        let mut into = "";
        for line in lines.map(|l| l.strip_prefix(' ').unwrap_or(l)) {
            let (indent, text) = (line.len() - line.trim_start().len(), line.trim());
            let section = match text.split_once(':') {
                _ if indent > 0 => None,
                Some((key, rest)) if KEYS.contains(&key) => Some((key, rest.trim())),
                _ => None,
            };
            if let Some((key, rest)) = section {
                into = key;
                header.go_on(key, 2, rest);
            } else if into.is_empty() {
                join(&mut header.title, text);
            } else {
                header.go_on(into, indent, text);
            }
        }
        header
    }

    /// The statement, without the header.
    pub fn statement(&self) -> &'static str {
        let header = self.text.split_inclusive('\n').take_while(|l| l.starts_with("--")).map(str::len).sum();
        &self.text[header..]
    }
}

const KEYS: [&str; 4] = ["Answers", "Read", "Columns", "Tables"];

impl Header {
    fn go_on(&mut self, key: &str, indent: usize, text: &str) {
        match (key, text.split_once(": ")) {
            (_, _) if text.is_empty() => {}
            ("Answers", _) => join(&mut self.answers, text),
            ("Read", _) => join(&mut self.read, text),
            ("Tables", _) => {
                self.tables.extend(text.split(',').map(|t| t.trim().to_string()).filter(|t| !t.is_empty()))
            }
            (_, Some((name, meaning))) if indent == 2 => {
                self.columns.push((name.to_string(), meaning.to_string()))
            }
            _ => {
                if let Some((_, meaning)) = self.columns.last_mut() {
                    join(meaning, text);
                }
            }
        }
    }
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push(' ');
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_with_the_lines_that_go_on() {
        let text = "-- Title\n--\n-- Answers: a\n--   b?\n-- Read: c: d\n-- Columns:\n--   x_ns: \
                    one\n--     more\n\
                    --   y: two: three\n-- Tables: t, u\nSELECT 1 -- Read: no\n";
        let query = Query { name: "q", text };
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        let header = query.header();
        assert_eq!(
            (header.title.as_str(), header.answers.as_str(), header.read.as_str()),
            ("Title", "a b?", "c: d")
        );
        assert_eq!(header.columns, [pair("x_ns", "one more"), pair("y", "two: three")]);
        assert_eq!(header.tables, ["t", "u"]);
        assert_eq!(query.statement(), "SELECT 1 -- Read: no\n");
    }
}
