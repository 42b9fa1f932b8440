//! What a statement reads, found out before anything is read: its tables, and the words that may name their columns.
//!
//! The words are cut here, not parsed: a column that a statement uses stands in it as a word, so one that does not need
//! not be loaded. What uses columns without their names (`*`, NATURAL JOIN, COLUMNS) loads all.

use crate::sql::QueryError;
use polars::sql::extract_table_identifiers;
use std::collections::BTreeSet;

/// One SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub text: String,
    /// Tables that it names, without those that it defines itself.
    pub tables: BTreeSet<String>,
    /// Names that it defines itself, in lower case.
    own: BTreeSet<String>,
    /// All words, in lower case.
    words: BTreeSet<String>,
    /// It uses columns that it does not name.
    is_wild: bool,
    /// It says in which order its rows come.
    pub is_ordered: bool,
    /// It makes rows that have no order of their own: groups, pairs of rows.
    pub makes_rows: bool,
    /// It takes some of the rows.
    pub is_limited: bool,
}

impl Statement {
    /// # Errors
    /// Text that is no SQL, no SELECT, or more than one; a statement that is nested too deep.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        let tokens = cut(text);
        let found = depth(&tokens);
        if found > DEEPEST {
            return Err(QueryError::TooDeep { found, limit: DEEPEST });
        }
        let parts: Vec<&[Token]> = tokens.split(|t| *t == Token::Mark(';')).filter(|p| !p.is_empty()).collect();
        let only = match parts.as_slice() {
            [] => return Err(QueryError::NotOneSelect { found: "nothing".to_string() }),
            [one] => *one,
            many => return Err(QueryError::NotOneSelect { found: format!("{} statements", many.len()) }),
        };
        match only.iter().find(|t| **t != Token::Mark('(')) {
            Some(Token::Word(w)) if w == "select" || w == "with" => {}
            Some(Token::Word(w)) => return Err(QueryError::NotOneSelect { found: w.to_uppercase() }),
            _ => return Err(QueryError::NotOneSelect { found: "something else".to_string() }),
        }
        let named = extract_table_identifiers(text, false, true).map_err(|e| QueryError::Sql { reason: plain(&e) })?;
        let own = defined(only);
        let tables: BTreeSet<String> = named.into_iter().filter(|t| !own.contains(&t.to_lowercase())).collect();
        let has = |words: &[&str]| only.iter().any(|t| matches!(t, Token::Word(w) if words.contains(&w.as_str())));
        Ok(Self {
            text: text.to_string(),
            tables,
            own,
            is_wild: is_wild(only) || has(&["natural"]),
            is_ordered: has(&["order"]),
            makes_rows: has(&["group", "distinct", "join", "union", "intersect", "except"]),
            is_limited: has(&["limit", "fetch"]),
            words: only.iter().filter_map(Token::word).map(str::to_lowercase).collect(),
        })
    }

    /// Whether it gives this name to a part of itself.
    pub fn defines(&self, name: &str) -> bool {
        self.own.contains(&name.to_lowercase())
    }

    /// Which columns of a table it needs: in the table's order, and never none.
    pub fn columns<'a>(&self, all: &[&'a str]) -> Vec<&'a str> {
        let named: Vec<&str> =
            all.iter().filter(|c| self.is_wild || self.words.contains(&c.to_lowercase())).copied().collect();
        if named.is_empty() { all.iter().take(1).copied().collect() } else { named }
    }
}

/// Deepest nesting of a statement. The engine calls itself for every level, and the stack of
/// [`crate::sql::engine::on_large_stack`] holds more than so many calls.
const DEEPEST: usize = 1000;

/// Words that make one condition of two.
const LOGIC: [&str; 2] = ["and", "or"];
/// Words that stand between two expressions, or before one, and make one expression of them.
const OPERATORS: [&str; 12] =
    ["not", "is", "in", "between", "like", "ilike", "case", "when", "escape", "regexp", "rlike", "over"];
/// Words after which other expressions begin.
const CLAUSES: [&str; 9] = ["select", "from", "where", "group", "having", "order", "limit", "on", "qualify"];
/// Words that join whole SELECTs or tables, each to all before it.
const JOINS: [&str; 4] = ["union", "intersect", "except", "join"];

/// What stands in one open parenthesis.
#[derive(Default)]
struct Level {
    /// It is a part after WITH: the next one may read it.
    is_part: bool,
    /// Joins, parts after WITH, and the parenthesis itself.
    joins: usize,
    /// ANDs and ORs of the expression, other operators since the last of them, and at most between two of them.
    logic: usize,
    operators: usize,
    most_operators: usize,
    /// Deepest parenthesis of the expression.
    inner: usize,
    /// Deepest expression before this one.
    before: usize,
}

impl Level {
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

    /// Takes in a parenthesis that is closed.
    fn close(&mut self, inner: Level) {
        if inner.is_part {
            self.joins += inner.depth();
        } else {
            self.inner = self.inner.max(inner.depth());
        }
    }
}

/// How deep the tree of a statement can be, at most: `a OR b OR c` is `(a OR b) OR c`, so every operator of a chain is a
/// level, as are parentheses, joined tables, and parts after WITH, of which each can read the one before.
fn depth(tokens: &[Token]) -> usize {
    let mut outer = Vec::new();
    let mut level = Level::default();
    for (i, token) in tokens.iter().enumerate() {
        let is = |words: &[&str]| matches!(token, Token::Word(w) if words.contains(&w.as_str()));
        match token {
            Token::Mark('(') => {
                let before = i.checked_sub(1).and_then(|b| tokens.get(b));
                let is_part = before.is_some_and(|t| t.is("as"));
                outer.push(std::mem::replace(&mut level, Level { is_part, joins: 1, ..Level::default() }));
            }
            Token::Mark(')') => {
                if let Some(around) = outer.pop() {
                    let inner = std::mem::replace(&mut level, around);
                    level.close(inner);
                }
            }
            Token::Mark(',' | ';') => level.next_expression(),
            Token::Mark('.' | ']') => {}
            Token::Mark(_) => level.operators += 1,
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
pub fn plain(error: &polars::prelude::PolarsError) -> String {
    shortened(error.to_string().lines().next().unwrap_or_default())
}

/// Without the parser's own notes, which have the form of Rust's: `join type 'Semi(On(BinaryOp {...}))' not supported`.
fn shortened(reason: &str) -> String {
    let plain = reason.trim().trim_start_matches("sql parser error: ").trim_end_matches('.');
    let Some(start) = plain.find(" {") else { return plain.to_string() };
    let notes = plain[..start].rfind(|c: char| c.is_whitespace() || c == '\'').map_or(0, |at| at + 1);
    let what: String = plain[notes..start].chars().take_while(|c| c.is_alphanumeric()).collect();
    let rest = plain.rfind(['}', ')', '\'']).map_or("", |at| &plain[at + 1..]);
    format!("{}`{what}`{rest}", plain[..notes].trim_end_matches('\''))
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// Not in quotes, in lower case.
    Word(String),
    /// A name in quotes, as it stands.
    Name(String),
    Text,
    Number,
    Mark(char),
}

impl Token {
    fn word(&self) -> Option<&str> {
        match self {
            Token::Word(w) | Token::Name(w) => Some(w),
            _ => None,
        }
    }

    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(w) if w == word)
    }
}

/// Cuts a text into words, names, texts, numbers and marks; comments are left out.
fn cut(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let until = |end: &str| rest.find(end).map_or(rest.len(), |i| i + end.len());
        let run = |keep: &dyn Fn(char) -> bool| rest.find(|c| !keep(c)).unwrap_or(rest.len());
        let len = match c {
            _ if rest.starts_with("--") => until("\n"),
            _ if rest.starts_with("/*") => until("*/"),
            '\'' | '"' | '`' => {
                let (inside, len) = quoted(rest, c);
                tokens.push(if c == '\'' { Token::Text } else { Token::Name(inside) });
                len
            }
            _ if c.is_whitespace() => run(&char::is_whitespace),
            _ if c.is_ascii_digit() => {
                tokens.push(Token::Number);
                run(&|c| c.is_ascii_alphanumeric() || c == '.' || c == '_')
            }
            _ if c.is_alphabetic() || c == '_' => {
                let len = run(&|c| c.is_alphanumeric() || c == '_');
                tokens.push(Token::Word(rest[..len].to_lowercase()));
                len
            }
            _ => {
                tokens.push(Token::Mark(c));
                c.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    tokens
}

/// What stands in the quotes that `text` begins with (a doubled quote is one), and how long it is with them.
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

/// Names that a statement gives to parts of itself: `name AS (`, `name (columns) AS (`.
fn defined(tokens: &[Token]) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for (i, pair) in tokens.windows(2).enumerate() {
        if !(pair[0].is("as") && pair[1] == Token::Mark('(')) {
            continue;
        }
        let mut before = &tokens[..i];
        if before.last() == Some(&Token::Mark(')')) {
            let open = before.iter().rposition(|t| *t == Token::Mark('(')).unwrap_or_default();
            before = &before[..open];
        }
        own.extend(before.last().and_then(Token::word).map(str::to_lowercase));
    }
    own
}

/// Whether a `*` stands for columns, or `COLUMNS(...)` does: neither a product nor `COUNT(*)`.
fn is_wild(tokens: &[Token]) -> bool {
    tokens.iter().enumerate().any(|(i, token)| {
        let (before, after) = (i.checked_sub(1).and_then(|b| tokens.get(b)), tokens.get(i + 1));
        match token {
            Token::Word(w) if w == "columns" => after == Some(&Token::Mark('(')),
            Token::Mark('*') => match before {
                Some(Token::Mark('(')) => {
                    let counted = i.checked_sub(2).and_then(|c| tokens.get(c)).is_some_and(|t| t.is("count"));
                    !(counted && after == Some(&Token::Mark(')')))
                }
                Some(Token::Mark(',' | '.')) | None => true,
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
        assert_eq!(tables("WITH a AS (SELECT rank FROM steps), b(x) AS (SELECT 1) SELECT * FROM a JOIN b"), ["steps"]);
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
        for wild in ["SELECT * FROM k", "SELECT k.* FROM k", "SELECT 1, * FROM k", "SELECT COLUMNS('x') FROM k"] {
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
        // whichever side is the deep one
        assert_eq!(of("SELECT a FROM t WHERE ((a + b) OR c) OR d OR e"), 6);
        assert_eq!(of("SELECT a FROM t WHERE e OR d OR (c OR (b + a))"), 6);
        assert_eq!(of("SELECT f(1, f(2, f(3, 4))) FROM t"), 3);
        // text and names are none
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
        let exists = "expression Exists { subquery: Query { with: None }, negated: false } is not currently supported";
        assert_eq!(shortened(exists), "expression `Exists` is not currently supported");
        assert_eq!(shortened("sql parser error: Expected: x, found: y."), "Expected: x, found: y");
    }

    #[test]
    fn a_name_that_hides_a_table_is_no_table() {
        let s = Statement::new("WITH steps AS (SELECT 1 AS x) SELECT x FROM steps").expect("a SELECT");
        assert!(s.tables.is_empty() && s.defines("steps") && !s.defines("x"));
    }
}
