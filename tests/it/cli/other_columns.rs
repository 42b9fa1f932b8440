//! Operators and kernels with the columns of other tools: torch.profiler, the TensorBoard plugin, PyProf.

use crate::cli::csv::{CsvRow, read, text as cell};
use std::process::{Command, Output};

const SAMPLE: &str = "data/samples/gpu_ddp8/rank_0.json.gz";

fn hta(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("hta runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn printed(arguments: &[&str]) -> String {
    let run = hta(arguments);
    assert!(run.status.success(), "{}", text(&run.stderr));
    text(&run.stdout)
}

pub fn rows(csv: &str) -> Vec<CsvRow> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("printed.csv");
    std::fs::write(&path, csv).expect("a temporary file can be written");
    read(&path).expect("just written")
}

#[test]
fn the_columns_of_torch_profiler_are_printed_as_it_does() {
    let table = printed(&["ops", SAMPLE, "--format", "torch"]);
    let header = table.lines().nth(1).expect("a header");
    let names =
        ["Name", "Self CPU %", "CPU time avg", "Self CUDA", "CUDA total", "# of Calls", "Total MFLOPs"];
    assert!(names.iter().all(|n| header.contains(n)), "{header}");
    let mm = table.lines().find(|l| l.trim_start().starts_with("aten::mm ")).expect("a product");
    // 5 steps of 12 products of [4096, 4096] with [4096, 4096].
    assert!(mm.ends_with(&format!("{:.3}", 60.0 * 2.0 * 4096f64.powi(3) / 1e6)), "{mm}");
    assert!(
        table.trim_end().lines().last().is_some_and(|l| l.starts_with("Self CUDA time total: ")),
        "{table}"
    );
    let refused = hta(&["kernels", SAMPLE, "--format", "torch"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("only `hta ops`"), "{}", text(&refused.stderr));
}

#[test]
fn pyprof_s_columns_are_printed_for_every_kernel() {
    let csv = printed(&[
        "pyprof",
        SAMPLE,
        "--csv",
        "--cols",
        "idx,dir,sub,mod,op,kernel,sil,tc,flops,bytes,layer,grid",
    ]);
    let header =
        r#""Idx","Direction","Sub","Module","Op","Kernel","Sil(ns)","TC","FLOPs","Bytes","Layer","Grid""#;
    assert!(csv.starts_with(header), "{}", csv.lines().next().unwrap_or_default());
    let rows = rows(&csv);
    let mm: Vec<&CsvRow> = rows.iter().filter(|r| cell(r, "Op") == "mm").collect();
    assert_eq!(mm.len(), 60);
    for r in &mm {
        assert_eq!((cell(r, "Module"), cell(r, "Direction"), cell(r, "TC")), ("aten", "bprop", "1"));
        assert_eq!((cell(r, "FLOPs"), cell(r, "Bytes")), ("137438953472", "201326592"));
        assert!(cell(r, "Layer").contains("Mlp_0/Linear_"), "{r:?}");
    }
    // A narrow line cuts what does not fit; one that is too narrow is refused.
    let narrow = printed(&["pyprof", SAMPLE, "-w", "100"]);
    assert!(narrow.lines().all(|l| l.chars().count() <= 100), "{narrow}");
    let refused = hta(&["pyprof", SAMPLE, "-w", "20"]);
    assert_eq!(refused.status.code(), Some(2));
    let unknown = hta(&["pyprof", SAMPLE, "--cols", "idx,colour"]);
    assert!(text(&unknown.stderr).contains("`colour`"), "{}", text(&unknown.stderr));
}

/// Figures of the user come before the built-in ones, and a bad file is refused by name.
#[test]
fn peaks_of_the_user_are_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("peaks.toml");
    let mine = "[[device]]\nname = 'mine'\nmatch = ['H100']\ntflops = { fp32 = 60, tf32 = 247.5 }\nbandwidth_gb_per_s = 3000\n";
    std::fs::write(&file, mine).expect("a temporary file can be written");
    let mfu = |more: &[&str]| {
        let csv = printed(&[&["ops", SAMPLE, "--table", "mfu", "--format", "csv"], more].concat());
        let row = rows(&csv).into_iter().find(|r| cell(r, "scope") == "span").expect("a span");
        (cell(&row, "device_name").to_string(), cell(&row, "mfu_pct").parse::<f64>().expect("a number"))
    };
    let (built_in, with_mine) = (mfu(&[]), mfu(&["--peaks", &file.to_string_lossy()]));
    assert_eq!((built_in.0.as_str(), with_mine.0.as_str()), ("H100 SXM", "mine"));
    // Half the peak is twice the utilization.
    assert!((with_mine.1 / built_in.1 - 2.0).abs() < 1e-9, "{built_in:?} {with_mine:?}");
    std::fs::write(&file, "[[device]]\nname = 'x'\n").expect("a temporary file can be written");
    let refused = hta(&["ops", SAMPLE, "--peaks", &file.to_string_lossy()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("cannot read the device peaks"), "{}", text(&refused.stderr));
}
