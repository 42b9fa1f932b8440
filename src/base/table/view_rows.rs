//! The rows of a view, made of its table: kept, in order, cut or folded, with the notes below them.

use crate::table::column::Column;
use crate::table::format::CellType;
use crate::table::role::Role;
use crate::table::schema::ColumnSpec;
use crate::table::value::{Value, compare, median};
use crate::table::view::{Fold, Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use crate::units::{fmt_count, fmt_pct};
use crate::wording::counts::{bar, counted};
use crate::wording::ranks::ranks_in_column;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A view with its rows.
#[derive(Debug, Clone, Default)]
pub struct ViewRows {
    pub title: &'static str,
    pub columns: Vec<ViewColumn>,
    pub rows: Vec<Vec<Value>>,
    /// Number of rows that are kept and not shown, and (next) the sums of their columns; a row of folded ones
    /// does not count.
    pub left: usize,
    pub rest: Vec<Value>,
    pub notes: Vec<String>,
}

/// A column of a view.
#[derive(Debug, Clone)]
pub struct ViewColumn {
    pub name: &'static str,
    pub heading: Cow<'static, str>,
    pub doc: &'static str,
    pub cells: CellType,
    /// Whether its values are flags.
    is_flag: bool,
    /// What stands for null.
    null: &'static str,
}

impl ViewColumn {
    fn of(spec: &'static ColumnSpec, is_folded: bool) -> Self {
        let ranks = is_folded && spec.name == "rank";
        let is_text = ranks || spec.name == "step";
        Self {
            name: spec.name,
            heading: if ranks { Cow::Borrowed("ranks") } else { spec.title() },
            doc: spec.doc,
            cells: if is_text { CellType::Text } else { spec.cells() },
            is_flag: spec.kind == "bool",
            null: "-",
        }
    }

    /// A column as another tool has it.
    fn exact(spec: &'static ColumnSpec) -> Self {
        let cells = if spec.kind == "text" { CellType::Text } else { CellType::Exact };
        Self { heading: Cow::Borrowed(spec.name), cells, is_flag: false, ..Self::of(spec, false) }
    }

    /// A column that no table declares.
    fn made(name: &'static str, heading: Cow<'static, str>, cells: CellType) -> Self {
        Self { name, heading, doc: "", cells, is_flag: false, null: "-" }
    }

    /// A cell as people read it.
    pub fn text(&self, value: &Value) -> String {
        match value {
            Value::Null => self.null.to_string(),
            Value::Text(text) if text.is_empty() => "-".to_string(),
            Value::Text(text) => text.to_string(),
            Value::Int(v) if self.is_flag => if *v == 0 { "no" } else { "yes" }.to_string(),
            Value::Int(_) => self.cells.int(value.int().unwrap_or(0)),
            Value::Float(v) => self.cells.float(*v),
        }
    }
}

/// The name of columns of shares, by which they give way.
const SHARE: &str = "share";

/// Number of rows, as a multiple of those that are shown, above which the rest is cut while reading.
const CUT_ABOVE: usize = 16;

impl ViewSpec {
    /// The view with its rows. `None` if there is no such table.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn rows(&self, scope: &ViewScope) -> Result<Option<ViewRows>, TableError> {
        let names = self.names();
        let mut all = KeptRows::new(self, names.clone(), scope)?;
        let there = scope.tables.each_row(self.of, &names, &mut |cells, row| all.add(cells, row))?;
        if !there {
            return Ok(None);
        }
        let mut view = all.finish();
        for note in self.notes {
            if let Note::Made(make) = note {
                view.notes.extend(make(scope)?);
            }
        }
        Ok(Some(view))
    }

    /// The columns that are read: those shown first.
    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.columns.to_vec();
        if self.columns.is_empty() {
            names.extend(self.of.columns.iter().map(|c| c.name));
        }
        names.extend(self.bar.iter().map(|(_, name)| *name));
        names.extend(self.means.iter().flat_map(|(part, whole, _)| [*part, *whole]));
        names.extend(self.shares.iter().map(|(name, _)| *name));
        names.extend(self.percents.iter().flat_map(|(part, whole, _)| [*part, *whole]));
        for keep in self.keep {
            match keep {
                Keep::Positive(name) | Keep::Zero(name) | Keep::Null(name) | Keep::Known(name) => {
                    names.push(name)
                }
                Keep::Is(name, _) | Keep::IsNot(name, _) | Keep::Chosen(name, ..) => names.push(name),
                Keep::Scope(_) => names.push("scope"),
                Keep::First(of) | Keep::Made(of, _) => names.extend(*of),
            }
        }
        names.extend(self.each);
        for note in self.notes {
            match note {
                Note::If(name, _) | Note::Sum(name, ..) => names.push(name),
                Note::Text(_) | Note::Made(_) => {}
            }
        }
        names.extend(self.joined.iter().map(|(_, _, name)| *name));
        let by = self.by_option.1.iter().map(|(_, by)| *by).chain([self.by]);
        names.extend(by.flat_map(ViewSpec::order).map(|(name, _)| name));
        names.extend(Some(self.per).filter(|name| !name.is_empty()));
        if self.columns.contains(&"step") {
            names.push("step_label");
        }
        if self.fold == Fold::Worst {
            names.push("rank");
            // What quotients and means are made of.
            for spec in names.clone().into_iter().filter_map(|name| self.of.column_spec(name)) {
                match spec.role {
                    Role::Ratio(a, b) | Role::Percent(a, b) => names.extend([a, b]),
                    Role::Mean(_, weight) => names.push(weight),
                    _ => {}
                }
            }
        }
        let mut seen = BTreeSet::new();
        names.retain(|name| self.of.column_spec(name).is_some() && seen.insert(*name));
        names
    }
}

/// Rows while they are read.
struct KeptRows<'a> {
    view: &'a ViewSpec,
    names: Vec<&'static str>,
    specs: Vec<&'static ColumnSpec>,
    tests: Vec<(Vec<usize>, RowTest)>,
    top: usize,
    /// Column by which rows fall.
    by: &'static str,
    is_one_rank: bool,
    rows: Vec<Vec<Value>>,
    left: usize,
    rest: Vec<Value>,
    /// Sums over all rows of the columns of notes, by their places.
    told: BTreeMap<usize, Value>,
    /// By the values of the columns of `each` the sums of the columns of shares.
    wholes: Vec<(Vec<Value>, Vec<Value>)>,
}

impl<'a> KeptRows<'a> {
    fn new(view: &'a ViewSpec, names: Vec<&'static str>, scope: &ViewScope) -> Result<Self, TableError> {
        let specs: Vec<&'static ColumnSpec> = names.iter().filter_map(|n| view.of.column_spec(n)).collect();
        let at = |name: &str| names.iter().position(|n| *n == name);
        let mut tests: Vec<(Vec<usize>, RowTest)> = Vec::new();
        for keep in view.keep {
            let (of, test): (&[&str], RowTest) = match *keep {
                Keep::Positive(name) => (&[name], Box::new(|c, r| c[0].float(r).is_some_and(|v| v > 0.0))),
                Keep::Zero(name) => (&[name], Box::new(|c, r| c[0].float(r) == Some(0.0))),
                Keep::Is(name, texts) => {
                    (&[name], Box::new(|c, r| c[0].text(r).is_some_and(|t| texts.contains(&t))))
                }
                Keep::IsNot(name, texts) => {
                    (&[name], Box::new(|c, r| c[0].text(r).is_some_and(|t| !texts.contains(&t))))
                }
                Keep::Null(name) => (&[name], Box::new(|c, r| Value::of(&c[0], r).is_null())),
                Keep::Known(name) => (&[name], Box::new(|c, r| !Value::of(&c[0], r).is_null())),
                Keep::Scope(whole) => {
                    let wanted = scope.scope(whole);
                    (&["scope"], Box::new(move |c, r| c[0].text(r) == Some(wanted)))
                }
                Keep::Chosen(name, flag, usual) => {
                    let wanted = (scope.option)(flag).unwrap_or_else(|| usual.to_string());
                    (&[name], Box::new(move |c, r| c[0].text(r) == Some(wanted.as_str())))
                }
                Keep::Made(of, make) => (of, make(scope)?),
                Keep::First(_) => continue,
            };
            tests.push((of.iter().filter_map(|name| at(name)).collect(), test));
        }
        let rest = vec![Value::Null; names.len()];
        let top = if view.is_whole { usize::MAX } else { scope.top.min(view.most) };
        let is_one_rank = scope.is_one_rank;
        let asked = (scope.option)(view.by_option.0);
        let is_asked = |(value, _): &&(&str, &str)| asked.as_deref() == Some(*value);
        let by = view.by_option.1.iter().find(is_asked).map_or(view.by, |(_, name)| *name);
        let of_notes = view.notes.iter().filter_map(|note| match note {
            Note::If(name, _) | Note::Sum(name, ..) => at(name),
            Note::Text(_) | Note::Made(_) => None,
        });
        let told = of_notes.map(|at| (at, Value::Null)).collect();
        Ok(Self {
            view,
            names,
            specs,
            tests,
            top,
            by,
            is_one_rank,
            rows: Vec::new(),
            left: 0,
            rest,
            told,
            wholes: Vec::new(),
        })
    }

    fn at(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| *n == name)
    }

    fn add(&mut self, columns: &[Column<'_>], row: usize) {
        let is_kept = |(of, test): &(Vec<usize>, RowTest)| {
            let own: Vec<Column> = of.iter().filter_map(|at| columns.get(*at)).copied().collect();
            own.len() == of.len() && test(&own, row)
        };
        if !self.tests.iter().all(is_kept) {
            return;
        }
        let mut cells: Vec<Value> = columns.iter().map(|c| Value::of(c, row)).collect();
        for (at, sum) in &mut self.told {
            cells.get(*at).into_iter().for_each(|cell| sum.add(cell));
        }
        if !self.view.shares.is_empty() {
            let key = self.key(&cells);
            let place = self.wholes.iter().position(|(known, _)| *known == key);
            let place = place.unwrap_or_else(|| {
                self.wholes.push((key, vec![Value::Null; self.view.shares.len()]));
                self.wholes.len() - 1
            });
            for (sum, (name, _)) in self.wholes[place].1.iter_mut().zip(self.view.shares) {
                let at = self.names.iter().position(|n| n == name);
                at.into_iter().for_each(|at| sum.add(&cells[at]));
            }
        }
        let is_named = self.view.columns.contains(&"step");
        if let (true, Some(step), Some(label)) = (is_named, self.at("step"), self.at("step_label")) {
            let name = match (cells[label].int(), cells[step].int()) {
                (Some(label), _) => Value::Text(label.to_string().into()),
                (None, Some(index)) => Value::Text(format!("@{index}").into()),
                (None, None) => Value::Null,
            };
            cells[step] = name;
        }
        let is_bounded =
            self.view.fold == Fold::Rest && self.first_of().is_empty() && self.view.each.is_empty();
        if is_bounded && self.by.is_empty() && self.rows.len() >= self.top {
            return self.leave_out(&cells);
        }
        self.rows.push(cells);
        if is_bounded && self.rows.len() > CUT_ABOVE.saturating_mul(self.top.max(1)) {
            self.sort();
            self.cut();
        }
    }

    /// The values within which rows are counted, and whose sums shares are of.
    fn key(&self, row: &[Value]) -> Vec<Value> {
        self.view.each.iter().filter_map(|name| row.get(self.at(name)?).cloned()).collect()
    }

    /// The columns whose values are those of the first row.
    fn first_of(&self) -> &'static [&'static str] {
        self.view
            .keep
            .iter()
            .find_map(|k| if let Keep::First(of) = k { Some(*of) } else { None })
            .unwrap_or(&[])
    }

    fn sort(&mut self) {
        let by: Vec<(usize, bool)> =
            ViewSpec::order(self.by).filter_map(|(name, rises)| Some((self.at(name)?, rises))).collect();
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|a, b| {
            let of_column = |(at, rises): &(usize, bool)| {
                let (a, b) = (self.of_unit(a, *at), self.of_unit(b, *at));
                match a.is_null() || b.is_null() || !rises {
                    true => compare(&b, &a),
                    false => compare(&a, &b),
                }
            };
            by.iter().map(of_column).fold(Ordering::Equal, Ordering::then)
        });
        self.rows = rows;
    }

    fn cut(&mut self) {
        if self.view.each.is_empty() {
            for row in self.rows.split_off(self.top.min(self.rows.len())) {
                self.leave_out(&row);
            }
            return;
        }
        let mut counts: Vec<(Vec<Value>, usize)> = Vec::new();
        for row in std::mem::take(&mut self.rows) {
            let key = self.key(&row);
            let at = counts.iter().position(|(known, _)| *known == key).unwrap_or(counts.len());
            if at == counts.len() {
                counts.push((key, 0));
            }
            counts[at].1 += 1;
            match counts[at].1 <= self.top {
                true => self.rows.push(row),
                false => self.leave_out(&row),
            }
        }
    }

    fn leave_out(&mut self, row: &[Value]) {
        self.left += 1;
        self.rest.iter_mut().zip(row).for_each(|(sum, cell)| sum.add(cell));
    }

    fn finish(mut self) -> ViewRows {
        let is_folded = self.view.fold == Fold::Worst;
        let is_all = self.rows.len() <= self.top;
        if !is_folded || !is_all {
            self.sort();
        }
        let first: Vec<usize> = self.first_of().iter().filter_map(|name| self.at(name)).collect();
        if let Some(row) = self.rows.first().filter(|_| !first.is_empty()).cloned() {
            self.rows.retain(|r| first.iter().all(|at| r.get(*at) == row.get(*at)));
        }
        let shown: Vec<usize> = self.shown_columns();
        let column = |spec: &&'static ColumnSpec| match self.view.columns.is_empty() {
            true => ViewColumn::exact(spec),
            false => ViewColumn::of(spec, is_folded),
        };
        let mut columns: Vec<ViewColumn> =
            shown.iter().filter_map(|at| self.specs.get(*at)).map(column).collect();
        for (name, word) in self.view.nulls {
            columns.iter_mut().filter(|c| c.name == *name).for_each(|c| c.null = word);
        }
        let mut notes = Vec::new();
        if is_folded {
            notes.extend(self.fold(&shown, &columns));
        } else {
            self.cut();
            notes.extend((self.left > 0).then(|| {
                format!("{} in the table {}", counted(self.left as u64, "more row"), self.view.of.name)
            }));
        }
        let pick = |row: &Vec<Value>| -> Vec<Value> { shown.iter().map(|at| self.cell(row, *at)).collect() };
        let is_summed = |at: &usize| self.names.get(*at).is_some_and(|name| self.view.sums.contains(name));
        let rest = shown.iter().map(|at| if is_summed(at) { self.rest[*at].clone() } else { Value::Null });
        let rest: Vec<Value> = rest.collect();
        let mut rows: Vec<Vec<Value>> = self.rows.iter().map(|row| pick(&self.per_unit(row))).collect();
        for (part, whole, heading) in self.view.means {
            let (Some(part), Some(whole)) = (self.at(part), self.at(whole)) else { continue };
            columns.push(ViewColumn::made("mean", Cow::Borrowed(heading), self.specs[part].cells()));
            for (row, of) in rows.iter_mut().zip(&self.rows) {
                let mean = of[part].float().zip(of[whole].float().filter(|n| *n != 0.0)).map(|(v, n)| v / n);
                row.push(mean.map_or(Value::Null, Value::Float));
            }
        }
        let is_shown = |name: &&str| columns.iter().any(|c| c.name == *name);
        let gives_way = self.view.gives_way.iter().find(|(name, _)| *name == SHARE);
        let has_shares = gives_way.is_none_or(|(_, others)| !others.iter().any(is_shown));
        for (i, (name, heading)) in self.view.shares.iter().enumerate().filter(|_| has_shares) {
            let Some(at) = self.at(name) else { continue };
            let sum_of = |key: &[Value]| {
                let of_key = self.wholes.iter().find(|(known, _)| known == key);
                of_key.and_then(|(_, sums)| sums[i].float()).filter(|sum| *sum != 0.0)
            };
            if !self.wholes.iter().any(|(key, _)| sum_of(key).is_some()) {
                continue;
            }
            columns.push(ViewColumn::made(SHARE, Cow::Borrowed(heading), CellType::Percent));
            for (row, of) in rows.iter_mut().zip(&self.rows) {
                let share = sum_of(&self.key(of)).zip(of[at].float()).map(|(sum, v)| 100.0 * v / sum);
                row.push(share.map_or(Value::Null, Value::Float));
            }
        }
        for (part, whole, heading) in self.view.percents {
            let Some((part, whole)) = self.at(part).zip(self.at(whole)) else { continue };
            columns.push(ViewColumn::made("percent", Cow::Borrowed(heading), CellType::Percent));
            for (row, of) in rows.iter_mut().zip(&self.rows) {
                row.push(quotient(&of[part], &of[whole], 100.0));
            }
        }
        if !self.view.bar.is_empty() {
            columns.push(ViewColumn::made("picture", Cow::Borrowed("picture"), CellType::Text));
            notes.extend(self.marks());
            for (row, of) in rows.iter_mut().zip(&self.rows) {
                row.push(Value::Text(self.bar_of(of).into()));
            }
        }
        notes.extend(self.notes());
        ViewRows { title: self.view.title, columns, rows, left: self.left, rest, notes }
    }

    /// Places of the columns that are shown.
    fn shown_columns(&self) -> Vec<usize> {
        if self.view.columns.is_empty() {
            return (0..self.names.len()).collect();
        }
        let is_shown = |name: &&&'static str| {
            let (true, Some(at)) = (self.view.optional.contains(name), self.at(name)) else { return true };
            match **name {
                "rank" => !self.is_one_rank,
                "device" => self.has_several_devices(at),
                "process_group" => self.rows.iter().any(|row| row[at] != self.rows[0][at]),
                _ => self.rows.iter().any(|row| !is_nothing(&row[at])),
            }
        };
        let mut shown: Vec<&str> = self.view.columns.iter().filter(is_shown).copied().collect();
        for (name, others) in self.view.gives_way {
            if ViewSpec::order(self.by).all(|(by, _)| by != *name)
                && others.iter().any(|other| shown.contains(other))
            {
                shown.retain(|known| known != name);
            }
        }
        shown.into_iter().filter_map(|name| self.at(name)).collect()
    }

    /// A cell with those that are joined to it.
    fn cell(&self, row: &[Value], at: usize) -> Value {
        let mut text: Option<String> = None;
        for (_, between, name) in self.view.joined.iter().filter(|(to, ..)| self.at(to) == Some(at)) {
            let Some(other) = self.at(name).filter(|other| !row[*other].is_null()) else { continue };
            let shown = |at: usize| ViewColumn::of(self.specs[at], false).text(&row[at]);
            text = Some(match text.or_else(|| (!row[at].is_null()).then(|| shown(at))) {
                Some(text) => format!("{text}{between}{}", shown(other)),
                None => shown(other),
            });
        }
        text.map_or_else(|| row[at].clone(), |text| Value::Text(text.into()))
    }

    /// Whether some rank has rows of several devices.
    fn has_several_devices(&self, device: usize) -> bool {
        let Some(rank) = self.at("rank") else {
            return self.rows.iter().any(|row| row[device] != self.rows[0][device]);
        };
        let mut first: BTreeMap<Option<i64>, Option<i64>> = BTreeMap::new();
        self.rows
            .iter()
            .any(|row| *first.entry(row[rank].int()).or_insert(row[device].int()) != row[device].int())
    }

    /// Whether a column says more of a row, and is left out where rows that share one differ in it.
    fn is_first(&self, at: usize) -> bool {
        self.specs.get(at).is_some_and(|spec| matches!(spec.role, Role::First(_)))
    }

    /// Joins equal rows, and the others beyond the first ones. Returns what is said of these.
    fn fold(&mut self, shown: &[usize], columns: &[ViewColumn]) -> Option<String> {
        let rank = self.at("rank")?;
        let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        let mut equal: Vec<Vec<Vec<Value>>> = Vec::new();
        for row in std::mem::take(&mut self.rows) {
            let of_unit = self.per_unit(&row);
            let cell = |(at, column): (&usize, &ViewColumn)| column.text(&of_unit[*at]);
            let is_key = |at: usize| at != rank && !self.is_first(at);
            let mut key: Vec<String> =
                shown.iter().zip(columns).filter(|(at, _)| is_key(**at)).map(cell).collect();
            key.extend(self.view.percents.iter().filter_map(|(part, whole, _)| {
                let (part, whole) = (self.at(part)?, self.at(whole)?);
                Some(fmt_pct(quotient(&row[part], &row[whole], 100.0).float()))
            }));
            let place = *places.entry(key).or_insert(equal.len());
            match equal.get_mut(place) {
                Some(rows) => rows.push(row),
                None => equal.push(vec![row]),
            }
        }
        let others: Vec<Vec<Value>> =
            equal.split_off(self.top.min(equal.len())).into_iter().flatten().collect();
        for rows in equal {
            let mut ranks: Vec<u32> =
                rows.iter().filter_map(|r| u32::try_from(r[rank].int()?).ok()).collect();
            ranks.sort_unstable();
            ranks.dedup();
            let Some(mut row) = rows.first().cloned() else { continue };
            for (at, cell) in row.iter_mut().enumerate().filter(|(at, _)| self.is_first(*at)) {
                if rows.iter().any(|other| other[at] != *cell) {
                    *cell = Value::Null;
                }
            }
            let named = if ranks.is_empty() { "all".to_string() } else { ranks_in_column(&ranks) };
            row[rank] = Value::Text(named.into());
            self.rows.push(row);
        }
        if others.is_empty() {
            return None;
        }
        let name =
            format!("{} other{}", fmt_count(others.len() as u64), if others.len() == 1 { "" } else { "s" });
        let mut row = self.joined(&others);
        row[rank] = Value::Text(name.clone().into());
        self.rows.push(row);
        let (by, rises) = ViewSpec::order(self.by).next()?;
        let by = self.view.of.column_spec(by).map_or(Cow::Borrowed(""), |s| s.title());
        let than = if rises { "less" } else { "more" };
        Some(format!("{name}: together, with no {than} {by}; each is in the table {}", self.view.of.name))
    }

    /// Rows as one, column by column as their roles say.
    fn joined(&self, rows: &[Vec<Value>]) -> Vec<Value> {
        let column = |at: usize| rows.iter().filter_map(move |row| row.get(at));
        let sum = |at: usize| {
            let mut sum = Value::Null;
            column(at).for_each(|v| sum.add(v));
            sum
        };
        let of_sums = |part: &str, whole: &str, factor: f64| {
            let of = |name: &str| self.at(name).map(sum).unwrap_or_default();
            quotient(&of(part), &of(whole), factor)
        };
        let mean = |at: usize, weight: &str| {
            let weight_of = |row: &Vec<Value>| match weight {
                "" => Some(1.0),
                weight => row.get(self.at(weight)?)?.float(),
            };
            let pairs = rows.iter().filter_map(|row| Some((row.get(at)?.float()?, weight_of(row)?)));
            let (sum, weights) = pairs.fold((0.0, 0.0), |(s, w), (v, weight)| (s + v * weight, w + weight));
            (weights > 0.0).then(|| Value::Float(sum / weights))
        };
        let extreme = |at: usize, which: Ordering| {
            let mut kept = Value::Null;
            column(at).for_each(|v| kept.keep(v.clone(), which));
            kept
        };
        let cell = |(at, spec): (usize, &&ColumnSpec)| match spec.role {
            Role::Sum(_) | Role::Ranks | Role::Rows => sum(at),
            Role::Min(_) => extreme(at, Ordering::Less),
            Role::Max(_) | Role::MaxOfRank(_) => extreme(at, Ordering::Greater),
            Role::Median(_) => median(column(at)),
            Role::Ratio(part, whole) => of_sums(part, whole, 1.0),
            Role::Percent(part, whole) => of_sums(part, whole, 100.0),
            Role::Mean(_, weight) => mean(at, weight).unwrap_or_default(),
            _ => Value::Null,
        };
        self.specs.iter().enumerate().map(cell).collect()
    }

    /// A row with its sums divided by the column that the view names.
    fn per_unit(&self, row: &[Value]) -> Vec<Value> {
        (0..row.len()).map(|at| self.of_unit(row, at)).collect()
    }

    /// A cell of it.
    fn of_unit(&self, row: &[Value], at: usize) -> Value {
        let units = self.at(self.view.per).and_then(|at| row.get(at)).and_then(Value::int).filter(|n| *n > 1);
        match (row.get(at), self.specs.get(at).map(|spec| spec.role), units) {
            (Some(Value::Int(v)), Some(Role::Sum(_)), Some(units)) => Value::Int(v / i128::from(units)),
            (Some(Value::Float(v)), Some(Role::Sum(_)), Some(units)) => Value::Float(v / units as f64),
            (value, ..) => value.cloned().unwrap_or_default(),
        }
    }

    /// What the marks of the bars stand for, without those that no row has.
    fn marks(&self) -> Option<String> {
        let is_drawn = |at: &usize| self.rows.iter().any(|row| row.get(*at).is_some_and(|v| !is_nothing(v)));
        let mark = |(mark, name): &(char, &str)| {
            if name.is_empty() {
                return Some(format!("{mark} the rest"));
            }
            let spec = self.at(name).filter(is_drawn).and_then(|at| self.specs.get(at))?;
            Some(format!("{mark} {}", spec.title().trim_end_matches(" %")))
        };
        let marks: Vec<String> = self.view.bar.iter().filter_map(mark).collect();
        (!marks.is_empty()).then(|| format!("picture: {}", marks.join(", ")))
    }

    /// The bar of a row; empty where one of the shares is unknown.
    fn bar_of(&self, row: &[Value]) -> String {
        let share = |name: &str| {
            let at = self.at(name)?;
            let is_ratio = self.specs.get(at)?.cells() == CellType::Ratio;
            Some(row.get(at)?.float()? * if is_ratio { 100.0 } else { 1.0 })
        };
        let named = self.view.bar.iter().filter(|(_, name)| !name.is_empty());
        let Some(sum) = named.map(|(_, name)| share(name)).sum::<Option<f64>>() else { return String::new() };
        let part = |(mark, name): &(char, &str)| (share(name).or(Some(100.0 - sum)), *mark);
        bar(&self.view.bar.iter().map(part).collect::<Vec<_>>())
    }

    fn notes(&self) -> Vec<String> {
        let positive =
            |name: &str| self.told.get(&self.at(name)?).filter(|sum| sum.float().is_some_and(|v| v > 0.0));
        let sum = |name: &str, noun: &str| {
            let (sum, spec) = (positive(name)?, self.view.of.column_spec(name)?);
            match (noun, sum.int()) {
                ("", _) | (_, None) => Some(ViewColumn::of(spec, false).text(sum)),
                (noun, Some(count)) => Some(counted(count.unsigned_abs(), noun)),
            }
        };
        let note = |note: &Note| match note {
            Note::Text(text) => (!self.rows.is_empty()).then(|| (*text).to_string()),
            Note::If(name, text) => positive(name).map(|_| (*text).to_string()),
            Note::Sum(name, noun, what) => sum(name, noun).map(|sum| format!("{sum} {what}")),
            Note::Made(_) => None,
        };
        self.view.notes.iter().filter_map(note).collect()
    }
}

/// One number over another; null where one of them is unknown or the other is 0.
fn quotient(part: &Value, whole: &Value, factor: f64) -> Value {
    match (part.float(), whole.float()) {
        (Some(part), Some(whole)) if whole != 0.0 => Value::Float(factor * part / whole),
        _ => Value::Null,
    }
}

/// Whether a cell says nothing.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Text(text) => text.is_empty(),
        _ => value.float() == Some(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;
    use crate::table::schema::{Batch, Text};

    table! {
        /// Time of a device.
        struct Devices, DeviceRow = "devices" by "rank, device" {
            rank; device;
            kind: Text, "", "what it is";
            windows: u64, "", "windows" => rows;
            idle_ns: i64, "ns", "nothing runs", "idle" => sum(idle_ns);
            dur_ns: i64, "ns", "of", "of" => sum(dur_ns);
            idle_pct: Option<f64>, "%", "share", "share" => percent(idle_ns, dur_ns);
            lost: u64, "", "what got lost" => sum(lost);
        }
    }

    const WORST: ViewSpec = ViewSpec {
        title: "Idle",
        columns: &["rank", "device", "idle_ns", "idle_pct", "lost"],
        optional: &["device", "lost"],
        keep: &[Keep::Is("kind", &["gpu"])],
        by: "idle_ns",
        fold: Fold::Worst,
        per: "windows",
        notes: &[Note::Text("idle: nothing runs"), Note::Sum("lost", "row", "got lost")],
        ..ViewSpec::of(Devices::SPEC)
    };

    fn devices(of: &[(u32, i64, i64)]) -> Vec<Batch> {
        let mut table = Devices::default();
        for (rank, device, idle_ns) in of {
            let row = DeviceRow { rank: *rank, device: Some(*device), kind: "gpu", ..DeviceRow::default() };
            let idle_pct = Some(*idle_ns as f64 / 2.0);
            table.push(DeviceRow { windows: 2, idle_ns: *idle_ns, dur_ns: 200, idle_pct, ..row });
        }
        table.push(DeviceRow { kind: "cpu", lost: 7, ..DeviceRow::default() });
        vec![table.finish()]
    }

    fn shown(view: &ViewSpec, tables: &Vec<Batch>, top: usize) -> (Vec<String>, Vec<String>, Vec<String>) {
        let option = |_: &str| None;
        let scope = ViewScope { tables, top, of_steps: false, is_one_rank: false, option: &option };
        let view = view.rows(&scope).expect("the table is whole").expect("the table is there");
        let row = |row: &Vec<Value>| {
            view.columns.iter().zip(row).map(|(c, v)| c.text(v)).collect::<Vec<_>>().join(" ")
        };
        let headings = view.columns.iter().map(|c| c.heading.to_string()).collect();
        (headings, view.rows.iter().map(row).collect(), view.notes.clone())
    }

    #[test]
    fn equal_ranks_share_a_row_and_one_row_stands_for_the_others() {
        let tables = devices(&[(0, 0, 20), (1, 1, 80), (2, 2, 20), (3, 3, 40)]);
        let (headings, rows, notes) = shown(&WORST, &tables, 4);
        assert_eq!(headings, ["ranks", "idle", "share"], "no rank has two devices, and nothing is lost");
        assert_eq!(rows, ["0, 2 10 ns 10.0 %", "1 40 ns 40.0 %", "3 20 ns 20.0 %"]);
        assert_eq!(notes, ["idle: nothing runs"]);
        let (_, rows, notes) = shown(&WORST, &tables, 1);
        assert_eq!(rows[0], "1 40 ns 40.0 %");
        // (20 + 20 + 40) ns in 6 windows, of 600 ns.
        assert_eq!(rows[1], "3 others 13 ns 13.3 %");
        assert_eq!(notes[0], "3 others: together, with no more idle; each is in the table devices");
    }

    #[test]
    fn a_device_is_named_where_a_rank_has_several() {
        let (headings, rows, _) = shown(&WORST, &devices(&[(0, 0, 20), (0, 1, 80)]), 4);
        assert_eq!(headings[1], "device");
        assert_eq!(rows, ["0 0 10 ns 10.0 %", "0 1 40 ns 40.0 %"]);
    }

    const LISTED: ViewSpec = ViewSpec {
        fold: Fold::Rest,
        per: "",
        columns: &["rank", "idle_ns"],
        shares: &[("idle_ns", "of idle")],
        sums: &["idle_ns"],
        bar: &[('#', "idle_pct")],
        notes: &[Note::If("lost", "some got lost"), Note::Sum("lost", "row", "got lost")],
        keep: &[],
        ..WORST
    };

    #[test]
    fn rows_that_are_not_listed_are_counted_and_summed() {
        let tables = devices(&[(0, 0, 20), (1, 1, 50), (2, 2, 20), (3, 3, 10)]);
        let (headings, rows, notes) = shown(&LISTED, &tables, 2);
        assert_eq!(headings, ["rank", "idle", "of idle", "#share"]);
        assert_eq!(rows, ["1 50 ns 50.0 % ####", "0 20 ns 20.0 % ##"]);
        assert_eq!(notes, ["3 more rows in the table devices", "some got lost", "7 rows got lost"]);
        // However few rows are kept while reading, the first ones are found and the rest is whole.
        let many: Vec<(u32, i64, i64)> = (0..400).map(|i| (i, 0, i64::from(i * 7 % 400))).collect();
        let option = |_: &str| None;
        let tables = devices(&many);
        let scope =
            ViewScope { tables: &tables, top: 3, of_steps: false, is_one_rank: false, option: &option };
        let view = LISTED.rows(&scope).unwrap().unwrap();
        let idle: Vec<Option<i64>> = view.rows.iter().map(|row| row[1].int()).collect();
        assert_eq!(idle, [Some(399), Some(398), Some(397)]);
        assert_eq!((view.left, view.rest[1].int()), (398, Some(399 * 400 / 2 - 399 - 398 - 397)));
    }

    #[test]
    fn the_first_row_chooses_the_others() {
        let view = ViewSpec { keep: &[Keep::First(&["rank"])], columns: &["device", "idle_ns"], ..LISTED };
        let (_, rows, _) = shown(&view, &devices(&[(0, 0, 20), (1, 0, 80), (1, 1, 10), (2, 0, 30)]), 9);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].starts_with("0 80 ns") && rows[1].starts_with("1 10 ns"), "{rows:?}");
        let (_, rows, _) = shown(&view, &vec![Devices::default().finish()], 9);
        assert!(rows.is_empty());
    }
}

#[cfg(test)]
mod tests_of_folds {
    use super::*;
    use crate::table::schema::{Batch, TableSpec, Text};
    use crate::table::view::Tables;

    crate::table! {
        /// Time of ranks.
        struct Times, TimeRow = "times" by "rank" {
            rank;
            place: Option<Text>, "", "where the rank is" => first(place);
            group: Option<Text>, "", "its group; null: all";
            work_ns: i64, "ns", "time in which it works" => sum(work_ns);
            dur_ns: i64, "ns", "length" => sum(dur_ns);
            power: Option<f64>, "", "mean power" => mean(power);
        }
    }

    const VIEW: ViewSpec = ViewSpec {
        columns: &["rank", "group", "work_ns", "power"],
        joined: &[("rank", ": ", "place")],
        nulls: &[("group", "all")],
        by: "power ascending, work_ns",
        fold: Fold::Worst,
        percents: &[("work_ns", "dur_ns", "works")],
        bar: &[('#', "power")],
        ..ViewSpec::of(Times::SPEC)
    };

    /// Tables of which one has rows.
    struct OneTable(Batch);

    impl Tables for OneTable {
        fn each_row(
            &self,
            table: &'static TableSpec,
            columns: &[&'static str],
            each: &mut dyn FnMut(&[Column<'_>], usize),
        ) -> Result<bool, TableError> {
            std::slice::from_ref(&self.0).each_row(table, columns, each)
        }

        fn whole(&self, table: &'static TableSpec) -> Result<Vec<Batch>, TableError> {
            std::slice::from_ref(&self.0).whole(table)
        }
    }

    fn lines(view: &ViewSpec, top: usize, rows: &[(i64, i64, Option<f64>)]) -> (Vec<String>, Vec<String>) {
        let mut table = Times::default();
        for (rank, (work_ns, dur_ns, power)) in (0..).zip(rows) {
            let place = format!("place {rank}");
            let (work_ns, dur_ns, power) = (*work_ns, *dur_ns, *power);
            table.push(TimeRow { rank, place: Some(&place), group: None, work_ns, dur_ns, power });
        }
        let scope = ViewScope {
            tables: &OneTable(table.finish()),
            top,
            of_steps: false,
            is_one_rank: false,
            option: &|_| None,
        };
        let view = view.rows(&scope).expect("a table in memory").expect("the table");
        let row = |row: &Vec<Value>| {
            let cells: Vec<String> = view.columns.iter().zip(row).map(|(c, v)| c.text(v)).collect();
            cells.join(" | ")
        };
        (view.rows.iter().map(row).collect(), view.notes.clone())
    }

    #[test]
    fn rows_rise_and_what_is_unknown_comes_last() {
        let rows = [(1, 10, None), (2, 10, Some(50.0)), (3, 10, Some(25.0)), (4, 10, Some(25.0))];
        let (rows, notes) = lines(&VIEW, 3, &rows);
        assert_eq!(
            rows,
            [
                "3: place 3 | all | 4 ns | 25.0 | 40.0 % | ####",
                "2: place 2 | all | 3 ns | 25.0 | 30.0 % | ####",
                "1: place 1 | all | 2 ns | 50.0 | 20.0 % | ########",
                "1 other | all | 1 ns | - | 10.0 % | -",
            ]
        );
        assert_eq!(notes[0], "1 other: together, with no less power; each is in the table times");
        assert_eq!(notes[1], "picture: # power");
    }

    #[test]
    fn rows_share_one_where_all_but_the_place_is_equal() {
        let rows = [(1, 10, None), (1, 10, None), (1, 20, None)];
        assert_eq!(
            lines(&VIEW, 8, &rows).0,
            ["0, 1 | all | 1 ns | - | 10.0 % | -", "2: place 2 | all | 1 ns | - | 5.0 % | -"]
        );
    }
}
