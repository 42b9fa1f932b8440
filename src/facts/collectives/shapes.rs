//! Number of elements in recorded shapes of tensors.

use serde_json::Value;

/// Number of elements of one input, given as a shape or a list of shapes.
pub(crate) fn elements(input: &Value) -> Option<i64> {
    let Value::Array(list) = input else { return Some(0) };
    if list.is_empty() {
        return Some(0);
    }
    if list.iter().all(Value::is_array) {
        return list.iter().map(elements).sum();
    }
    list.iter().try_fold(1i64, |n, d| n.checked_mul(d.as_i64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_counted_in_both_forms() {
        let count = |text: &str| elements(&serde_json::from_str(text).unwrap());
        assert_eq!(count("[4,2048,4096]"), Some(4 * 2048 * 4096));
        assert_eq!(count("[[2,3],[5]]"), Some(11));
        assert_eq!(count("[]"), Some(0));
        assert_eq!(count("[9223372036854775807,3]"), None);
    }
}
