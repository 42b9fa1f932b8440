//! The tables of a partial that are no analysis' own: its files, its ranks, and where their tables are.

use crate::table;
use crate::table::schema::{TableSpec, Text};

table! {
    /// One row per file that was given.
    pub struct Files, FileRow = "set_files" by "natural order" {
        file: Text, "", "what messages call it";
        name: Text, "", "its name, without folders";
        is_named: bool, "", "named on the command line, not found in a folder";
        claim: Option<u32>, "", "rank that the file itself claims";
        state: Text, "", "mapped, refused at its head, refused when it was read, or left out by --ranks";
        rank: Option<u32>, "", "rank, where it was mapped";
        error: Option<Text>, "", "why it was refused: io, empty, not_a_trace, cut, no_events, interleaved or too_large";
        error_text: Option<Text>, "", "of io and not_a_trace: what was found";
        error_hint: Option<Text>, "", "of not_a_trace: what to do";
        error_byte: Option<u64>, "bytes", "of interleaved: offset in the unpacked file; of too_large: memory that it needs, where known";
        error_limit: Option<u64>, "bytes", "of too_large: memory that there was";
        error_limit_given: Option<bool>, "", "of too_large: whether the user had set it";
    }
}

table! {
    /// One row per rank.
    pub struct MappedRanks, MappedRankRow = "set_ranks" by "rank" {
        rank;
        rank_source: Text, "", "file or name";
        file: Text, "", "what messages call its file";
        time_era: Text, "", "how the file writes times";
        base_ns: Option<i64>, "ns", "base time that was added";
        world_size: Option<u32>, "ranks", "world size";
        unpacked_bytes: u64, "bytes", "size of the JSON text";
        defect_count: u32, "", "rows of `set_health`";
        has_part: bool, "", "an analysis of the run compares ranks";
    }
}

table! {
    /// One row per kind of defect in a rank's file.
    pub struct Tallies, TallyRow = "set_health" by "rank, counter" {
        counter: Text, "", "name of the counter";
        count: u64, "", "occurrences";
        first_byte: Option<u64>, "bytes", "offset of the first occurrence in the unpacked file";
        example: Text, "", "the first occurrence";
    }
}

table! {
    /// One row per analysis of a rank, the inventory first.
    pub struct Partials, PartialRow = "set_partials" by "rank, order of the run" {
        analysis: Text, "", "stem, or `inventory`";
        own_rank: u32, "", "rank that the analysis entered";
        reason: Option<Text>, "", "why it has no rows";
        table_count: u32, "", "tables";
    }
}

table! {
    /// One row per table of an analysis of a rank.
    pub struct Contents, ContentRow = "set_contents" by "rank, order of the run" {
        analysis: Text, "", "stem, `inventory` or `part`";
        table as "table": Text, "", "name of the table";
        row_count: u64, "", "rows";
    }
}

/// Every table of this module.
pub const TABLES: &[&TableSpec] = &[Files::SPEC, MappedRanks::SPEC, Tallies::SPEC, Partials::SPEC, Contents::SPEC];
