//! What statements mean: answers that were computed by hand, on tables of a few rows, where engines are known
//! to differ. `tests/queries/random_statements.py` holds random statements against DuckDB.

use hta::output::json::CsvStyle;
use hta::sql::engine;
use hta::sql::statement::Statement;
use polars::prelude::{Column, DataFrame, IntoLazy, LazyFrame};

/// `few` has 2 rows, `many` 4, `empty` none.
fn tables() -> Vec<(String, LazyFrame)> {
    let few =
        vec![Column::new("id".into(), [Some(1i64), Some(2)]), Column::new("name".into(), [Some("a"), None])];
    let many = vec![
        Column::new("id".into(), [Some(1i64), Some(1), Some(3), None]),
        Column::new("value".into(), [Some(-7i64), Some(7), None, Some(2)]),
        Column::new("part".into(), [Some(2.5f64), Some(0.5), Some(-1.5), None]),
        Column::new("label".into(), [Some("x_1"), Some("xy1"), Some("X%"), Some("")]),
    ];
    let table = |name: &str, columns: Vec<Column>| {
        (name.to_string(), DataFrame::new_infer_height(columns).expect("columns of one length").lazy())
    };
    let empty = vec![Column::new("id".into(), Vec::<i64>::new())];
    vec![table("few", few), table("many", many), table("empty", empty)]
}

/// The rows of an answer, with `,` between values and `;` between rows.
fn rows(text: &str) -> String {
    let statement = Statement::new(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let wanted = |(name, _): &(String, LazyFrame)| statement.tables.contains(name);
    let tables = tables().into_iter().filter(wanted).collect();
    match engine::run(&statement, tables, |_| Vec::new()) {
        Ok(answer) => answer.csv(CsvStyle::Plain).lines().skip(1).collect::<Vec<_>>().join(";"),
        Err(error) => error.to_string(),
    }
}

fn all(cases: &[(&str, &str)]) {
    for (statement, wanted) in cases {
        assert_eq!(rows(statement), *wanted, "{statement}");
    }
}

#[test]
fn a_side_of_a_join_counts_although_none_of_its_columns_is_used() {
    all(&[
        ("SELECT f.id FROM few f, many m", "1;1;1;1;2;2;2;2"),
        ("SELECT f.id FROM few f CROSS JOIN many m LIMIT 3", "1;1;1"),
        ("SELECT f.id AS i, COUNT(*) AS n FROM few f, many m GROUP BY f.id ORDER BY i", "1,4;2,4"),
        ("SELECT DISTINCT f.id FROM few f, many m", "1;2"),
        ("SELECT 7 AS seven FROM few f, few g", "7;7;7;7"),
        ("SELECT f.id FROM few f, empty e", ""),
        ("WITH t AS (SELECT MAX(value) AS v FROM many) SELECT f.id FROM few f, t", "1;2"),
        ("SELECT COUNT(*) AS n FROM (SELECT MAX(value) AS v FROM many) t", "1"),
        ("SELECT COUNT(*) AS n FROM (SELECT 1 AS one FROM many) t", "4"),
        ("SELECT COUNT(*) AS n FROM few f, many m, few g", "16"),
    ]);
}

#[test]
fn outer_joins_keep_the_rows_that_fulfil_no_part_of_their_condition() {
    all(&[
        (
            "SELECT f.id, m.value FROM few f LEFT JOIN many m ON f.id = m.id AND m.value > 0 ORDER BY 1",
            "1,7;2,",
        ),
        ("SELECT f.id, m.value FROM few f LEFT JOIN many m ON f.id = m.id AND f.id > 1 ORDER BY 1", "1,;2,"),
        (
            "SELECT m.id, m.value, f.name FROM few f RIGHT JOIN many m ON f.id = m.id AND m.value < 0 ORDER BY m.value",
            "1,-7,a;,2,;1,7,;3,,",
        ),
        (
            "SELECT f.id AS i, m.id AS j FROM few f FULL JOIN many m ON f.id = m.id AND m.value = 7 ORDER BY i, j",
            "1,1;2,;,1;,3;,",
        ),
        (
            "SELECT id, name, value FROM few FULL JOIN many USING (id) ORDER BY id, value",
            "1,a,-7;1,a,7;2,,;3,,;,,2",
        ),
        ("SELECT f.id FROM few f SEMI JOIN many m ON f.id = m.id AND m.value > 0", "1"),
        ("SELECT f.id FROM few f ANTI JOIN many m ON f.id < m.id", ""),
        ("SELECT f.id, m.id AS other FROM few f JOIN many m ON f.id < m.id ORDER BY 1", "1,3;2,3"),
    ]);
}

#[test]
fn missing_values_are_neither_true_nor_false_and_come_last() {
    all(&[
        ("SELECT id FROM many WHERE id NOT IN (1, NULL)", ""),
        ("SELECT id FROM many WHERE id NOT IN (SELECT id FROM many WHERE id IS NULL OR id = 9)", ""),
        ("SELECT id FROM many WHERE id NOT IN (SELECT id FROM empty) ORDER BY id DESC", "3;1;1;"),
        ("SELECT id FROM many WHERE NOT (id = 1)", "3"),
        ("SELECT id FROM many WHERE id IS DISTINCT FROM 1 ORDER BY id", "3;"),
        (
            "SELECT (id = 1) IS NOT TRUE AS other, COUNT(*) AS n FROM many GROUP BY 1 ORDER BY 1",
            "false,2;true,2",
        ),
        ("SELECT COUNT(*) AS n, COUNT(id) AS ids, COUNT(DISTINCT id) AS kinds FROM many", "4,3,2"),
        ("SELECT SUM(id) AS s, MIN(id) AS m, COUNT(id) AS n FROM empty", ",,0"),
        ("SELECT SUM(value) FILTER (WHERE value > 99) AS s FROM many", ""),
        ("SELECT id FROM few INTERSECT SELECT id FROM many", "1"),
        (
            "SELECT COUNT(*) AS n FROM (SELECT name FROM few WHERE name IS NULL INTERSECT SELECT NULL AS name FROM few) t",
            "1",
        ),
        ("SELECT COALESCE(name, 'none') AS n FROM few ORDER BY n NULLS FIRST", "a;none"),
        ("SELECT CONCAT(name, '-', id) AS n, name || '-' AS j FROM few ORDER BY id", "a-1,a-;-2,"),
    ]);
}

#[test]
fn numbers_keep_their_sign_and_their_size() {
    all(&[
        ("SELECT value % 4 AS r, value // 4 AS q, value / 4 AS d FROM many WHERE value < 0", "-3,-1,-1.75"),
        ("SELECT 7 % NULLIF(0, 0) AS r FROM few LIMIT 1", ""),
        ("SELECT 7 // 0 AS q FROM few", "cannot run the statement: `//` by 0: write NULLIF(..., 0)"),
        ("SELECT id FROM few WHERE id / 10 = CAST(0.1 AS DOUBLE)", "1"),
        ("SELECT (id + 2) / 10 AS d, FLOOR(id * 49 / 49) AS f FROM few ORDER BY id", "0.3,1.0;0.4,2.0"),
        ("SELECT QUANTILE_DISC(x, 0.07) AS q FROM (SELECT 1 AS x UNION ALL SELECT 2) t", "1"),
        (
            "SELECT ROUND(part) AS r, CAST(part AS BIGINT) AS c FROM many ORDER BY part",
            "-2.0,-2;1.0,0;3.0,2;,",
        ),
        ("SELECT CAST(0.5 AS BIGINT) AS one, CAST(-2.5 AS INTEGER) AS two", "1,-3"),
        ("SELECT SUM(3) AS s, COUNT(2) AS n, AVG(1.5) AS m FROM many", "12,4,1.5"),
        ("SELECT SUM(1.5) AS s FROM empty", ""),
        ("SELECT 1e3 AS k, 9007199254740993 AS big", "1000.0,9007199254740993"),
        (
            "SELECT SUM(9000000000000000000) AS s FROM few",
            "cannot run the statement: a sum of integers does not fit in 64 bits: CAST to DOUBLE",
        ),
        (
            "SELECT value * 9000000000000000000 AS p FROM many",
            "cannot run the statement: a result of `*` does not fit in 64 bits: CAST to DOUBLE",
        ),
        (
            "SELECT QUANTILE_DISC(value, 0.5) AS d, QUANTILE_CONT(value, 0.25) AS c, MEDIAN(value) AS m FROM many",
            "2,-2.5,2.0",
        ),
    ]);
}

#[test]
fn windows_take_equal_rows_together_unless_rows_are_asked_for() {
    all(&[
        ("SELECT value, SUM(id) OVER (ORDER BY id) AS s FROM many ORDER BY value", "-7,2;2,5;7,2;,5"),
        (
            "SELECT value, SUM(id) OVER (ORDER BY id, value ROWS UNBOUNDED PRECEDING) AS s FROM many ORDER BY value",
            "-7,1;2,5;7,2;,5",
        ),
        (
            "SELECT value, COUNT(*) OVER (ORDER BY value ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM many \
          ORDER BY value",
            "-7,1;2,2;7,2;,2",
        ),
        (
            "SELECT value, RANK() OVER (ORDER BY id DESC) AS r, DENSE_RANK() OVER (ORDER BY id DESC) AS d FROM many \
          ORDER BY r, value",
            ",1,1;-7,2,2;7,2,2;2,4,3",
        ),
        ("SELECT id FROM many QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY value) = 2", "1"),
        ("SELECT COUNT(*) OVER () AS n FROM empty", ""),
        ("SELECT id, LAG(value) OVER (ORDER BY value) AS l FROM many ORDER BY value", "1,;,-7;1,2;3,7"),
    ]);
}

#[test]
fn patterns_and_texts_count_characters() {
    all(&[
        ("SELECT label FROM many WHERE label LIKE 'x_1' ORDER BY 1", "x_1;xy1"),
        ("SELECT label FROM many WHERE label LIKE 'x!_1' ESCAPE '!'", "x_1"),
        ("SELECT label FROM many WHERE label ILIKE 'X%' AND label NOT LIKE '%1'", "X%"),
        (
            "SELECT SUBSTR('häuser', 2, 3) AS a, SUBSTR('abc', -2, 1) AS b, SUBSTR('abc', 0, 2) AS c",
            "äus,b,a",
        ),
        (
            "SELECT LENGTH('ä') AS n, STRPOS('häuser', 'u') AS p, LEFT('abc', -1) AS l, RIGHT('abc', -1) AS r",
            "1,3,ab,bc",
        ),
        ("SELECT MAX(label) AS m, MIN(label) AS n FROM many", "xy1,"),
    ]);
}

#[test]
fn names_stand_for_columns_before_they_stand_for_what_the_select_gives() {
    all(&[
        ("SELECT id + 1 AS value, COUNT(*) AS n FROM few GROUP BY id ORDER BY value", "2,1;3,1"),
        ("SELECT id * 10 AS tens FROM few WHERE tens > 10", "20"),
        ("SELECT id AS k, COUNT(*) AS n FROM many GROUP BY k HAVING n > 1", "1,2"),
        ("SELECT -id AS id FROM few ORDER BY id", "-2;-1"),
        ("SELECT m.id FROM few AS m, few AS n WHERE m.id = n.id", "1;2"),
        (
            "WITH t AS (SELECT id FROM few) SELECT a.id, b.id AS other FROM t a JOIN t b ON a.id = b.id + 1",
            "2,1",
        ),
        ("SELECT id FROM few f, many m", "cannot run the statement: `id` can be `f.id` or `m.id`: say which"),
        ("SELECT id FROM few WHERE EXISTS (SELECT 1 FROM many WHERE many.id = few.id)", "1"),
        (
            "SELECT id FROM few f WHERE NOT EXISTS (SELECT 1 FROM many m WHERE m.id = f.id AND m.value > 0)",
            "2",
        ),
        ("SELECT id FROM few UNION ALL SELECT id FROM few EXCEPT SELECT id FROM many", "2"),
    ]);
}

#[test]
fn what_the_parser_reads_in_another_way_is_refused() {
    for statement in [
        "SELECT id FROM many WHERE id IS DISTINCT FROM 1 AND value > 0",
        "SELECT id FROM many WHERE id <= value NOT BETWEEN TRUE AND FALSE",
        "SELECT id FROM many WHERE id = value IN (TRUE)",
        "SELECT 1 < 2 < 3 AS b",
        "SELECT id FROM few WHERE NOT EXISTS (SELECT 1 FROM many) IS NULL",
    ] {
        assert!(rows(statement).contains("put parentheses around"), "{statement}: {}", rows(statement));
    }
}

/// The inputs of the fuzz target `statements`.
#[test]
fn statements_of_all_kinds_have_an_answer() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/statements");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a statement");
        assert!(!rows(&text).contains("cannot run"), "{text}: {}", rows(&text));
        count += 1;
    }
    assert!(count > 12, "{count}");
}

#[test]
fn numbers_with_a_point_are_exact() {
    all(&[
        (
            "SELECT 0.1 + 0.2 = 0.3 AS a, 3 * 0.1 > 0.3 AS b, 1.50 = 1.5 AS c, 0.1e0 + 0.2e0 = 0.3e0 AS d",
            "true,false,true,false",
        ),
        (
            "SELECT ROUND(1.005, 2) AS a, ROUND(-2.5) AS b, CAST(2.5 AS INT) AS c, CAST(2.5e0 AS INT) AS d",
            "1.01,-3.0,3,2",
        ),
        ("SELECT FLOOR(-1.5) AS a, CEIL(-1.5) AS b, TRUNC(-1.5) AS c, ABS(-1.5) AS d", "-2.0,-1.0,-1.0,1.5"),
        (
            "SELECT CAST(1.50 AS VARCHAR) AS a, '' || -0.05 AS b, CAST(100.0 * 2 AS VARCHAR) AS c",
            "1.50,-0.05,200.0",
        ),
        (
            "SELECT SUM(value * 0.1) AS s, MAX(value * 0.25) AS m, AVG(value * 0.5) AS a FROM many",
            "0.2,1.75,0.3333333333333333",
        ),
        (
            "SELECT value * 0.5 AS half, COUNT(*) AS n FROM many WHERE value * 0.1 <= 0.2 GROUP BY value * 0.5",
            "-3.5,1;1.0,1",
        ),
        ("SELECT id FROM few WHERE id IN (1.0, 2.5)", "1"),
        ("SELECT id FROM few WHERE id IN (SELECT id * 0.5 FROM few)", "1"),
        ("SELECT part FROM many WHERE part = 0.5", "0.5"),
        ("SELECT id * 1.5 AS v FROM few UNION SELECT id FROM few ORDER BY v", "1.0;1.5;2.0;3.0"),
        (
            "SELECT 7.5 % 2 AS a, -(1.5) AS b, 9000000000000000000 / 2.0 AS c, 9000000000000000000 > 1.5 AS d",
            "1.5,-1.5,4.5e+18,true",
        ),
    ]);
    all(&[("SELECT 1 / 0 AS a, -1 / 0 AS b, 0 / 0 AS c, 1 / 0 > 5 AS d", "inf,-inf,nan,true")]);
    all(&[
        ("SELECT AVG(0.1) = 0.1 AS a, AVG(value * 0.1) = 0.2 / 3 AS b FROM many", "true,true"),
        (
            "SELECT AVG(0.1) OVER () = 0.1 AS a, AVG(0.1) OVER (ORDER BY id) = 0.1 AS b FROM few",
            "true,true;true,true",
        ),
        ("SELECT CAST(.5 AS VARCHAR) AS a, .5 * .5 || '' AS b, CAST(-0.5 AS VARCHAR) AS c", ".5,.25,-0.5"),
    ]);
    for (statement, reason) in [
        ("SELECT 9000000000000000000 * 1.5 AS a", "does not fit in 64 bits"),
        ("SELECT 0.12345678901234567891 AS a", "write it as 0.12345678901234567891e0"),
        ("SELECT MEDIAN(value * 0.5) AS a FROM many", "median of decimals is not supported"),
        ("SELECT SUM(value * 0.5) = 0.25 AS a FROM many", "do not mix"),
        ("SELECT 0.0000000001 * 0.0000000001 AS a", "too many digits"),
    ] {
        assert!(rows(statement).contains(reason), "{statement}: {}", rows(statement));
    }
}
