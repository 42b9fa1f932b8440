//! Every nanosecond of real traces has one owner.

use crate::analyses::diagnosis::*;
use crate::run::{answer, options};
use crate::shared;

#[test]
fn every_nanosecond_of_real_traces_has_one_owner() {
    let Some(root) = shared::folder() else { return };
    for set in ["multirank_nccl_megatron_tp8", "multirank_gloo_ddp4"] {
        check_sums(&answer(&[root.trace(set)], &options()), set);
    }
    for file in files(&root.trace("tracelens")) {
        let shown = file.display().to_string();
        if let Ok(answer) = crate::run::try_run(&[file], &options()) {
            check_sums(&answer, &shown);
        }
    }
}
