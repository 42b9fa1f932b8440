//! The command `hta query` as a user sees it.

use super::{ROOT, SAMPLES, results};
use hta::sql::catalog::{QUERIES, find};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn hta(args: &[&str]) -> Output {
    in_folder(Path::new(ROOT), args)
}

fn in_folder(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn of(sample: &str) -> String {
    results(sample).to_str().unwrap().to_string()
}

#[test]
fn every_query_fits_a_page_of_80_columns() {
    for sample in SAMPLES {
        let folder = of(sample);
        for query in QUERIES {
            let run = hta(&["query", query.name, &folder]);
            assert_eq!(run.status.code(), Some(0), "{}: {}", query.name, text(&run.stderr));
            let page = text(&run.stdout);
            assert!(page.lines().all(|l| l.chars().count() <= 80), "{}:\n{page}", query.name);
            assert!(
                page.starts_with(&query.header().title) && run.stderr.is_empty(),
                "{}:\n{page}",
                query.name
            );
        }
    }
}

#[test]
fn every_format_holds_the_same_rows() {
    let folder = of("gpu_ddp8");
    let file = tempfile::Builder::new().suffix(".parquet").tempfile().unwrap();
    let path = file.path().to_str().unwrap();
    let run = |format: &str| text(&hta(&["query", "top_kernels", &folder, "--format", format]).stdout);
    let csv = run("csv");
    let json: serde_json::Value = serde_json::from_str(&run("json")).unwrap();
    // The ending of the file is its format.
    let parquet = hta(&["query", "top_kernels", &folder, "-o", path]);
    assert!(parquet.status.success() && parquet.stdout.is_empty(), "{}", text(&parquet.stderr));
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    let rows: usize = reader.map(|b| b.unwrap().num_rows()).sum();
    assert_eq!((csv.lines().count() - 1, json.as_array().unwrap().len()), (rows, rows));
    assert!(csv.starts_with("name,class,count,gpu_ns,gpu_pct,mean_ns,max_ns,rank_count\n"), "{csv}");
    let limited = hta(&["query", "top_kernels", &folder, "--format", "csv", "--limit", "2"]);
    assert_eq!(text(&limited.stdout), csv.split_inclusive('\n').take(3).collect::<String>());
    let top = text(&hta(&["query", "top_kernels", &folder, "--top", "1"]).stdout);
    assert!(top.contains(&format!("{} more rows: --top {rows}", rows - 1)), "{top}");
}

#[test]
fn a_statement_comes_from_a_name_an_argument_a_file_or_standard_input() {
    let folder = of("gpu_single");
    let sql = text(&hta(&["query", "top_kernels", "--sql"]).stdout);
    let query = find("top_kernels").unwrap();
    assert_eq!(sql, query.text);
    let file = tempfile::Builder::new().suffix(".sql").tempfile().unwrap();
    std::fs::write(file.path(), &sql).unwrap();
    let csv = |query: &str| text(&hta(&["query", query, "--results", &folder, "--format", "csv"]).stdout);
    let expected = csv("top_kernels");
    assert!(expected.lines().count() > 3);
    assert_eq!(csv(file.path().to_str().unwrap()), expected);
    // An argument that begins like a comment would be parsed as an option.
    assert_eq!(csv(query.statement()), expected);
    let mut child = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["query", "-", &folder, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), expected);
}

#[test]
fn traces_take_the_options_of_other_commands_and_results_refuse_them() {
    let sample = "data/samples/gpu_ddp8";
    let ranks = |args: &[&str]| {
        text(&hta(&[&["query", "SELECT rank FROM ranks", "--format", "csv"], args].concat()).stdout)
    };
    assert_eq!(ranks(&[sample, "--ranks", "2-3"]), "rank\n2\n3\n");
    assert_eq!(ranks(&["--rank-dir", sample, "--ranks", "7", "--threads", "1"]), "rank\n7\n");
    let steps = "SELECT DISTINCT step_label FROM temporal_breakdown WHERE scope = 'step' ORDER BY step_label";
    let run = hta(&["query", steps, sample, "--steps", "11-12", "--format", "csv"]);
    assert_eq!(text(&run.stdout), "step_label\n11\n12\n", "{}", text(&run.stderr));
    let folder = of("gpu_ddp8");
    let run = hta(&["query", "ranks_overview", &folder, "--ranks", "2-3"]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors.contains("cannot use --ranks: expected traces") && errors.contains("hint: "), "{errors}");
}

#[test]
fn places_and_what_is_in_one_table_and_not_in_another_can_be_asked_for() {
    let folder = of("gpu_ddp8");
    let rows = |query: &str| {
        let run = hta(&["query", query, &folder, "--format", "csv"]);
        assert!(run.status.success(), "{query}: {}", text(&run.stderr));
        text(&run.stdout).lines().skip(1).map(str::to_string).collect::<Vec<_>>()
    };
    // four ranks on each of two hosts
    let places = "SELECT rank, CAST(RANK() OVER (ORDER BY host_name) AS BIGINT) AS place, \
                  CAST(DENSE_RANK() OVER (ORDER BY host_name) AS BIGINT) AS host FROM ranks ORDER BY rank";
    assert_eq!(rows(places), ["0,1,1", "1,1,1", "2,1,1", "3,1,1", "4,5,2", "5,5,2", "6,5,2", "7,5,2"]);
    let slow = "(SELECT rank FROM kernels WHERE name LIKE 'slow%' AND dur_ns > 5000000) AS s ON r.rank = s.rank ORDER BY r.rank";
    assert_eq!(rows(&format!("SELECT r.rank FROM ranks r SEMI JOIN {slow}")), ["3"]);
    assert_eq!(
        rows(&format!("SELECT r.rank FROM ranks r ANTI JOIN {slow}")),
        ["0", "1", "2", "4", "5", "6", "7"]
    );
    let exists = "EXISTS (SELECT 1 FROM kernels k WHERE k.rank = r.rank AND k.name LIKE 'slow%' AND k.dur_ns > 5000000)";
    assert_eq!(rows(&format!("SELECT rank FROM ranks r WHERE {exists} ORDER BY rank")), ["3"]);
}

#[test]
fn what_cannot_be_answered_is_told_with_what_was_meant() {
    let folder = of("gpu_single");
    for (query, words) in [
        ("top_kernel", vec!["cannot find the query `top_kernel`", "hint: did you mean `top_kernels`?"]),
        ("kernels", vec!["hint: it is a table: hta query 'SELECT * FROM kernels'"]),
        (
            "SELECT 1 FROM kernles",
            vec!["the table `kernles`", "did you mean `kernels`?", "hint: tables: annotated_lines"],
        ),
        (
            "SELECT dur FROM kernels",
            vec!["the column `dur`", "one that `kernels` has", "`dur_ns`?", "hint: columns: block"],
        ),
        ("SELECT k.durns FROM kernels AS k", vec!["the column `durns`", "`dur_ns`?"]),
        ("DROP TABLE kernels", vec!["expected one SELECT, found DROP", "never write"]),
        ("SELECT 1 AS a; SELECT 2 AS b", vec!["found 2 statements"]),
        ("SELECT rank FROM ranks WHERE", vec!["cannot run the statement: Expected"]),
        (
            "WITH ranks AS (SELECT rank FROM ranks) SELECT rank FROM ranks",
            vec!["`ranks` after WITH hides the table"],
        ),
        (
            "SELECT no_such_function(dur_ns) AS x FROM kernels",
            vec!["cannot run the statement: ", "no_such_function"],
        ),
        (
            "SELECT name FROM kernels WHERE dur_ns > (SELECT dur_ns FROM kernels)",
            vec!["a subquery that stands for a value gives", "rows; add MAX(...), or LIMIT 1"],
        ),
        ("SHOW TABLES", vec!["found SHOW", "hint: `hta list tables` lists the tables"]),
        ("DESCRIBE kernels", vec!["found DESCRIBE", "hint: `hta explain TABLE` lists the columns"]),
        (
            "SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY dur_ns) AS p90 FROM kernels",
            vec!["'percentile_cont'", "hint: write QUANTILE_CONT(x, 0.9)"],
        ),
        (
            "SELECT r.rank FROM ranks r JOIN stragglers s ON r.rank = s.rank",
            vec!["cannot use the column `rank` there: `stragglers` has none", "hint: its columns: "],
        ),
        (
            "SELECT dur_ns FROM (SELECT name FROM kernels) AS k",
            vec!["cannot use the column `dur_ns` there", "hint: add `dur_ns` to that SELECT"],
        ),
        ("SELECT ARRAY_AGG(rank) AS all_ranks FROM kernels", vec!["unsupported function 'array_agg'"]),
    ] {
        let run = hta(&["query", query, &folder]);
        let errors = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{query}: {errors}");
        assert!(run.stdout.is_empty() && words.iter().all(|w| errors.contains(w)), "{query}:\n{errors}");
        assert!(!errors.contains("panicked"), "{query}:\n{errors}");
    }
    let run = hta(&["query", "SELECT 1 FROM nope", "data/samples/gpu_single"]);
    assert!(text(&run.stderr).contains("the table `nope`: expected one of those in these traces"));
    let run = hta(&["query", "top_kernels", "data/samples/gpu_single", "--compat", "hta"]);
    assert!(run.status.code() == Some(2) && text(&run.stderr).contains("--compat"), "{}", text(&run.stderr));
}

#[test]
fn results_that_are_missing_damaged_or_without_events_are_told() {
    let empty = tempfile::tempdir().unwrap();
    let run = in_folder(empty.path(), &["query", "top_kernels"]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        errors.contains("expected a results folder, found nothing there")
            && errors.contains("hta-out")
            && errors.contains("hint: "),
        "{errors}"
    );

    let sample = Path::new(ROOT).join("data/samples/gpu_counters");
    let made = in_folder(empty.path(), &["analyze", sample.to_str().unwrap(), "--no-events"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let run = in_folder(empty.path(), &["query", "ranks_overview", "--format", "csv"]);
    assert_eq!(text(&run.stdout).lines().count(), 2, "{}", text(&run.stderr));
    let run = in_folder(empty.path(), &["query", "events_by_category"]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors.contains("`events`") && errors.contains("--no-events"), "{errors}");

    let table = empty.path().join("hta-out/tables/ranks.parquet");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() / 2]).unwrap();
    let run = in_folder(empty.path(), &["query", "ranks_overview"]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors.contains("cannot read hta-out/tables/ranks.parquet: "), "{errors}");
}

#[test]
fn a_lossy_trace_answers_and_says_so_by_its_exit_code() {
    let args = ["query", "SELECT rank FROM ranks", "data/samples/gloo_ddp4/ground_truth.json"];
    let run =
        hta(&[&args[..], &["data/samples/gloo_ddp4/rank_0.pt.trace.json.gz", "--format", "csv"]].concat());
    assert_eq!(
        (run.status.code(), text(&run.stdout).as_str()),
        (Some(1), "rank\n0\n"),
        "{}",
        text(&run.stderr)
    );
    let strict = ["data/samples/gloo_ddp4/rank_0.pt.trace.json.gz", "--strict"];
    let run = hta(&[&args[..], &strict].concat());
    assert!(run.status.code() == Some(2) && run.stdout.is_empty());
}

/// The engine recurses for every level: a statement must be answered or refused, and must not end the process.
#[test]
fn long_chains_and_deep_nesting_have_an_answer_or_an_error() {
    let folder = of("gpu_ddp8");
    let chain = |n: usize, part: &str, with: &str| vec![part; n].join(with);
    let ask = |from: &str, query: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hta"))
            .args(["query", "-", from, "--format", "csv"])
            .current_dir(ROOT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(query.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    for n in [200, 900] {
        let query = format!("SELECT rank FROM ranks WHERE {} ORDER BY rank", chain(n, "rank = 3", " OR "));
        for from in [folder.as_str(), "data/samples/gpu_ddp8"] {
            let run = ask(from, &query);
            assert_eq!(
                (run.status.code(), text(&run.stdout).as_str()),
                (Some(0), "rank\n3\n"),
                "{}",
                text(&run.stderr)
            );
        }
    }
    let parts = |n: usize| {
        let part = |i: usize| format!(", p{i} AS (SELECT rank FROM p{})", i.saturating_sub(1));
        format!(
            "WITH p0 AS (SELECT rank FROM ranks){} SELECT rank FROM p{n}",
            (1..=n).map(part).collect::<String>()
        )
    };
    for n in [10, 100, 30_000] {
        for query in [
            format!("SELECT rank FROM ranks WHERE {}", chain(n, "rank = 3", " OR ")),
            format!("SELECT rank FROM ranks WHERE {} rank = 3", "NOT ".repeat(n)),
            format!("SELECT {} 1 AS x FROM ranks", "- ".repeat(n)),
            format!("SELECT {}rank{} AS x FROM ranks", "(".repeat(n), ")".repeat(n)),
            format!("SELECT {}rank{} AS x FROM ranks", "ABS(".repeat(n), ")".repeat(n)),
            format!("SELECT {} AS x FROM ranks", chain(n, "rank", " + ")),
            format!("SELECT rank{} AS x FROM ranks", "::BIGINT".repeat(n)),
            format!("SELECT CASE {} ELSE 0 END AS x FROM ranks", "WHEN rank = 1 THEN 2 ".repeat(n)),
            format!(
                "SELECT {}0{} AS x FROM ranks",
                "CASE WHEN rank = 1 THEN 2 ELSE ".repeat(n),
                " END".repeat(n)
            ),
            format!("SELECT {}0{} AS x FROM ranks", "COALESCE(rank, ".repeat(n), ")".repeat(n)),
            chain(n, "SELECT rank FROM ranks", " UNION ALL "),
            format!("{}SELECT rank FROM ranks{}", "SELECT rank FROM (".repeat(n), ") AS t".repeat(n)),
            parts(n),
        ] {
            if query.len() > 1 << 20 {
                continue;
            }
            let run = ask(&folder, &query);
            let (said, start) = (text(&run.stderr), &query[..query.len().min(60)]);
            assert!(matches!(run.status.code(), Some(0 | 2)), "{n} times {start}: {}: {said}", run.status);
            assert!(
                run.status.success() || said.starts_with("hta: cannot run the statement"),
                "{n} times {start}: {said}"
            );
            assert!(
                n < 5000 || said.contains("operators and parentheses in one another"),
                "{n} times {start}: {said}"
            );
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = of("gloo_ddp4");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["query", "SELECT * FROM call_tree", &folder, "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(run.stderr.is_empty());
}

#[test]
fn queries_are_listed_and_explained() {
    let all = text(&hta(&["list"]).stdout);
    let queries = text(&hta(&["list", "queries"]).stdout);
    assert!(!queries.contains("analyses") && queries.lines().all(|l| l.len() <= 80), "{queries}");
    for query in QUERIES {
        assert!(all.contains(query.name) && queries.contains(query.name), "{}", query.name);
        let page = text(&hta(&["explain", query.name]).stdout);
        let header = query.header();
        assert!(page.contains(&header.title) && page.contains(query.statement().trim_end()), "{page}");
        assert!(header.columns.iter().all(|(name, _)| page.contains(&format!("  {name} "))), "{page}");
    }
    assert!(text(&hta(&["list", "tables"]).stdout).contains("kernels_by_name"));
    assert!(text(&hta(&["explain", "query"]).stdout).contains("DuckDB"));
    assert_eq!(hta(&["list", "nope"]).status.code(), Some(2));
}

#[test]
fn a_table_without_rows_has_no_file_and_is_read_all_the_same() {
    let (folder, dir) = (results("gpu_single"), tempfile::tempdir().unwrap());
    let summary = std::fs::read_to_string(folder.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let empty: Vec<&str> =
        summary["empty_tables"].as_array().unwrap().iter().filter_map(|t| t.as_str()).collect();
    assert!(empty.len() > 10 && empty.is_sorted(), "{empty:?}");
    assert!(empty.iter().all(|name| !folder.join(format!("tables/{name}.parquet")).exists()));
    let folder = of("gpu_single");
    for name in empty.iter().take(4) {
        let made = dir.path().join(format!("{name}.parquet"));
        let file = format!("tables/{name}.parquet");
        let run = hta(&["files", &folder, &file, "--out", made.to_str().unwrap()]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&made).unwrap()).unwrap();
        let columns: Vec<&str> = reader.schema().fields().iter().map(|f| f.name().as_str()).collect();
        let query = |statement: String| {
            let run = hta(&["query", &statement, &folder, "--format", "csv"]);
            assert!(run.status.success(), "{}", text(&run.stderr));
            text(&run.stdout)
        };
        assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
        assert_eq!(query(format!("SELECT * FROM {name}")), format!("{}\n", columns.join(",")));
        assert_eq!(query(format!("SELECT COUNT(*) AS n FROM {name}")), "n\n0\n");
    }
    let run = hta(&["files", &folder, "tables/thesis.parquet", "--out", "thesis.parquet"]);
    assert_eq!(run.status.code(), Some(2), "{}", text(&run.stdout));
}

#[test]
fn a_table_of_another_tool_without_rows_is_read_too() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let folder = out.to_str().unwrap();
    let run = hta(&["analyze", "data/samples/gloo_ddp4", "--compat", "hta", "--no-events", "--out", folder]);
    assert!(matches!(run.status.code(), Some(0 | 1)), "{}", text(&run.stderr));
    let table = "compat_hta_queue_length_summary";
    assert!(!out.join(format!("tables/{table}.parquet")).exists(), "a job without a device has no queue");
    let run = hta(&["query", &format!("SELECT COUNT(*) AS n FROM {table}"), folder, "--format", "csv"]);
    assert_eq!(text(&run.stdout), "n\n0\n", "{}", text(&run.stderr));
}
