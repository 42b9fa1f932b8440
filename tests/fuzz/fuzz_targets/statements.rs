//! Statements over two small tables: any text must have an answer or a refusal, and the same one each time.

#![no_main]

use hta::sql::engine;
use hta::sql::statement::Statement;
use libfuzzer_sys::fuzz_target;
use polars::prelude::{Column, DataFrame, IntoLazy, LazyFrame};
use std::sync::Once;

/// Panics of Polars are caught and become refusals.
static CAUGHT: Once = Once::new();

fn tables() -> Vec<(String, LazyFrame)> {
    let few = vec![Column::new("id".into(), [Some(1i64), Some(2)]), Column::new("name".into(), [Some("a"), None])];
    let many = vec![
        Column::new("id".into(), [Some(1i64), Some(1), Some(3), None]),
        Column::new("value".into(), [Some(i64::MIN), Some(7), None, Some(2)]),
        Column::new("part".into(), [Some(2.5f64), Some(f64::NAN), Some(-1.5), None]),
    ];
    let table = |name: &str, columns| {
        (name.to_string(), DataFrame::new_infer_height(columns).expect("columns of one length").lazy())
    };
    vec![table("few", few), table("many", many)]
}

fuzz_target!(|text: &str| {
    CAUGHT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    // The command runs statements on a stack for deep nesting, of which few levels are tried here.
    let Ok(statement) = Statement::new(text) else { return };
    let answer = || match engine::run(&statement, tables(), |_| Vec::new()) {
        Ok(answer) => answer.json().expect("JSON"),
        Err(error) => error.to_string(),
    };
    assert_eq!(answer(), answer());
});
