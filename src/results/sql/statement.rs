//! Finds out what a statement reads, before anything is loaded: its tables, and the words that may name
//! columns.
//!
//! Columns are found by the words of the text, not by its meaning: a column that a statement uses appears in
//! it as a word, so columns that do not appear need not be loaded. A construct that uses columns without
//! naming them (`*`, NATURAL JOIN, COLUMNS) loads all.

use crate::sql::QueryError;
use sqlparser::ast::{Query, Statement as Parsed, visit_relations};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub(crate) query: Box<Query>,
    /// Tables that it names, without those that it defines itself.
    pub tables: BTreeSet<String>,
    /// Names that it defines itself, in lower case.
    own: BTreeSet<String>,
    /// All words, in lower case.
    words: BTreeSet<String>,
    /// Whether it uses columns without naming them.
    is_wild: bool,
    /// Whether it orders its rows.
    pub is_ordered: bool,
    /// Whether its rows have no order of their own, because it groups or joins.
    pub makes_rows: bool,
    /// Whether it has a LIMIT.
    pub is_limited: bool,
}

impl Statement {
    /// # Errors
    /// When the text is not exactly one SELECT, or is nested too deeply.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        let tokens = cut(text);
        let found = depth(&tokens);
        if found > DEEPEST {
            return Err(QueryError::TooDeep { found, limit: DEEPEST });
        }
        let parts: Vec<&[SqlToken]> =
            tokens.split(|t| *t == SqlToken::Mark(';')).filter(|p| !p.is_empty()).collect();
        let only = match parts.as_slice() {
            [] => return Err(QueryError::NotOneSelect { found: "nothing".to_string() }),
            [one] => *one,
            many => return Err(QueryError::NotOneSelect { found: format!("{} statements", many.len()) }),
        };
        match only.iter().find(|t| **t != SqlToken::Mark('(')) {
            Some(SqlToken::Word(w)) if w == "select" || w == "with" => {}
            Some(SqlToken::Word(w)) => return Err(QueryError::NotOneSelect { found: w.to_uppercase() }),
            _ => return Err(QueryError::NotOneSelect { found: "something else".to_string() }),
        }
        let query = parsed(text)?;
        let mut named = BTreeSet::new();
        let _ = visit_relations(&query, |name| {
            named
                .insert(name.0.last().map_or(String::new(), |part| part.to_string().replace(['"', '`'], "")));
            ControlFlow::<()>::Continue(())
        });
        let own = defined(only);
        let tables: BTreeSet<String> =
            named.into_iter().filter(|t| !own.contains(&t.to_lowercase())).collect();
        let has = |words: &[&str]| {
            only.iter().any(|t| matches!(t, SqlToken::Word(w) if words.contains(&w.as_str())))
        };
        Ok(Self {
            query,
            tables,
            own,
            is_wild: is_wild(only) || has(&["natural"]),
            is_ordered: has(&["order"]),
            makes_rows: has(&["group", "distinct", "join", "union", "intersect", "except"]),
            is_limited: has(&["limit", "fetch"]),
            words: only.iter().filter_map(SqlToken::word).map(str::to_lowercase).collect(),
        })
    }

    /// Whether it defines a part of itself with this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.own.contains(&name.to_lowercase())
    }

    /// Whether it names one of the columns.
    pub(crate) fn names_one_of(&self, columns: &[&str]) -> bool {
        self.is_wild || columns.iter().any(|c| self.words.contains(&c.to_lowercase()))
    }

    /// The columns of a table that it needs, in the table's order; at least one.
    pub(crate) fn columns<'a>(&self, all: &[&'a str]) -> Vec<&'a str> {
        let named: Vec<&str> =
            all.iter().filter(|c| self.is_wild || self.words.contains(&c.to_lowercase())).copied().collect();
        if named.is_empty() { all.iter().take(1).copied().collect() } else { named }
    }
}

/// The query of a text, in the dialect that accepts most.
fn parsed(text: &str) -> Result<Box<Query>, QueryError> {
    let statements = Parser::parse_sql(&GenericDialect, text);
    let refused = |reason: &str| QueryError::Sql { reason: shortened(reason) };
    match statements.map_err(|e| refused(&e.to_string()))?.into_iter().next() {
        Some(Parsed::Query(query)) => Ok(query),
        _ => Err(refused("it is no SELECT")),
    }
}

/// Deepest nesting accepted. The engine recurses for every level, and the stack of
/// [`crate::sql::engine::on_large_stack`] suffices for more than that.
const DEEPEST: usize = 1000;

/// Words that combine two conditions.
const LOGIC: [&str; 2] = ["and", "or"];
/// Words that combine expressions, or precede one.
const OPERATORS: [&str; 12] =
    ["not", "is", "in", "between", "like", "ilike", "case", "when", "escape", "regexp", "rlike", "over"];
/// Words after which a new expression begins.
const CLAUSES: [&str; 9] = ["select", "from", "where", "group", "having", "order", "limit", "on", "qualify"];
/// Words that combine SELECTs or tables with everything before them.
const JOINS: [&str; 4] = ["union", "intersect", "except", "join"];

/// The state of one open parenthesis.
#[derive(Default)]
struct ParenthesisDepth {
    /// Whether it is a part after WITH, which the next part may read.
    is_part: bool,
    /// Number of joins and parts after WITH, plus one for the parenthesis itself.
    joins: usize,
    /// Number of ANDs and ORs of the expression; (next fields) of other operators since the last of them, and
    /// the largest such number.
    logic: usize,
    operators: usize,
    most_operators: usize,
    /// Depth of the deepest parenthesis in the expression.
    inner: usize,
    /// Depth of the deepest expression before this one.
    before: usize,
}

impl ParenthesisDepth {
    fn next_condition(&mut self) {
        self.most_operators = self.most_operators.max(self.operators);
        self.operators = 0;
    }

    fn next_expression(&mut self) {
        self.next_condition();
        self.before = self.before.max(self.logic + self.most_operators + self.inner);
        (self.logic, self.most_operators, self.inner) = (0, 0, 0);
    }

    fn depth(mut self) -> usize {
        self.next_expression();
        self.joins + self.before
    }

    /// Accounts for a parenthesis that is closed.
    fn close(&mut self, inner: ParenthesisDepth) {
        if inner.is_part {
            self.joins += inner.depth();
        } else {
            self.inner = self.inner.max(inner.depth());
        }
    }
}

/// Upper bound for the depth of a statement's tree. `a OR b OR c` is `(a OR b) OR c`, so every operator of a
/// chain is a level, as are parentheses, joined tables, and parts after WITH, each of which can read the
/// previous one.
fn depth(tokens: &[SqlToken]) -> usize {
    let mut outer = Vec::new();
    let mut level = ParenthesisDepth::default();
    for (i, token) in tokens.iter().enumerate() {
        let is = |words: &[&str]| matches!(token, SqlToken::Word(w) if words.contains(&w.as_str()));
        match token {
            SqlToken::Mark('(') => {
                let before = i.checked_sub(1).and_then(|b| tokens.get(b));
                let is_part = before.is_some_and(|t| t.is("as"));
                outer.push(std::mem::replace(
                    &mut level,
                    ParenthesisDepth { is_part, joins: 1, ..ParenthesisDepth::default() },
                ));
            }
            SqlToken::Mark(')') => {
                if let Some(around) = outer.pop() {
                    let inner = std::mem::replace(&mut level, around);
                    level.close(inner);
                }
            }
            SqlToken::Mark(',' | ';') => level.next_expression(),
            SqlToken::Mark('.' | ']') => {}
            SqlToken::Mark(_) => level.operators += 1,
            _ if is(&LOGIC) => {
                level.next_condition();
                level.logic += 1;
            }
            _ if is(&OPERATORS) => level.operators += 1,
            _ if is(&CLAUSES) => level.next_expression(),
            _ if is(&JOINS) => level.joins += 1,
            _ => {}
        }
    }
    while let Some(around) = outer.pop() {
        let inner = std::mem::replace(&mut level, around);
        level.close(inner);
    }
    level.depth()
}

/// The reason of an engine's error, on one line.
pub(crate) fn plain(error: &polars::prelude::PolarsError) -> String {
    let reason = shortened(error.to_string().lines().next().unwrap_or_default());
    if reason.contains("polars-big-idx") {
        return "it makes more than 2^32 rows: join on keys, or aggregate before joining".to_string();
    }
    reason
}

/// Removes the parser's debug output: `join type 'Semi(On(BinaryOp {...}))' not supported`.
fn shortened(reason: &str) -> String {
    let plain = reason.trim().trim_start_matches("sql parser error: ").trim_end_matches('.');
    let Some(start) = plain.find(" {") else { return plain.to_string() };
    let notes = plain[..start].rfind(|c: char| c.is_whitespace() || c == '\'').map_or(0, |at| at + 1);
    let what: String = plain[notes..start].chars().take_while(|c| c.is_alphanumeric()).collect();
    let rest = plain.rfind(['}', ')', '\'']).map_or("", |at| &plain[at + 1..]);
    format!("{}`{what}`{rest}", plain[..notes].trim_end_matches('\''))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SqlToken {
    /// A word that is not in quotes, in lower case.
    Word(String),
    /// A name in quotes, unchanged.
    Name(String),
    Text,
    Number,
    Mark(char),
}

impl SqlToken {
    fn word(&self) -> Option<&str> {
        match self {
            SqlToken::Word(w) | SqlToken::Name(w) => Some(w),
            _ => None,
        }
    }

    fn is(&self, word: &str) -> bool {
        matches!(self, SqlToken::Word(w) if w == word)
    }
}

/// Splits a text into words, names, texts, numbers and marks, without comments.
fn cut(text: &str) -> Vec<SqlToken> {
    let mut tokens = Vec::new();
    walk(text, |token, _| tokens.extend(token));
    tokens
}

/// Calls `take` with each piece of a text, and with its token; blanks and comments have none.
fn walk<'a>(text: &'a str, mut take: impl FnMut(Option<SqlToken>, &'a str)) {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let until = |end: &str| rest.find(end).map_or(rest.len(), |i| i + end.len());
        let run = |keep: &dyn Fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let (token, len) = match c {
            _ if rest.starts_with("--") => (None, until("\n")),
            _ if rest.starts_with("/*") => (None, until("*/")),
            '\'' | '"' | '`' => {
                let (inside, len) = quoted(rest, c);
                (Some(if c == '\'' { SqlToken::Text } else { SqlToken::Name(inside) }), len)
            }
            _ if c.is_whitespace() => (None, run(&char::is_whitespace)),
            _ if c.is_ascii_digit() => {
                (Some(SqlToken::Number), run(&|c| c.is_ascii_alphanumeric() || c == '.' || c == '_'))
            }
            _ if c.is_alphabetic() || c == '_' => {
                let len = run(&|c| c.is_alphanumeric() || c == '_');
                (Some(SqlToken::Word(rest[..len].to_lowercase())), len)
            }
            _ => (Some(SqlToken::Mark(c)), c.len_utf8()),
        };
        take(token, &rest[..len]);
        rest = &rest[len..];
    }
}

/// The content of the quotes with which `text` begins (a doubled quote stands for one), and the length
/// including the quotes.
fn quoted(text: &str, quote: char) -> (String, usize) {
    let (mut inside, mut at) = (String::new(), 1);
    while let Some(end) = text[at..].find(quote) {
        inside.push_str(&text[at..at + end]);
        at += end + 1;
        if !text[at..].starts_with(quote) {
            return (inside, at);
        }
        inside.push(quote);
        at += 1;
    }
    inside.push_str(&text[at..]);
    (inside, text.len())
}

/// Names that a statement defines: `name AS (`, `name (columns) AS (`.
fn defined(tokens: &[SqlToken]) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        if !(pair[0].is("as") && pair[1] == SqlToken::Mark('(')) {
            continue;
        }
        let mut before = &tokens[..i];
        if before.last() == Some(&SqlToken::Mark(')')) {
            let open = before.iter().rposition(|t| *t == SqlToken::Mark('(')).unwrap_or_default();
            before = &before[..open];
        }
        own.extend(before.last().and_then(SqlToken::word).map(str::to_lowercase));
    }
    own
}

/// Whether the statement contains a `*` for columns or `COLUMNS(...)`, as opposed to a product or `COUNT(*)`.
fn is_wild(tokens: &[SqlToken]) -> bool {
    tokens.iter().enumerate().any(|(i, token)| {
        let (before, after) = (i.checked_sub(1).and_then(|b| tokens.get(b)), tokens.get(i + 1));
        match token {
            SqlToken::Word(w) if w == "columns" => after == Some(&SqlToken::Mark('(')),
            SqlToken::Mark('*') => match before {
                Some(SqlToken::Mark('(')) => {
                    let counted = i.checked_sub(2).and_then(|c| tokens.get(c)).is_some_and(|t| t.is("count"));
                    !(counted && after == Some(&SqlToken::Mark(')')))
                }
                Some(SqlToken::Mark(',' | '.')) | None => true,
                Some(t) => ["select", "distinct", "all"].iter().any(|w| t.is(w)),
            },
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(text: &str) -> Vec<String> {
        Statement::new(text).expect("a SELECT").tables.into_iter().collect()
    }

    #[test]
    fn tables_are_those_that_the_statement_does_not_define() {
        assert_eq!(tables("SELECT 1 FROM kernels"), ["kernels"]);
        assert_eq!(
            tables("WITH a AS (SELECT rank FROM steps), b(x) AS (SELECT 1) SELECT * FROM a JOIN b"),
            ["steps"]
        );
        assert_eq!(
            tables("select (select max(rank) from ranks) from \"kernels\" k -- from idle"),
            ["kernels", "ranks"]
        );
    }

    #[test]
    fn only_columns_that_are_named_are_needed() {
        let of = |text: &str| Statement::new(text).expect("a SELECT").columns(&["rank", "name", "dur_ns"]);
        assert_eq!(of("SELECT RANK, 2 * dur_ns FROM kernels WHERE kind = 'name'"), ["rank", "dur_ns"]);
        assert_eq!(of("SELECT COUNT(*) FROM kernels"), ["rank"]);
        assert_eq!(of("SELECT k.\"name\", 'it''s' FROM kernels k"), ["name"]);
        for wild in
            ["SELECT * FROM k", "SELECT k.* FROM k", "SELECT 1, * FROM k", "SELECT COLUMNS('x') FROM k"]
        {
            assert_eq!(of(wild).len(), 3, "{wild}");
        }
    }

    #[test]
    fn what_is_not_one_select_is_refused() {
        let found = |text: &str| Statement::new(text).expect_err("no SELECT").to_string();
        assert!(found("").ends_with("found nothing"));
        assert!(found("SELECT 1; SELECT 2").ends_with("found 2 statements"));
        assert!(found("DROP TABLE kernels").ends_with("found DROP"));
        assert!(found("/* x */ 7").ends_with("found something else"));
        assert!(found("SELECT rank FROM ranks WHERE").contains("Expected"));
        assert!(Statement::new("(SELECT 1 AS x);\n-- done; really\n").is_ok());
    }

    #[test]
    fn nesting_is_counted_where_expressions_stand_in_one_another() {
        let of = |text: &str| depth(&cut(text));
        assert_eq!(of("SELECT a, b, c, d FROM t"), 0);
        assert_eq!(of("SELECT a + b, c * d FROM t WHERE x OR y"), 1);
        assert_eq!(of("SELECT a FROM t WHERE a OR b OR c AND NOT d"), 4);
        assert_eq!(of("SELECT ((a)) FROM t"), 2);
        assert_eq!(of("SELECT a FROM t WHERE a IN (1, 2, 3, 4, 5, 6)"), 2);
        assert_eq!(of("SELECT a FROM t WHERE a = 1 OR b = 2 OR c < 3 + 4"), 4);
        assert_eq!(of("SELECT 1 UNION SELECT 2 UNION SELECT 3"), 2);
        assert_eq!(of("WITH a AS (SELECT 1), b AS (SELECT 2) SELECT 3"), 2);
        // The deeper side may be left or right.
        assert_eq!(of("SELECT a FROM t WHERE ((a + b) OR c) OR d OR e"), 6);
        assert_eq!(of("SELECT a FROM t WHERE e OR d OR (c OR (b + a))"), 6);
        assert_eq!(of("SELECT f(1, f(2, f(3, 4))) FROM t"), 3);
        // Texts, names and comments do not count.
        assert_eq!(of("SELECT ' ((( OR ' AS \"x OR y OR\" -- OR OR\n FROM t"), 0);
        assert_eq!(of(")))))"), 0);
        assert_eq!(of("(((((("), 6);
    }

    #[test]
    fn nesting_beyond_the_limit_is_an_error() {
        let chain = |n: usize| format!("SELECT 1 AS x FROM t WHERE {}", vec!["a"; n].join(" OR "));
        assert!(matches!(Statement::new(&chain(DEEPEST + 2)), Err(QueryError::TooDeep { .. })));
        let parts: Vec<String> = (0..DEEPEST + 2).map(|i| format!("p{i} AS (SELECT 1 AS x)")).collect();
        let with = format!("WITH {} SELECT x FROM p0", parts.join(", "));
        assert!(matches!(Statement::new(&with), Err(QueryError::TooDeep { .. })));
    }

    #[test]
    fn reasons_are_without_the_notes_of_the_parser() {
        let join = "join type 'Semi(On(BinaryOp { left: 1, right: (a { b }) }))' not currently supported";
        assert_eq!(shortened(join), "join type `Semi` not currently supported");
        let exists =
            "expression Exists { subquery: Query { with: None }, negated: false } is not currently supported";
        assert_eq!(shortened(exists), "expression `Exists` is not currently supported");
        assert_eq!(shortened("sql parser error: Expected: x, found: y."), "Expected: x, found: y");
    }

    #[test]
    fn a_name_that_hides_a_table_is_no_table() {
        let s = Statement::new("WITH steps AS (SELECT 1 AS x) SELECT x FROM steps").expect("a SELECT");
        assert!(s.tables.is_empty() && s.defines("steps") && !s.defines("x"));
    }
}
