//! Statements that group by texts or count distinct ones: the answer from the codes of a dictionary is the one
//! from the texts.

use super::{ask, results};
use hta::results::Results;
use hta::sql::answer::QueryAnswer;
use hta::sql::engine;
use hta::sql::results::load;
use hta::sql::statement::Statement;
use polars::prelude::IntoLazy;

/// The answer over tables in memory, which have texts and no codes.
fn by_texts(sample: &str, text: &str) -> QueryAnswer {
    let statement = Statement::new(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let results = Results::open(results(sample)).unwrap_or_else(|e| panic!("{e}"));
    let tables = load(&results, &statement, None).unwrap_or_else(|e| panic!("{e}: {text}"));
    let in_memory = |(name, frame): (String, polars::prelude::LazyFrame)| {
        (name, frame.collect().expect("rows of a table").lazy())
    };
    let tables = tables.into_iter().map(in_memory).collect();
    engine::run(&statement, tables, |t| results.columns(t)).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Statements over events, of which few have a text in `collective_name`.
const STATEMENTS: &[&str] = &[
    "SELECT category, COUNT(*) AS n, SUM(dur_ns) AS ns FROM events GROUP BY category ORDER BY category",
    "SELECT category AS c, class AS k, COUNT(*) AS n FROM events GROUP BY category, class",
    "SELECT collective_name AS category, COUNT(*) AS n FROM events GROUP BY collective_name",
    "SELECT COUNT(*) AS n FROM events GROUP BY collective_name ORDER BY collective_name DESC",
    "SELECT class, rank, MIN(name) AS first, MAX(class) AS last FROM events GROUP BY class, rank",
    "SELECT name, COUNT(*) AS n FROM events WHERE class = 'kernel' GROUP BY name ORDER BY n DESC, name LIMIT 7",
    "SELECT name, COUNT(*) AS n FROM events WHERE name LIKE '%gemm%' AND dur_ns > 0 GROUP BY name",
    "SELECT category, COUNT(*) AS n FROM events GROUP BY category HAVING COUNT(*) > 9",
    "SELECT category, COUNT(*) AS n FROM events GROUP BY category HAVING COUNT(DISTINCT name) > 2",
    "SELECT category, COUNT(*) AS n FROM events GROUP BY category HAVING MAX(category) > 'g'",
    "SELECT class, COUNT(DISTINCT name) AS names, COUNT(DISTINCT collective_name) AS few, COUNT(collective_name) AS n FROM events \
     GROUP BY class",
    "SELECT rank, COUNT(DISTINCT name) AS names, COUNT(DISTINCT UPPER(category)) AS c FROM events GROUP BY rank",
    "SELECT COUNT(DISTINCT name) AS names, COUNT(name) AS n, COUNT(*) AS events FROM events",
    "SELECT COUNT(DISTINCT name) FROM events WHERE dur_ns < 0",
    "SELECT COUNT(DISTINCT collective_name) AS names FROM events WHERE collective_name IS NULL OR class = 'kernel'",
    "SELECT COUNT(DISTINCT name) + COUNT(DISTINCT category) AS both FROM events",
    "SELECT UPPER(category) AS c, COUNT(*) AS n FROM events GROUP BY UPPER(category)",
    "SELECT category, UPPER(category) AS c, COUNT(*) AS n FROM events GROUP BY category",
    "SELECT category || '!' AS c, COUNT(*) AS n FROM events GROUP BY category",
    "SELECT c, SUM(n) AS n FROM (SELECT category AS c, name, COUNT(*) AS n FROM events GROUP BY category, name) \
     AS t GROUP BY c",
    "SELECT label, COUNT(*) AS n FROM (SELECT name AS label, dur_ns FROM events WHERE dur_ns > 0) AS t \
     GROUP BY label",
    "SELECT name, COUNT(*) AS n FROM (SELECT category AS name FROM events) AS t GROUP BY name",
    "SELECT name, COUNT(*) AS n FROM (SELECT UPPER(category) AS name FROM events) AS t GROUP BY name",
    "SELECT name, COUNT(*) AS n FROM (SELECT * FROM events) AS t GROUP BY name",
    "SELECT * FROM (SELECT class, COUNT(*) AS n FROM events GROUP BY class) AS t WHERE class = 'kernel'",
    "SELECT * FROM (SELECT dtype, COUNT(*) AS n FROM events GROUP BY dtype) AS t WHERE dtype IS NULL",
    "WITH t AS (SELECT category, COUNT(*) AS n FROM events GROUP BY category) SELECT a.category, a.n, b.n AS m \
     FROM t AS a JOIN t AS b ON a.category = b.category",
    "SELECT category, COUNT(*) AS n FROM events WHERE dur_ns = (SELECT MAX(dur_ns) AS d FROM events) \
     GROUP BY category",
    "SELECT category FROM events GROUP BY category UNION SELECT collective_name FROM events GROUP BY collective_name",
    "SELECT DISTINCT category, class FROM events",
    "SELECT op, SUM(ns) AS ns FROM (SELECT o.name AS op, k.name AS kernel, k.dur_ns AS ns FROM events AS k \
     JOIN events AS o ON k.rank = o.rank AND k.op_event_id = o.event_id) AS pairs GROUP BY op",
    "SELECT k.name AS kernel, COUNT(DISTINCT o.name) AS n FROM events AS k LEFT JOIN events AS o \
     ON k.rank = o.rank AND k.op_event_id = o.event_id GROUP BY k.name",
    "SELECT category, COUNT(*) AS n FROM events WHERE dur_ns < 0 GROUP BY category",
    "SELECT name, dur_ns, COUNT(*) OVER (PARTITION BY category) AS n FROM events ORDER BY dur_ns DESC, name, \
     rank, event_id LIMIT 9",
];

#[test]
fn groups_and_counts_by_codes_are_those_by_texts() {
    for sample in ["gpu_ddp8", "cpu_single"] {
        for text in STATEMENTS {
            assert_eq!(ask(sample, text), by_texts(sample, text), "{sample}: {text}");
        }
    }
}

#[test]
fn rows_without_a_text_are_a_group_and_not_counted_as_a_text() {
    let count = |text: &str| ask("gpu_ddp8", text).value("n", 0).as_i64().expect("a number");
    let nulls = count("SELECT COUNT(*) AS n FROM events WHERE collective_name IS NULL");
    let grouped = "SELECT collective_name, COUNT(*) AS n FROM events GROUP BY collective_name ORDER BY collective_name NULLS FIRST";
    let groups = ask("gpu_ddp8", grouped);
    assert!(nulls > 0 && groups.value("collective_name", 0).is_null(), "{groups:?}");
    assert_eq!(groups.value("n", 0), nulls);
    let distinct = count("SELECT COUNT(DISTINCT collective_name) AS n FROM events");
    assert_eq!(distinct + 1, i64::try_from(groups.len()).expect("few names"));
}

#[test]
fn codes_are_no_columns_of_an_answer() {
    let all = ask("gpu_single", "SELECT * FROM events LIMIT 1");
    let with = "SELECT e.* FROM events AS e JOIN (SELECT category, COUNT(DISTINCT name) AS n FROM events \
                GROUP BY category) AS c ON e.category = c.category LIMIT 1";
    assert_eq!(format!("{:?}", all.names()), format!("{:?}", ask("gpu_single", with).names()));
}
