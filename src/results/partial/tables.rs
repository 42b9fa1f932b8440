//! The tables of a partial that belong to no analysis: its files, its ranks, and the list of the ranks'
//! tables.

use crate::run::RankResults;
use hta_base::health::{Counter, CounterTally};
use hta_base::table::schema::{TableSpec, Text};
use hta_base::{stored, table};

table! {
    /// One row per input file. Kinds of errors: io, empty, not_a_trace, other_format, unknown_content,
    /// merged, merged_copy, nothing_recorded, damaged, cut, no_events, interleaved and too_large.
    pub(crate) struct Files, FileRow = "set_files" by "natural order" {
        file: Text, "", "name of the file in messages";
        name: Text, "", "name without folders";
        is_named: bool, "", "true: named on the command line; false: found in a folder";
        claim: Option<u32>, "", "rank that is recorded in the file";
        world_size: Option<u32>, "ranks", "world size that is recorded in the file";
        role: Option<Text>, "", "role of its process, where --role told it";
        replica: Option<u32>, "", "which of several programs of this role, likewise";
        state: Text, "",
            "mapped, refused_at_head (by its first bytes), refused (when read) or left_out (by --ranks)";
        rank: Option<u32>, "", "rank; null if the file was not mapped";
        error: Option<Text>, "", "kind of the error; null: not refused";
        error_text: Option<Text>, "",
            "io, damaged: reason; not_a_trace, other_format, unknown_content, merged, nothing_recorded: \
             content";
        error_hint: Option<Text>, "", "not_a_trace and other_format: what the user can do";
        error_byte: Option<u64>, "bytes",
            "interleaved: offset in the unpacked file; too_large: needed memory";
        error_limit: Option<u64>, "bytes", "too_large: memory limit";
        error_limit_given: Option<bool>, "", "too_large: the user had set the limit";
    }
}

stored! {
    /// One row per rank.
    pub(crate) struct PartialRanks, PartialRankRow = "set_ranks" by "rank" {
        rank;
        rank_source: Text, "", "source of the rank: file, name or position";
        file: Text, "", "name of its file in messages";
        time_era: Text, "", "format of the times in the file";
        base_ns: Option<i64>, "ns", "base time that was added to the times";
        world_size: Option<u32>, "ranks", "world size";
        unpacked_bytes: u64, "bytes", "size of the JSON text";
        defect_count: u32, "", "number of rows in `set_health`";
        is_front_end: bool, "", "the front end of an engine: beside other ranks it is left out";
        has_part: bool, "", "a part for the joined job is stored, because an analysis compares ranks";
    } of RankResults = (RankResults {
        rank, source: rank_source, file, partials, inventory, part, health, era: time_era, base: base_ns,
        world: world_size, unpacked: unpacked_bytes, is_front_end,
    }), u32 = (defect_count), bool = (has_part);
    read { let (partials, inventory, part, health) = Default::default(); }
}

stored! {
    /// One row per kind of defect in a rank's file.
    pub(crate) struct Tallies, TallyRow = "set_health" by "rank, counter" {
        counter: Text, "", "name of the counter";
        count: u64, "", "number of occurrences";
        first_byte: Option<u64>, "bytes", "offset of the first occurrence in the unpacked file";
        example: Text, "", "example: the first occurrence";
    } of Counter = (counter), CounterTally = (CounterTally { count, first_byte, example });
}

table! {
    /// One row per rank and analysis; the inventory comes first.
    pub(crate) struct Partials, PartialRow = "set_partials" by "rank, order of the run" {
        analysis: Text, "", "stem, or `inventory`";
        own_rank: u32, "", "rank in the partial of the analysis";
        reason: Option<Text>, "", "why the analysis has no rows for the rank";
        table_count: u32, "", "number of tables";
    }
}

table! {
    /// One row per rank, analysis and table.
    pub(crate) struct PartialContents, ContentRow = "set_contents" by "rank, order of the run" {
        analysis: Text, "", "stem, `inventory` or `part`";
        table as "table": Text, "", "name of the table";
        row_count: u64, "", "number of rows";
    }
}

/// Every table of this module.
pub const TABLES: &[&TableSpec] =
    &[Files::SPEC, PartialRanks::SPEC, Tallies::SPEC, Partials::SPEC, PartialContents::SPEC];
