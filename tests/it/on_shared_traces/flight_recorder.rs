//! Dumps of the NCCL flight recorder are refused by name.

use crate::shared;
use crate::snapshots::command::*;
use std::path::PathBuf;

#[test]
fn flight_recorder_dumps_are_refused_by_name() {
    let Some(root) = shared::folder() else { return };
    let files: Vec<PathBuf> = shared::files_below(&root.trace("flight_recorder"));
    let dumps: Vec<&PathBuf> = files.iter().filter(|p| p.to_string_lossy().contains("_dump_")).collect();
    assert!(dumps.len() > 8, "{}", dumps.len());
    for dump in dumps.iter().take(12) {
        let run = hta(&[&dump.display().to_string()]);
        let errors = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{errors}");
        assert!(errors.contains("found an NCCL flight recorder dump"), "{errors}");
    }
}
