//! The distributed view of the PyTorch TensorBoard plugin: `sync --method shortest`.

mod plugin_rules;
mod select;
mod shortest;
pub(super) mod sync;
mod worker;
