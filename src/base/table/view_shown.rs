//! What is shown of the rows of a view: columns, folded rows, shares, bars and notes.

use crate::table::format::{CellType, heading};
use crate::table::role::Role;
use crate::table::schema::ColumnSpec;
use crate::table::value::{Value, median};
use crate::table::view::{Fold, Note, ViewSpec};
use crate::table::view_cells::{ViewColumn, is_nothing, quotient};
use crate::table::view_rows::{KeptRows, ViewRows};
use crate::units::{fmt_count, fmt_pct};
use crate::wording::counts::{bar, counted};
use crate::wording::ranks::ranks_in_column;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The name of columns of shares, by which they give way.
const SHARE: &str = "share";

impl KeptRows<'_> {
    pub(super) fn finish(mut self) -> ViewRows {
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
            notes.extend(self.left_out());
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

    /// How many rows are not listed, with the first of the sums that the view names.
    fn left_out(&self) -> Option<String> {
        let sum = self.view.sums.first().and_then(|name| {
            let at = self.at(name)?;
            let sum = self.rest.get(at).filter(|sum| !is_nothing(sum))?;
            Some(format!(" with {}", ViewColumn::of(self.specs.get(at)?, false).text(sum)))
        });
        let (rows, sum) = (counted(self.left as u64, "more row"), sum.unwrap_or_default());
        (self.left > 0).then(|| format!("{rows}{sum} in the table {}", self.view.of.name))
    }

    /// Places of the columns that are shown.
    fn shown_columns(&self) -> Vec<usize> {
        if self.view.columns.is_empty() {
            return (0..self.names.len()).collect();
        }
        let is_shown = |(name, may_be_left_out): &(&'static str, bool)| {
            let (true, Some(at)) = (*may_be_left_out, self.at(name)) else { return true };
            match *name {
                "rank" => !self.is_one_rank,
                "device" => self.has_several_devices(at),
                "process_group" => self.rows.iter().any(|row| row[at] != self.rows[0][at]),
                _ => self.rows.iter().any(|row| !is_nothing(&row[at])),
            }
        };
        let mut shown: Vec<&str> = self.view.named_columns().filter(is_shown).map(|(name, _)| name).collect();
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

    /// What the marks of the bars stand for, without those that no row has.
    fn marks(&self) -> Option<String> {
        let is_drawn = |at: &usize| self.rows.iter().any(|row| row.get(*at).is_some_and(|v| !is_nothing(v)));
        let mark = |(mark, name): &(char, &str)| {
            if name.is_empty() {
                return Some(format!("{mark} the rest"));
            }
            let spec = self.at(name).filter(is_drawn).and_then(|at| self.specs.get(at))?;
            // A share that is headed by what it is of is told by its name.
            let is_of = spec.heading.starts_with("of ");
            let name = if is_of { heading(spec.name).into() } else { spec.title() };
            Some(format!("{mark} {}", name.trim_end_matches(" %")))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::schema::Text;
    use crate::table::view::ViewScope;

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

    fn lines(view: &ViewSpec, top: usize, rows: &[(i64, i64, Option<f64>)]) -> (Vec<String>, Vec<String>) {
        let mut table = Times::default();
        for (rank, (work_ns, dur_ns, power)) in (0..).zip(rows) {
            let place = format!("place {rank}");
            let (work_ns, dur_ns, power) = (*work_ns, *dur_ns, *power);
            table.push(TimeRow { rank, place: Some(&place), group: None, work_ns, dur_ns, power });
        }
        let scope = ViewScope {
            tables: &vec![table.finish()],
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
