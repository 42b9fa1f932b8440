//! Folded stacks: `root;...;leaf value`, one line per distinct stack of all ranks and threads, sorted.

use crate::api::Partial;
use crate::stacks::{StackNodes, stacks};
use hashbrown::HashMap;
use std::collections::BTreeMap;

/// The stacks of all ranks as text: sorted, with equal stacks summed.
pub fn folded(partials: &[Partial]) -> String {
    let mut shown: HashMap<&str, String> = HashMap::new();
    // Names that look the same are merged into one frame.
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for batch in partials.iter().filter_map(|p| p.table(StackNodes::SPEC)) {
        for stack in stacks(batch) {
            let mut line = String::new();
            for name in stack.names {
                if !line.is_empty() {
                    line.push(';');
                }
                line.push_str(shown.entry(name).or_insert_with(|| frame_name(name)));
            }
            *lines.entry(line).or_default() += stack.value;
        }
    }
    lines.iter().map(|(stack, value)| format!("{stack} {value}\n")).collect()
}

/// A name without the characters that separate frames and lines.
fn frame_name(name: &str) -> String {
    let clean: String = name
        .chars()
        .map(|c| {
            if c == ';' {
                '_'
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect();
    if clean.is_empty() { "[no name]".to_string() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_what_separates_frames() {
        assert_eq!(frame_name("a;b\nc"), "a_b c");
        assert_eq!(frame_name(""), "[no name]");
    }
}
