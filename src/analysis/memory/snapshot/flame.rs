//! The stacks of a device as a tree of names, as flame graphs take it.

use super::content::ContentPart;
use crate::stacks::StackTree;
use hashbrown::HashMap;

/// Adds the parts of a device, whose keys are stacks, outermost frame first and joined by `;`, below names of
/// their own.
pub(super) fn add_stacks(
    tree: &mut StackTree<usize>,
    names: &mut Vec<String>,
    above: [String; 3],
    parts: &[ContentPart],
) {
    let mut known: HashMap<&str, usize> = HashMap::new();
    let first = names.len();
    names.extend(above);
    let top = (first + 1..names.len()).fold(tree.below(None, first), |at, name| tree.below(Some(at), name));
    for part in parts {
        let mut at = top;
        for name in part.key.split(';') {
            let id = *known.entry(name).or_insert_with(|| {
                names.push(name.to_string());
                names.len() - 1
            });
            at = tree.below(Some(at), id);
        }
        tree.add(at, part.bytes);
    }
}
