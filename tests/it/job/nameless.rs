//! Calls that name no group, on ranks whose files list their groups: `tests/data/mesh/gloo_dp2_pp2`, four processes of
//! torch 2.15 on one host, two pipelines of two stages with a gloo back end.

use crate::run::{answer, options};
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn messages_and_collectives_join_only_ranks_of_a_recorded_group() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mesh/gloo_dp2_pp2");
    let answer = answer(&[folder], &options());
    // Maps (kind, group) to its calls and to those that have a partner on every member.
    let mut found: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
    for row in answer.rows("collectives") {
        let group = row.text("process_group").to_string();
        let entry = found.entry((row.text("kind").to_string(), group)).or_default();
        entry.0 += 1;
        entry.1 += usize::from(row.opt_int("member_count") == Some(2));
    }
    let of = |kind: &str, group: &str| found.get(&(kind.to_string(), group.to_string())).copied();
    for group in ["3 (mesh_pp) [0, 1]", "4 (mesh_pp) [2, 3]"] {
        assert_eq!(
            (of("send", group), of("recv", group)),
            (Some((16, 16)), Some((16, 16))),
            "{group}: {found:?}"
        );
    }
    for group in ["1 (mesh_dp) [0, 2]", "2 (mesh_dp) [1, 3]"] {
        assert_eq!(of("all_reduce", group), Some((4, 4)), "{group}: {found:?}");
    }
    // A barrier of all ranks looks like one of each pair: which of them it was is not recorded.
    let matched = answer
        .rows_where("collectives", |r| r.text("kind") == "barrier" && r.opt_int("collective").is_some());
    assert_eq!(matched.len(), 0, "{found:?}");
}
