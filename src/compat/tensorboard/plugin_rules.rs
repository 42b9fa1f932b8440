//! The plugin's rules for the step and the size of a collective operator.

/// Assigns steps as the plugin does; the result is parallel to `spans`.
///
/// Spans are visited by start (of equal starts, the longer first) and compared with the current step. The
/// next step becomes current only when a span starts at or after the end of the current one. A span belongs
/// to a step if it lies completely inside. So a span that crosses the end of its step has no step, and steps
/// that overlap or are out of order lose operators.
pub(crate) fn steps_of(spans: &[(i64, i64)], steps: &[(String, i64, i64)]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|i| (spans[*i].0, std::cmp::Reverse(spans[*i].1)));
    let mut result = vec![None; spans.len()];
    let mut at = 0;
    for i in order {
        let (start, end) = spans[i];
        while let Some((_, from, to)) = steps.get(at) {
            if start >= *from && end <= *to {
                result[i] = Some(at);
                break;
            }
            if start < *to {
                break;
            }
            at += 1;
        }
    }
    result
}

/// Bytes of a collective operator: product of the dimensions x size of the type, summed over its inputs.
///
/// Types are the recorded texts: `long int` 8; `float` and `int` 4; `c10::Half` and `c10::BFloat16` 2;
/// `unsigned char` 1; **any other, including `double`, 0**. A shape without dimensions (a scalar) is one
/// element. No `Input Dims` is 0 bytes. Returns `None` if there are fewer types than shapes, on which the
/// plugin fails and shows no view, or if the product overflows. The plugin also fails on lists of tensors
/// (nested dimensions); callers must not pass them.
pub(crate) fn operator_bytes(shapes: &[Vec<i64>], types: &[&str]) -> Option<i64> {
    let mut total = 0_i64;
    for (i, shape) in shapes.iter().enumerate() {
        let size = match *types.get(i)? {
            "long int" => 8,
            "float" | "int" => 4,
            "c10::Half" | "c10::BFloat16" => 2,
            "unsigned char" => 1,
            _ => continue,
        };
        let bytes = shape.iter().try_fold(size, |n: i64, d| n.checked_mul(*d))?;
        total = total.checked_add(bytes)?;
    }
    Some(total)
}
