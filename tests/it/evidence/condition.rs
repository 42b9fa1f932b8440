//! The conditions of evidence, which are SQL of a few forms: `column = value`, `IN`, `>=`, `<=`, `>`, `IS
//! [NOT] NULL`, `AND`, `OR` and parentheses. The rows are not asked by SQL here, so that one run serves all
//! questions; `cli::queries::evidence` asks it.

use serde_json::Value;

#[derive(Debug, Clone)]
pub enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Of { column: String, test: Test },
}

#[derive(Debug, Clone)]
pub enum Test {
    In(Vec<Value>),
    Least(i64),
    Most(i64),
    Above(i64),
    IsNull(bool),
}

impl Condition {
    pub fn read(text: &str) -> Result<Self, String> {
        let mut tokens = Tokens { all: tokens(text)?, at: 0 };
        let condition = if text.is_empty() { Condition::All(Vec::new()) } else { tokens.any()? };
        if tokens.at < tokens.all.len() {
            Err(format!("`{}` is left", tokens.all[tokens.at]))
        } else {
            Ok(condition)
        }
    }

    /// Whether a row meets it, given its cells; conditions on columns that do not count are met.
    pub fn holds(&self, cell: &impl Fn(&str) -> Value, counts: &impl Fn(&str) -> bool) -> bool {
        match self {
            Condition::All(of) => of.iter().all(|c| c.holds(cell, counts)),
            Condition::Any(of) => of.iter().any(|c| c.holds(cell, counts)),
            Condition::Of { column, .. } if !counts(column) => true,
            Condition::Of { column, test } => test.holds(&cell(column)),
        }
    }
}

impl Test {
    fn holds(&self, cell: &Value) -> bool {
        match self {
            Test::In(values) => values.contains(cell),
            Test::Least(n) => cell.as_i64().is_some_and(|v| v >= *n),
            Test::Most(n) => cell.as_i64().is_some_and(|v| v <= *n),
            Test::Above(n) => cell.as_f64().is_some_and(|v| v > *n as f64),
            Test::IsNull(is_null) => cell.is_null() == *is_null,
        }
    }
}

/// Words, signs, and texts with their quote in front.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            ' ' => 1,
            '\'' => {
                let mut end = 1;
                loop {
                    let close = rest[end..].find('\'').ok_or("a text does not end")? + end;
                    end = close + 1;
                    if !rest[end..].starts_with('\'') {
                        break end;
                    }
                    end += 1;
                }
            }
            '>' | '<' if rest[1..].starts_with('=') => 2,
            '(' | ')' | ',' | '=' | '>' => 1,
            c if c.is_alphanumeric() || c == '-' || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).unwrap_or(rest.len())
            }
            c => return Err(format!("`{c}` is not expected")),
        };
        if first == '\'' {
            out.push(format!("'{}", rest[1..len - 1].replace("''", "'")));
        } else if first != ' ' {
            out.push(rest[..len].to_string());
        }
        rest = &rest[len..];
    }
    Ok(out)
}

struct Tokens {
    all: Vec<String>,
    at: usize,
}

impl Tokens {
    fn next(&mut self) -> Result<String, String> {
        let token = self.all.get(self.at).cloned().ok_or("more is expected")?;
        self.at += 1;
        Ok(token)
    }

    fn takes(&mut self, token: &str) -> bool {
        let is_next = self.all.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(is_next);
        is_next
    }

    fn any(&mut self) -> Result<Condition, String> {
        let mut of = vec![self.all()?];
        while self.takes("OR") {
            of.push(self.all()?);
        }
        Ok(Condition::Any(of))
    }

    fn all(&mut self) -> Result<Condition, String> {
        let mut of = vec![self.one()?];
        while self.takes("AND") {
            of.push(self.one()?);
        }
        Ok(Condition::All(of))
    }

    fn one(&mut self) -> Result<Condition, String> {
        if self.takes("(") {
            let inside = self.any()?;
            return if self.takes(")") { Ok(inside) } else { Err("`)` is missing".to_string()) };
        }
        let column = self.next()?;
        let number = |token: String| token.parse::<i64>().map_err(|_| format!("`{token}` is no number"));
        let test = match self.next()?.as_str() {
            "=" => Test::In(vec![value(&self.next()?)?]),
            ">=" => Test::Least(number(self.next()?)?),
            "<=" => Test::Most(number(self.next()?)?),
            ">" => Test::Above(number(self.next()?)?),
            "IS" => {
                let is_not = self.takes("NOT");
                if self.next()? != "NULL" {
                    return Err("NULL is expected".to_string());
                }
                Test::IsNull(!is_not)
            }
            "IN" => {
                let mut values = Vec::new();
                if !self.takes("(") {
                    return Err("`(` is expected".to_string());
                }
                while !self.takes(")") {
                    values.push(value(&self.next()?)?);
                    self.takes(",");
                }
                Test::In(values)
            }
            sign => return Err(format!("`{sign}` is not expected")),
        };
        Ok(Condition::Of { column, test })
    }
}

fn value(token: &str) -> Result<Value, String> {
    match token.strip_prefix('\'') {
        Some(text) => Ok(Value::from(text)),
        None if token == "true" || token == "false" => Ok(Value::from(token == "true")),
        None => token.parse::<i64>().map(Value::from).map_err(|_| format!("`{token}` is no value")),
    }
}

#[test]
fn conditions_select_rows_as_sql_does() {
    let row = |column: &str| match column {
        "rank" => Value::from(3),
        "name" => Value::from("it's"),
        _ => Value::Null,
    };
    let holds = |text: &str| Condition::read(text).expect(text).holds(&row, &|_| true);
    assert!(holds("") && holds("rank = 3 AND name = 'it''s'") && holds("rank IN (1, 3) AND step IS NULL"));
    assert!(holds("(rank = 1 OR rank >= 3 AND rank <= 4)") && !holds("rank > 3") && !holds("step >= 0"));
    assert!(!holds("rank IS NULL") && holds("rank IS NOT NULL"));
    assert!(Condition::read("rank = 1 OR name = 'x'").expect("sql").holds(&row, &|column| column != "name"));
    assert!(
        ["rank", "rank = ", "rank ~ 1", "(rank = 1", "rank = 1)", "@3 = 1"]
            .iter()
            .all(|t| Condition::read(t).is_err())
    );
}
