//! Every real file and folder ends as the contract says.

use crate::robustness::folders::*;
use crate::shared;

#[test]
fn every_real_file_ends_as_the_contract_says() {
    let Some(root) = shared::folder() else { return };
    let files = shared::files_below(&root.traces());
    let [clean, partly, nothing] = check_all(&files);
    println!("{clean} clean, {partly} in part, {nothing} refused");
    assert!(clean >= 60, "{clean} clean, {partly} in part, {nothing} refused");
    // Databases, recorder dumps, execution traces and logs are not traces.
    assert!(nothing >= 40, "{clean} clean, {partly} in part, {nothing} refused");
}

#[test]
fn every_real_folder_ends_as_the_contract_says() {
    let Some(root) = shared::folder() else { return };
    let traces = root.traces();
    let folders = shared::folders_below(&traces);
    assert!(folders.len() >= 12, "{}", folders.len());
    for folder in &folders {
        let code = check(folder);
        let name = folder.strip_prefix(&traces).expect("below the traces").to_string_lossy().into_owned();
        match &*name {
            "multirank_nccl_megatron_tp8" | "multirank_gloo_ddp4" | "memory_snapshots" => {
                assert_eq!(code, 0, "{name}")
            }
            // They contain no trace, or files of several jobs.
            "" | "nsys" | "flight_recorder/gpu_error_1st" | "multirank_nccl_megatron_tp8/et" => {
                assert_eq!(code, 2, "{name}");
            }
            _ => {}
        }
    }
}
