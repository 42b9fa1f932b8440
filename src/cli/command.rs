//! The command line: every command with its arguments and its help.

use crate::cli::{
    analysis, analyze, completions, contents, diff, explain, groups, inputs, known, list, man, mcp, merge,
    nsys_stats, open, output, overlay, pyprof, query, questions, report, stores,
};
use clap::{Args, Command};

/// The command of formats of other tools.
pub(super) const EXPORT: &str = "export";

/// The whole command line, with a subcommand for every analysis of the registry, and its help.
pub fn command() -> Command {
    groups::arrange(plain())
}

/// The command line without groups, examples and other names.
pub(super) fn plain() -> Command {
    let analyze = Command::new("analyze").about("Run every analysis and write tables, events and a report");
    let mut root = Command::new("hta")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Where the time went in a PyTorch job, from the Kineto traces of its ranks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help("`hta list` names the analyses, `hta explain NAME` says what a number means.")
        .subcommand(analyze::AnalyzeArgs::augment_args(analyze));
    root = root.subcommands(questions::commands(analysis::command));
    let overlay = Command::new("overlay")
        .about("Write one trace file of chosen ranks for a viewer, with counters and marks added");
    let pyprof = Command::new("pyprof").about("Print every kernel with the columns of NVIDIA's PyProf");
    let nsys_stats = Command::new("nsys-stats")
        .about("Print a report of NVIDIA's `nsys stats`, for traces of any recorder");
    let pyprof = pyprof::PyProfArgs::augment_args(pyprof).after_help(pyprof::AFTER_HELP);
    let nsys_stats = nsys_stats::NsysStatsArgs::augment_args(nsys_stats).after_help(nsys_stats::after_help());
    let export = Command::new(EXPORT)
        .about("Print kernels with the columns of PyProf, or the reports of `nsys stats`")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(pyprof.clone())
        .subcommand(nsys_stats.clone());
    let merge =
        Command::new("merge").about("Merge partial results of `hta analyze --partial` into complete results");
    let inputs =
        Command::new("inputs").about("List the files that would be read, with the rank and size of each");
    let files =
        Command::new("files").about("List the files of results in a folder or store, or print one of them");
    let report = Command::new("report")
        .about("Write report.html again from a results folder, or compare it with another one");
    let open = Command::new("open").about("Show the page of results in a browser");
    root = root
        .subcommand(open::OpenArgs::augment_args(open).after_help(open::AFTER_HELP))
        .subcommand(merge::MergeArgs::augment_args(merge).after_help(merge::AFTER_HELP))
        .subcommand(report::ReportArgs::augment_args(report).after_help(report::AFTER_HELP))
        .subcommand(diff::command())
        .subcommand(overlay::OverlayArgs::augment_args(overlay).after_help(overlay::AFTER_HELP))
        .subcommand(export)
        // Their names before there was `export`.
        .subcommand(pyprof.hide(true))
        .subcommand(nsys_stats.hide(true))
        .subcommand(query::command())
        .subcommand(inputs::InputsArgs::augment_args(inputs).after_help(inputs::AFTER_HELP))
        .subcommand(contents::FilesArgs::augment_args(files).after_help(contents::AFTER_HELP))
        .subcommand(mcp::command())
        .subcommand(
            Command::new("list")
                .about("List the analyses, queries, tables and topics")
                .arg(clap::Arg::new("what").value_parser(list::PARTS).help("only these; all by default")),
        )
        .subcommand(
            Command::new("explain")
                .about(
                    "Explain an analysis, a query, a table or a topic: definitions, columns, units, caveats",
                )
                .arg(
                    known::arg("name", explain::names())
                        .num_args(0..)
                        .help("an analysis, query, table or topic; none lists them"),
                ),
        )
        .subcommand(completions::command());
    man::add(stores::with_options(output::with_color(root)))
}
