//! The twin by torch's writers, cut: where events are missing behind the cut, the cut is named, not a device
//! that was not recorded.

use crate::robustness::recorders::hta;
use std::io::Read;

/// Needs the traces beside the repository: see [`crate::shared::folder`].
mod on_shared_traces {
    use super::*;
    use crate::shared;

    #[test]
    fn a_cut_twin_is_told_to_be_cut() {
        let Some(root) = shared::folder() else { return };
        let twin = root.traces().join("torch215/twin");
        if !twin.is_dir() {
            return;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, of) in [
            ("cut.pftrace", "cuspy.pftrace.gz"),
            ("cut.json", "cuspy.json.gz"),
            ("kineto.json", "kineto.json.gz"),
            ("converted.pftrace", "converted.pftrace"),
        ] {
            let packed = std::fs::File::open(twin.join(of)).expect("the twin");
            let mut bytes = Vec::new();
            let read = match of.ends_with(".gz") {
                true => flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes),
                false => std::io::BufReader::new(packed).read_to_end(&mut bytes),
            };
            read.expect("the twin can be read");
            for tenth in [3, 6, 9] {
                let path = folder.path().join(name);
                std::fs::write(&path, &bytes[..bytes.len() * tenth / 10]).expect("a temporary file");
                for command in ["breakdown", "analyze"] {
                    let out = folder.path().join("out").display().to_string();
                    let arguments =
                        if command == "analyze" { vec![command, "--out", &out] } else { vec![command] };
                    let said = hta(&arguments, &[&path]);
                    let said = [said.stdout, said.stderr].concat();
                    let said =
                        String::from_utf8_lossy(&said).split_whitespace().collect::<Vec<_>>().join(" ");
                    let what = format!("{command} of {name} at {tenth}: {said}");
                    assert!(said.contains("the file of rank 0 is cut: "), "{what}");
                    assert!(said.contains("get the whole file"), "{what}");
                    assert!(
                        !said.contains("ProfilerActivity") && !said.contains("device was not recorded"),
                        "{what}"
                    );
                    assert!(!said.contains("ynchronise") && !said.contains("too short"), "{what}");
                    let _ = std::fs::remove_dir_all(&out);
                }
            }
        }
    }
}
