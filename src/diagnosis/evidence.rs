//! What supports a cause.

use hta_job::delay::StepKey;

/// The condition for rows of some ranks, in SQL.
pub(crate) fn of_ranks(ranks: &[u32]) -> String {
    format!("rank IN ({})", ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
}

/// The condition for rows with a text, in SQL.
pub(crate) fn of_text(column: &str, text: &str) -> String {
    format!("{column} = '{}'", text.replace('\'', "''"))
}

/// The condition for rows of some steps, ascending, in SQL; empty without steps.
pub(crate) fn of_steps(steps: &[StepKey]) -> String {
    let number = |key: &StepKey| match StepKey::cells(Some(*key)) {
        (Some(index), _) => i64::from(index),
        (None, label) => label.unwrap_or(0),
    };
    let of = |column: &str, keys: &[StepKey]| {
        let numbers: Vec<i64> = keys.iter().map(number).collect();
        let follows = |pair: &[i64]| matches!(pair, [a, b] if *b == a + 1);
        match &numbers[..] {
            [] => None,
            [one] => Some(format!("{column} = {one}")),
            [first, .., last] if numbers.windows(2).all(follows) => {
                Some(format!("{column} >= {first} AND {column} <= {last}"))
            }
            all => {
                let list: Vec<String> = all.iter().map(i64::to_string).collect();
                Some(format!("{column} IN ({})", list.join(", ")))
            }
        }
    };
    let (indices, labels) = steps.split_at(steps.partition_point(|key| matches!(key, StepKey::Index(_))));
    match (of("step", indices), of("step_label", labels)) {
        (Some(a), Some(b)) => format!("({a} OR {b})"),
        (a, b) => a.or(b).unwrap_or_default(),
    }
}

/// The condition for rows of a finding on some ranks (empty: on all), in SQL.
pub(crate) fn of_finding(id: &str, ranks: &[u32]) -> String {
    let only = if ranks.is_empty() { String::new() } else { format!(" AND {}", of_ranks(ranks)) };
    format!("finding_id = '{id}'{only}")
}

/// A row of another table that supports a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) table: &'static str,
    /// Condition that selects the rows, in SQL.
    pub(crate) filter: String,
    /// A number with its words.
    pub(crate) words: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_that_follow_each_other_are_a_range() {
        let labels =
            |numbers: &[i64]| of_steps(&numbers.iter().map(|n| StepKey::Label(*n)).collect::<Vec<_>>());
        assert_eq!(
            [labels(&[]), labels(&[7]), labels(&[3, 4, 5]), labels(&[3, 5])],
            ["", "step_label = 7", "step_label >= 3 AND step_label <= 5", "step_label IN (3, 5)"]
        );
        let mixed = [StepKey::Index(0), StepKey::Index(1), StepKey::Label(9)];
        assert_eq!(of_steps(&mixed), "(step >= 0 AND step <= 1 OR step_label = 9)");
    }
}
