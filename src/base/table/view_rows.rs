//! The rows of a view, made of its table: kept, in order, cut or folded, with the notes below them.

use crate::table::column::Column;
use crate::table::role::Role;
use crate::table::schema::ColumnSpec;
use crate::table::value::{Value, compare};
use crate::table::view::{Fold, Keep, Note, RowTest, TableError, ViewScope, ViewSpec};
use crate::table::view_cells::ViewColumn;
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
        let mut names: Vec<&'static str> = self.named_columns().map(|(name, _)| name).collect();
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
        if self.has_column("step") {
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
pub(super) struct KeptRows<'a> {
    pub(super) view: &'a ViewSpec,
    pub(super) names: Vec<&'static str>,
    pub(super) specs: Vec<&'static ColumnSpec>,
    pub(super) tests: Vec<(Vec<usize>, RowTest)>,
    pub(super) top: usize,
    /// Column by which rows fall.
    pub(super) by: &'static str,
    pub(super) is_one_rank: bool,
    /// Places of the index of a step and of the number in its name, where a step is shown.
    step: Option<(usize, usize)>,
    /// Place of the column by which sums are divided.
    per: Option<usize>,
    pub(super) rows: Vec<Vec<Value>>,
    pub(super) left: usize,
    pub(super) rest: Vec<Value>,
    /// Sums over all rows of the columns of notes, by their places.
    pub(super) told: BTreeMap<usize, Value>,
    /// By the values of the columns of `each` the sums of the columns of shares.
    pub(super) wholes: Vec<(Vec<Value>, Vec<Value>)>,
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
        let has_step = view.has_column("step");
        let step = at("step").zip(at("step_label")).filter(|_| has_step);
        let per = at(view.per);
        Ok(Self {
            view,
            names,
            specs,
            tests,
            top,
            by,
            is_one_rank,
            step,
            per,
            rows: Vec::new(),
            left: 0,
            rest,
            told,
            wholes: Vec::new(),
        })
    }

    pub(super) fn at(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| *n == name)
    }

    fn add(&mut self, columns: &[Column<'_>], row: usize) {
        let is_kept = |(of, test): &(Vec<usize>, RowTest)| match of.as_slice() {
            [at] => columns.get(*at..=*at).is_some_and(|own| test(own, row)),
            of => {
                let own: Vec<Column> = of.iter().filter_map(|at| columns.get(*at)).copied().collect();
                own.len() == of.len() && test(&own, row)
            }
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
        if let Some((step, label)) = self.step {
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
    pub(super) fn key(&self, row: &[Value]) -> Vec<Value> {
        self.view.each.iter().filter_map(|name| row.get(self.at(name)?).cloned()).collect()
    }

    /// The columns whose values are those of the first row.
    pub(super) fn first_of(&self) -> &'static [&'static str] {
        self.view
            .keep
            .iter()
            .find_map(|k| if let Keep::First(of) = k { Some(*of) } else { None })
            .unwrap_or(&[])
    }

    pub(super) fn sort(&mut self) {
        let by: Vec<(usize, bool)> =
            ViewSpec::order(self.by).filter_map(|(name, rises)| Some((self.at(name)?, rises))).collect();
        let key = |row: &Vec<Value>| by.iter().map(|(at, _)| self.of_unit(row, *at)).collect::<Vec<Value>>();
        let keys: Vec<Vec<Value>> = self.rows.iter().map(key).collect();
        let mut keyed: Vec<(Vec<Value>, Vec<Value>)> =
            keys.into_iter().zip(std::mem::take(&mut self.rows)).collect();
        keyed.sort_by(|(a, _), (b, _)| {
            let of_column = |((a, b), (_, rises)): ((&Value, &Value), &(usize, bool))| {
                if a.is_null() || b.is_null() || !rises { compare(b, a) } else { compare(a, b) }
            };
            let orders = a.iter().zip(b).zip(&by).map(of_column);
            orders.fold(Ordering::Equal, Ordering::then)
        });
        self.rows = keyed.into_iter().map(|(_, row)| row).collect();
    }

    pub(super) fn cut(&mut self) {
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

    /// A row with its sums divided by the column that the view names.
    pub(super) fn per_unit(&self, row: &[Value]) -> Vec<Value> {
        (0..row.len()).map(|at| self.of_unit(row, at)).collect()
    }

    /// A cell of it.
    pub(super) fn of_unit(&self, row: &[Value], at: usize) -> Value {
        let units = self.per.and_then(|at| row.get(at)).and_then(Value::int).filter(|n| *n > 1);
        match (row.get(at), self.specs.get(at).map(|spec| spec.role), units) {
            (Some(Value::Int(v)), Some(Role::Sum(_)), Some(units)) => Value::Int(v / i128::from(units)),
            (Some(Value::Float(v)), Some(Role::Sum(_)), Some(units)) => Value::Float(v / units as f64),
            (value, ..) => value.cloned().unwrap_or_default(),
        }
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
        columns: &["rank", "device?", "idle_ns", "idle_pct", "lost?"],
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
        assert_eq!(headings, ["rank", "idle", "of idle", "picture"]);
        assert_eq!(rows, ["1 50 ns 50.0 % ####", "0 20 ns 20.0 % ##"]);
        let left = "3 more rows with 30 ns in the table devices";
        assert_eq!(notes, [left, "picture: # share", "some got lost", "7 rows got lost"]);
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
        let view = ViewSpec { keep: &[Keep::First(&["rank"])], columns: &["device?", "idle_ns"], ..LISTED };
        let (_, rows, _) = shown(&view, &devices(&[(0, 0, 20), (1, 0, 80), (1, 1, 10), (2, 0, 30)]), 9);
        assert_eq!(rows.len(), 2);
        assert!(rows[0].starts_with("0 80 ns") && rows[1].starts_with("1 10 ns"), "{rows:?}");
        let (_, rows, _) = shown(&view, &vec![Devices::default().finish()], 9);
        assert!(rows.is_empty());
    }
}
