//! The stacks of a device as a tree of names, as flame graphs take it.

use super::content::ContentPart;
use crate::stacks::StackTree;
use hta_base::table::schema::Batch;
use std::collections::HashMap;

/// The tree of the parts of a device whose keys are stacks, root first and joined by `;`.
pub fn stack_nodes(root: &str, parts: &[ContentPart]) -> Batch {
    let mut names: Vec<&str> = vec![root];
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut tree: StackTree<usize> = StackTree::default();
    let top = tree.below(None, 0);
    for part in parts {
        let mut at = top;
        for name in part.key.split(';') {
            let id = *known.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            });
            at = tree.below(Some(at), id);
        }
        tree.add(at, part.bytes);
    }
    tree.table(|id| names.get(id).map_or_else(String::new, |name| (*name).to_string()))
}
