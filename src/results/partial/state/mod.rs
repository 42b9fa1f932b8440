//! Converts a mapped set to tables and back: files, ranks, partials of the analyses, and parts of the joined
//! job.

mod from_tables;
mod write;

pub use from_tables::{Fate, PartialState, Seen, state};
pub use write::write_state;

use crate::partial::tables::TABLES;
use crate::store;
use crate::store::{Damage, INVENTORY, PART, StateTable};
use hta_analysis::api::Analysis;
use hta_analysis::filters;
use hta_analysis::inventory;
use hta_base::table::schema::TableSpec;
use hta_compat as compat;
use hta_diagnosis::registry::ANALYSES;
use hta_job::PART_TABLES;

const SET: &str = "set";

/// Reads a table of a state from any bytes.
///
/// # Errors
/// When the bytes are not such a table, or it has another version.
pub fn read(bytes: &[u8]) -> Result<StateTable, Damage> {
    store::read(bytes.to_vec(), &spec_of)
}

/// The table with this name of `of`: the stem of an analysis, the inventory, a part or the set.
pub(crate) fn spec_of(of: &str, table: &str) -> Option<(&'static str, &'static TableSpec)> {
    let among = |list: &'static [&'static TableSpec]| list.iter().copied().find(|s| s.name == table);
    match of {
        INVENTORY => Some((INVENTORY, among(inventory::TABLES).or_else(|| among(filters::TABLES))?)),
        PART => Some((PART, among(PART_TABLES)?)),
        SET => Some((SET, among(TABLES)?)),
        stem => {
            let a = ANALYSES.iter().find(|a| a.stem() == stem)?;
            let find = |a: &dyn Analysis| among(a.tables()).or_else(|| among(a.about().kept_tables));
            Some((a.stem(), find(*a).or_else(|| compat::of(a.stem()).find_map(find))?))
        }
    }
}
