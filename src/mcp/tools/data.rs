//! Tables, their columns, ready queries, and SQL.

use crate::mcp::answer::{Page, Refusal, Told, clip, json_bytes};
use crate::mcp::tools::{CURSOR, SOURCE, ToolCall, listed, max_bytes};
use hta_base::table::format::unit;
use hta_results::output::visible;
use hta_results::sql::catalog;
use hta_results::sql::catalog::QUERIES;
use hta_results::sql::{QueryError, results};
use rmcp::schemars;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TablesOf {
    #[schemars(description = SOURCE)]
    source: Option<String>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct TableList {
    tables: Vec<ToldTable>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldTable {
    name: String,
    row_count: u64,
    /// What a row is
    about: String,
}

/// First sentence of a description.
fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

pub async fn tables(call: &ToolCall<'_>, of: TablesOf) -> Result<Told<TableList>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let read = call.read([(&source, &folder)], |[found]| {
        let found = found?;
        let with_schema =
            |name: String| results::schema(&found, &name).map(|(s, row_count)| (name, s, row_count));
        found.names()?.into_iter().map(with_schema).collect::<Result<Vec<_>, QueryError>>()
    });
    let mut items = Vec::new();
    for (name, schema, row_count) in read.await? {
        let about =
            schema.metadata().get("description").map(|d| first_sentence(d.trim())).unwrap_or_default();
        let about = clip(about, page.text_bytes());
        let rows = if row_count == 1 { "row" } else { "rows" };
        items.push((format!("{name}: {row_count} {rows}; {about}"), ToldTable { name, row_count, about }));
    }
    let head = format!("{} tables; `schema` has their columns", items.len());
    let (text, tables, cursor) = listed(&page, &head, items);
    Ok(Told { text, answer: TableList { tables }, cursor })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchemaOf {
    /// Name of a table, as `tables` gives it
    table: String,
    #[schemars(description = SOURCE)]
    source: Option<String>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Schema {
    table: String,
    row_count: u64,
    /// Order of the rows
    sorted_by: String,
    columns: Vec<ToldColumn>,
}

#[derive(Serialize, JsonSchema)]
pub struct ToldColumn {
    name: String,
    /// integer, number, text or boolean
    kind: String,
    /// Unit of its numbers; empty if they have none
    unit: String,
    can_be_null: bool,
    meaning: String,
}

pub async fn schema(call: &ToolCall<'_>, of: SchemaOf) -> Result<Told<Schema>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let table = of.table.clone();
    let read = call.read([(&source, &folder)], move |[found]| results::schema(&found?, &table));
    let (schema, row_count) = read.await?;
    let meta = |key: &str| schema.metadata().get(key).map(String::as_str).unwrap_or_default();
    let items = schema.fields().iter().map(|field| {
        let meta = |key: &str| field.metadata().get(key).map(String::as_str).unwrap_or_default();
        let column = ToldColumn {
            name: field.name().clone(),
            kind: kind(field.data_type()).to_string(),
            unit: meta("unit").to_string(),
            can_be_null: field.is_nullable(),
            meaning: clip(meta("description"), page.text_bytes()),
        };
        let unit = if column.unit.is_empty() { String::new() } else { format!(" [{}]", column.unit) };
        (format!("{}{unit}: {}", column.name, column.meaning), column)
    });
    let sorted_by = clip(meta("sorted_by"), 200);
    let about = clip(meta("description").trim(), page.text_bytes());
    let (table, about, order) = (visible::line(&of.table), visible::line(&about), visible::line(&sorted_by));
    let head = format!("{table}: {about}\n{row_count} rows by {order}");
    let around = Schema { table: of.table, row_count, sorted_by, columns: Vec::new() };
    let filled = page.fill(head.len() + json_bytes(&around), items);
    let text = format!("{head}\n{}", filled.lines);
    Ok(Told { text, answer: Schema { columns: filled.items, ..around }, cursor: filled.cursor })
}

fn kind(of: &arrow_schema::DataType) -> &'static str {
    match of {
        arrow_schema::DataType::Boolean => "boolean",
        t if t.is_integer() => "integer",
        t if t.is_floating() => "number",
        _ => "text",
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueriesOf {
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct QueryList {
    queries: Vec<NamedQuery>,
}

#[derive(Serialize, JsonSchema)]
pub struct NamedQuery {
    name: String,
    title: String,
}

pub async fn queries(_: &ToolCall<'_>, of: QueriesOf) -> Result<Told<QueryList>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let items = QUERIES.iter().map(|q| {
        let named = NamedQuery { name: q.name.to_string(), title: q.title().to_string() };
        (format!("{}: {}", named.name, named.title), named)
    });
    let head = format!("{} queries; `sql` runs one by name, `explain` documents it", QUERIES.len());
    let (text, queries, cursor) = listed(&page, &head, items.collect());
    Ok(Told { text, answer: QueryList { queries }, cursor })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// One SELECT, or the name of a ready query (`queries`)
    statement: String,
    #[schemars(description = SOURCE)]
    source: Option<String>,
    /// Most rows to tell, at most 1000 (default: 100); a cursor goes on from there
    limit: Option<u32>,
    #[schemars(description = CURSOR)]
    cursor: Option<String>,
    #[schemars(description = max_bytes())]
    max_bytes: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Answered {
    columns: Vec<Selected>,
    /// A value for each column; long texts end in ...
    rows: Vec<Vec<Value>>,
    /// Index of the first of these rows in the whole answer
    first_row: usize,
}

#[derive(Serialize, JsonSchema)]
pub struct Selected {
    name: String,
    /// Unit by the ending of the name; empty if it says none
    unit: String,
}

/// Rows that are told at a time: by default, and at most.
const ROWS: (u32, u32) = (100, 1000);
/// Most rows of an answer that a cursor can reach.
const DEEPEST: usize = 100_000;

pub async fn sql(call: &ToolCall<'_>, of: Sql) -> Result<Told<Answered>, Refusal> {
    let page = Page::new(of.cursor.as_deref(), of.max_bytes)?;
    let limit = of.limit.unwrap_or(ROWS.0);
    if !(1..=ROWS.1).contains(&limit) {
        return Err(Refusal::refused(format!("expected a limit from 1 to {}, found {limit}", ROWS.1))
            .hint("a cursor goes on after the last row; or aggregate"));
    }
    if page.from >= DEEPEST {
        return Err(Refusal::refused(format!("only the first {DEEPEST} rows can be told"))
            .hint("aggregate, or filter"));
    }
    let (source, folder) = call.results(of.source.as_deref()).await?;
    let query = catalog::find(of.statement.trim());
    let statement = query.map_or(of.statement.as_str(), |q| q.text);
    let end = page.from + limit as usize;
    // One row more, to know whether there is more.
    let mut found = call.rows(&source, &folder, statement, end + 1).await?;
    let has_more = found.rows.len() > end;
    found.rows.truncate(end);
    let columns: Vec<Selected> = found
        .columns
        .iter()
        .map(|name| Selected { name: name.clone(), unit: unit(name).unwrap_or_default().to_string() })
        .collect();
    let title = query.map(|q| format!("{}\n", q.title())).unwrap_or_default();
    let heads: Vec<Cow<str>> = columns.iter().map(|c| visible::line(&c.name)).collect();
    let head = match found.rows.len() {
        0 => format!("{title}no rows"),
        _ => format!("{title}{}", heads.join(" | ")),
    };
    let around = head.len() + json_bytes(&columns);
    let room = page.room(around).ok_or_else(|| {
        let count = columns.len();
        Refusal::refused(format!("the names of {count} columns alone fill the answer"))
            .hint("name the columns that you need instead of *, or raise max_bytes")
    })?;
    let most = page.text_bytes();
    let filled = page.fill(around, found.rows.into_iter().map(|row| fitted(row, most, room)));
    let told = page.from + filled.items.len();
    let cursor = filled.cursor.or_else(|| (has_more && !filled.items.is_empty()).then(|| told.to_string()));
    let text = format!("{head}\n{}", filled.lines);
    Ok(Told { text, answer: Answered { columns, rows: filled.items, first_row: page.from }, cursor })
}

/// A row and its line, with texts cut so that both together take at most `room` bytes.
fn fitted(row: Vec<Value>, mut most: usize, room: usize) -> (String, Vec<Value>) {
    const LEAST: usize = 16;
    loop {
        let cut = |value: &Value| match value {
            Value::String(text) => Value::String(clip(text, most)),
            other => other.clone(),
        };
        let cells: Vec<Value> = row.iter().map(cut).collect();
        let line = cells.iter().map(shown).collect::<Vec<_>>().join(" | ");
        if json_bytes(&cells) + json_bytes(&line) <= room || most <= LEAST {
            return (line, cells);
        }
        most /= 2;
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => visible::line(text).into_owned(),
        Value::Null => "-".to_string(),
        other => other.to_string(),
    }
}
