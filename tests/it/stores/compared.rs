//! Two runs whose results are in a store, compared.

use super::server::Store;
use super::{run, said};
use crate::shared;

#[test]
fn results_in_a_store_are_compared_as_those_in_a_folder() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    for (out, rank) in [("base", 0), ("test", 3)] {
        let trace = shared::samples().join(format!("gpu_ddp8/rank_{rank}.json.gz")).display().to_string();
        for out in [format!("s3://runs/{out}"), out.to_string()] {
            let made =
                run(&store, dir.path(), &["analyze", &trace, "--no-html", "--no-events", "--out", &out]);
            assert!(made.status.success(), "{}", said(&made));
        }
    }
    // Only the places differ.
    let compared = |arguments: &[&str]| {
        let compared = run(&store, dir.path(), arguments);
        assert!(compared.status.success(), "{arguments:?}: {}", said(&compared));
        said(&compared).replace("s3://runs/", "")
    };
    let local = compared(&["diff", "base", "test"]);
    assert!(local.contains("Before and after"), "{local}");
    for sides in [["s3://runs/base", "s3://runs/test"], ["base", "s3://runs/test"]] {
        assert_eq!(compared(&["diff", sides[0], sides[1]]), local);
    }
    assert_eq!(compared(&["kernels", "s3://runs/base"]), compared(&["kernels", "base"]));
    let (page, other) = (dir.path().join("page.html"), dir.path().join("other.html"));
    let report = |this: &str, base: &str, out: &std::path::Path| {
        let told = compared(&["report", this, "--against", base, "--out", &out.display().to_string()]);
        let html = std::fs::read_to_string(out).expect("the page").replace("s3://runs/", "");
        (told.replace("other.html", "page.html"), html)
    };
    let of_folders = report("test", "base", &page);
    assert!(report("test", "s3://runs/base", &other) == of_folders);
    assert!(report("s3://runs/test", "s3://runs/base", &other) == of_folders);
    let refused = run(&store, dir.path(), &["report", "test", "--against", "s3://runs/none"]);
    let told = "cannot open s3://runs/none: expected a results folder, found nothing there";
    assert!(refused.status.code() == Some(2) && said(&refused).contains(told), "{}", said(&refused));
    let nowhere = run(&store, dir.path(), &["report", "s3://runs/test", "--against", "base"]);
    let told = "cannot write s3://runs/test/compare.html: ";
    assert!(nowhere.status.code() == Some(2) && said(&nowhere).contains(told), "{}", said(&nowhere));
}
