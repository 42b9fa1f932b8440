//! The page of two recordings of one model on two devices.

use crate::cli::html::against::{Answer, against, figures, whole};
use crate::cli::html::{analyze, shown};
use crate::shared;

#[test]
fn two_devices_are_told_apart() {
    let Some(root) = shared::folder() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let [this, base] = ["mi300", "h100"].map(|device| {
        let trace = root.trace(&format!("tracelens/{device}_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"));
        analyze(shown(&trace), &dir.path().join(device), &["--no-events"]);
        dir.path().join(device)
    });
    let Answer { page, .. } = against(&this, &base);
    let warnings = page.texts("compare", "warnings", "text");
    assert!(warnings.iter().any(|w| w.starts_with("drivers and runtimes differ: ")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("different makers")), "{warnings:?}");
    let about = page.texts("compare", "about", "text");
    assert!(about[0].starts_with("comparable: at most: devices"), "{about:?}");
    let categories = page.texts("compare", "categories", "name");
    assert!(categories.iter().any(|c| c == "gemm"), "{categories:?}");
    assert!(!page.has("compare", "kernels"));
    assert_eq!(whole(&figures(&page, "parts"), "step time").3, "one step: cannot tell");
}
