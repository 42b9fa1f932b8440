//! How a column is shown to people: its heading and its numbers, by the unit that ends its name or that its
//! table declares. Text, answers to queries, and the page take them from here.

use crate::table::schema::ColumnSpec;
use crate::units::{fmt_bytes, fmt_count, fmt_joules, fmt_ns, fmt_number, fmt_pct};
use std::borrow::Cow;

/// What the cells of a column are, which decides how they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    Ns,
    Count,
    Bytes,
    /// A share of one, shown in percent.
    Ratio,
    Percent,
    GbPerS,
    Joules,
    /// A number of another unit, or of none.
    Number,
    /// A number as another tool has it: it is shown with all its digits.
    Exact,
    /// A number that identifies something, or a point in time: it is shown digit by digit.
    Id,
    Text,
}

/// Endings of names of columns, with their units, and how numbers of them are shown.
const UNITS: [(&str, &str, CellType); 10] = [
    ("_ns", "ns", CellType::Ns),
    ("_bytes", "bytes", CellType::Bytes),
    ("_pct", "%", CellType::Percent),
    ("_gb_per_s", "GB/s", CellType::GbPerS),
    ("tb_per_s", "TB/s", CellType::Number),
    ("tflops_per_s", "TFLOP/s", CellType::Number),
    ("_j", "J", CellType::Joules),
    ("_w", "W", CellType::Number),
    ("_mhz", "MHz", CellType::Number),
    ("_c", "C", CellType::Number),
];

/// The unit of a share of one.
const SHARE: &str = "share";

/// What is counted, with its plural.
const NOUNS: [(&str, &str); 9] = [
    ("rank", "ranks"),
    ("step", "steps"),
    ("event", "events"),
    ("activity", "activities"),
    ("member", "members"),
    ("call", "calls"),
    ("collective", "collectives"),
    ("file", "files"),
    ("range", "ranges"),
];

impl CellType {
    /// The type of a column by its name, its unit, and the type of its cells as [`ColumnSpec::kind`] spells
    /// it.
    pub fn of(name: &str, unit: &str, kind: &str) -> Self {
        let known = UNITS.iter().find(|of| of.1 == unit).map(|of| of.2);
        match (kind, known) {
            ("text", _) => CellType::Text,
            _ if unit == SHARE => CellType::Ratio,
            (_, Some(CellType::Ns)) if is_instant(name) => CellType::Id,
            (_, Some(known)) => known,
            ("f64", None) => CellType::Number,
            ("u64" | "bool", None) => CellType::Count,
            _ if is_count(name) => CellType::Count,
            _ => CellType::Id,
        }
    }

    /// Its name in the data of the page.
    pub fn name(self) -> &'static str {
        match self {
            CellType::Ns => "ns",
            CellType::Count => "count",
            CellType::Bytes => "bytes",
            CellType::Ratio => "ratio",
            CellType::Percent => "percent",
            CellType::GbPerS => "gb_per_s",
            CellType::Number | CellType::Joules | CellType::Exact => "number",
            CellType::Id => "id",
            CellType::Text => "text",
        }
    }

    /// An integer as people read it.
    pub fn int(self, v: i64) -> String {
        match self {
            CellType::Ns => fmt_ns(v),
            CellType::Bytes => format!("{}{}", if v < 0 { "-" } else { "" }, fmt_bytes(v.unsigned_abs())),
            CellType::Count if v >= 0 => fmt_count(v.unsigned_abs()),
            CellType::Percent | CellType::Ratio | CellType::Joules => self.float(v as f64),
            _ => v.to_string(),
        }
    }

    /// A number with a fraction as people read it.
    pub fn float(self, v: f64) -> String {
        match self {
            CellType::Ns | CellType::Bytes => self.int(v.round() as i64),
            CellType::Percent => fmt_pct(Some(v)),
            CellType::Ratio => fmt_pct(Some(100.0 * v)),
            CellType::Joules => fmt_joules(v),
            CellType::Exact => v.to_string(),
            _ => fmt_number(v),
        }
    }
}

/// Unit of a column, by its name.
pub fn unit(name: &str) -> Option<&'static str> {
    UNITS.iter().find(|of| name.ends_with(of.0)).map(|of| of.1)
}

/// Whether a column holds points in time, which must not be shown as durations.
pub fn is_instant(name: &str) -> bool {
    name == "ts_ns" || name.ends_with("_ts_ns")
}

fn is_count(name: &str) -> bool {
    name == "count" || name.ends_with("_count")
}

/// Heading of a column by its name, without the unit that its cells show.
pub fn heading(name: &str) -> String {
    let (ending, unit, cells) =
        UNITS.into_iter().find(|of| name.ends_with(of.0)).unwrap_or(("", "", CellType::Id));
    let stem = match name.strip_suffix(if cells == CellType::Id { "_count" } else { ending }) {
        Some(stem) if !is_instant(name) => stem,
        _ => return name.replace('_', " "),
    };
    let words = match NOUNS.iter().find(|noun| noun.0 == stem) {
        Some((_, many)) if is_count(name) => (*many).to_string(),
        _ => stem.trim_end_matches('_').replace('_', " "),
    };
    match cells {
        CellType::Ns | CellType::Bytes | CellType::Id => words,
        _ => format!("{words} {unit}").trim_start().to_string(),
    }
}

impl ColumnSpec {
    /// How its cells are shown.
    pub fn cells(&self) -> CellType {
        CellType::of(self.name, self.unit, self.kind)
    }

    /// Its heading: the declared one, or that of its name.
    pub fn title(&self) -> Cow<'static, str> {
        match self.heading {
            "" => Cow::Owned(heading(self.name)),
            declared => Cow::Borrowed(declared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_leave_out_what_the_cells_say() {
        let heads = [
            "bus_bw_gb_per_s",
            "tb_per_s",
            "sum_ns",
            "first_ts_ns",
            "step_count",
            "slow_count",
            "gain_pct",
            "count",
        ];
        let expected = ["bus bw GB/s", "TB/s", "sum", "first ts ns", "steps", "slow", "gain %", "count"];
        assert_eq!(heads.map(heading), expected);
    }

    #[test]
    fn the_unit_decides_how_numbers_are_shown() {
        let shown =
            |name: &str, kind: &str, v: i64| CellType::of(name, unit(name).unwrap_or_default(), kind).int(v);
        assert_eq!(shown("dur_ns", "i64", 1_500), "1.50 us");
        assert_eq!(shown("ts_ns", "i64", 1_500), "1500");
        assert_eq!(shown("call_count", "u32", 1_500), "1,500");
        assert_eq!(shown("calls", "u64", 1_500), "1,500");
        assert_eq!(shown("rank", "u32", 1_500), "1500");
        assert_eq!(CellType::Percent.float(12.34), "12.3 %");
        assert_eq!(CellType::Number.float(12.34), "12.3");
    }
}
