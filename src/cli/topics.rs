//! Topics of `hta explain` that are not analyses, tables or queries.

use crate::cli::glossary::GLOSSARY;
use hta_analysis::memory::snapshot;
use hta_results::diff;

const DIFF_TITLE: &str = "`hta diff BASE TEST`: before and after, and thresholds for CI";

/// Topics: name, title, text.
pub const TOPICS: &[(&str, &str, &str)] = &[
    ("glossary", "the words of screens and tables", GLOSSARY),
    ("windows", "spans, captures, steps: the time that a row is for", include_str!("explain/windows.md")),
    (
        "serving",
        "inference engines: iterations, their windows, and what is said about them",
        include_str!("explain/serving.md"),
    ),
    ("ranks", "how a file's rank is found", include_str!("explain/ranks.md")),
    ("format", "what is read, and how times are converted", include_str!("explain/format.md")),
    ("rules", "kernel classes, and how to write rules of your own", include_str!("explain/rules.md")),
    ("health", "what was repaired, dropped or unusual; exit codes", include_str!("explain/health.md")),
    (
        "trust",
        "what a recording carries, and what is withheld for want of it",
        include_str!("explain/trust.md"),
    ),
    (
        "clocks",
        "clock offsets between ranks: how they are found, applied and trusted",
        include_str!("explain/clocks.md"),
    ),
    ("matching", "how calls are matched across ranks", include_str!("explain/matching.md")),
    ("diff", DIFF_TITLE, diff::PAGE),
    ("pyprof", "`hta export pyprof`: kernels with the columns of NVIDIA's PyProf", hta_compat::pyprof::PAGE),
    ("nsys-stats", "`hta export nsys-stats`: the reports of NVIDIA's `nsys stats`", hta_compat::nsys::PAGE),
    (
        "overlay",
        "one trace file of ranks for a viewer, with counters and marks",
        include_str!("explain/overlay.md"),
    ),
    (
        "report",
        "report.html: its contents, aggregation of large jobs, links to source",
        include_str!("explain/report.md"),
    ),
    (
        "memory-limit",
        "how much memory hta uses, and how to limit it",
        include_str!("explain/memory-limit.md"),
    ),
    ("snapshots", "memory snapshots and timelines of PyTorch, which `hta memory` reads", snapshot::PAGE),
    ("partials", "analyse ranks on several machines, and merge", include_str!("explain/partials.md")),
    (
        "stores",
        "object stores: URLs, credentials, what is retried and refused",
        include_str!("explain/stores.md"),
    ),
    ("query", "how to ask in SQL, and where Polars and DuckDB differ", include_str!("explain/query.md")),
    ("schema", "every table and column, as one page of Markdown", ""),
    ("compat", "answers in the definitions of HTA and TraceLens", include_str!("explain/compat.md")),
];
