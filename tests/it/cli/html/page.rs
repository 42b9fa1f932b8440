//! The page of every sample: well formed, self-contained, and with the numbers of the tables.

use super::{Page, analyze, hta, shown};
use hta::analysis::verdict::TIME_PARTS;
use hta_testkit::{TraceBuilder, us};
use serde_json::Value;

const SAMPLES: [&str; 5] = ["gpu_ddp8", "gpu_single", "gpu_counters", "gloo_ddp4", "cpu_single"];

fn of_sample(name: &str) -> Page {
    let dir = tempfile::tempdir().expect("a temporary folder");
    analyze(&format!("data/samples/{name}"), &dir.path().join("out"), &[])
}

/// Rows of a table, as the analysis' own command gives them.
fn rows(analysis: &str, table: &str, sample: &str) -> Vec<Value> {
    let run = hta(&[analysis, &format!("data/samples/{sample}"), "--format", "json", "--table", table]);
    serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{analysis} of {sample}: {e}"))
}

fn sum(rows: &[&Value], column: &str) -> i64 {
    rows.iter().map(|r| r[column].as_i64().unwrap_or_else(|| panic!("`{column}` is no integer"))).sum()
}

/// Rows that are used for a lane: its full steps, or else its span.
fn counted(all: &[Value]) -> Vec<&Value> {
    // Without marked steps the capture is the only step: then the span is used, as in the text report.
    let is_full = |r: &Value| r["scope"] == "step" && r["is_partial"] != true && !is_whole(all, r);
    let with_steps: Vec<_> = all.iter().filter(|r| is_full(r)).map(lane).collect();
    all.iter()
        .filter(|r| if with_steps.contains(&lane(r)) { is_full(r) } else { r["scope"] == "span" })
        .collect()
}

fn lane(r: &Value) -> (Option<i64>, Option<i64>) {
    (r["rank"].as_i64(), r["device"].as_i64())
}

/// Whether a window is the whole capture of its lane.
fn is_whole(all: &[Value], r: &Value) -> bool {
    let same = |c: &Value| lane(c) == lane(r) && c["ts_ns"] == r["ts_ns"] && c["dur_ns"] == r["dur_ns"];
    all.iter().filter(|c| c["scope"] == "capture").any(same)
}

const PLOTLY: &str = include_str!("../../../../src/results/output/html/plotly/plotly-cartesian.min.js");

#[test]
fn the_breakdown_in_the_page_is_that_of_the_table_and_its_parts_sum() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let all = rows("breakdown", "temporal_breakdown", sample);
        let counted = counted(&all);
        assert!(!counted.is_empty(), "{sample}");
        let parts = ["compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"];
        for column in parts.iter().chain(&["dur_ns"]) {
            assert_eq!(page.sum("breakdown", "lanes", column), sum(&counted, column), "{sample} {column}");
        }
        let lengths = page.cells("breakdown", "lanes", "dur_ns");
        for (i, length) in lengths.iter().enumerate() {
            let of_parts: i64 = parts.iter().filter_map(|p| page.cells("breakdown", "lanes", p)[i]).sum();
            assert_eq!(Some(of_parts), *length, "{sample}, lane {i}");
        }
        let marked = |r: &&Value| r["scope"] == "step" && (sample == "gpu_counters" || !is_whole(&all, r));
        let steps: Vec<&Value> = all.iter().filter(marked).collect();
        let has_marks = page.has("breakdown", "cells");
        assert_eq!(has_marks, sample != "gpu_counters", "{sample}");
        if has_marks {
            assert_eq!(page.sum("breakdown", "cells", "idle_ns"), sum(&steps, "idle_ns"), "{sample}");
        }
    }
}

#[test]
fn the_timeline_in_the_page_has_the_time_of_its_tables() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let all = rows("diagnosis", "timeline", sample);
        let all: Vec<&Value> = all.iter().collect();
        assert_eq!(page.sum("timeline", "blocks", "dur_ns"), sum(&all, "dur_ns"), "{sample}");
        let lanes = page.cells("timeline", "lanes", "blocks");
        assert_eq!(
            page.sum("timeline", "lanes", "blocks") as usize,
            page.cells("timeline", "blocks", "dur_ns").len()
        );
        // What does not stand in a block of its own is in the sums of those that are shared.
        for (part, column) in
            ["compute_ns", "communication_ns", "memory_ns", "idle_ns"].into_iter().enumerate()
        {
            let parts = page.cells("timeline", "blocks", "part");
            let lengths = page.cells("timeline", "blocks", "dur_ns");
            let merged = page.cells("timeline", "blocks", "merged");
            let alone = |i: usize| merged[i].is_none() && parts[i] == Some(part as i64);
            let single: i64 = (0..parts.len()).filter(|i| alone(*i)).filter_map(|i| lengths[i]).sum();
            assert_eq!(
                single + page.sum("timeline", "merged", column),
                sum(&all, column),
                "{sample} {column}"
            );
        }
        let account = rows("diagnosis", "time_account", sample);
        for (column, _) in TIME_PARTS {
            let part = column.trim_end_matches("_ns");
            let of_part: Vec<&Value> = account.iter().filter(|r| r["part"] == part).collect();
            let time = sum(&of_part, "time_ns");
            assert_eq!(page.sum("breakdown", "account", column), time, "{sample} {column}");
            if ["waiting", "unmatched"].contains(&part) {
                assert_eq!(page.sum("timeline", "lanes", column), time, "{sample} {column}");
                assert!(time > 0 || sample != "gloo_ddp4", "{sample} {column}");
            }
        }
        assert!(!lanes.is_empty(), "{sample}");
    }
}

#[test]
fn a_page_against_another_run_has_the_sections_of_both() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (new, old) = (dir.path().join("new"), dir.path().join("old"));
    analyze("data/samples/gpu_ddp8", &new, &[]);
    let before = analyze("data/samples/gpu_single", &old, &[]);
    let path = dir.path().join("both.html");
    hta(&["report", shown(&new), "--against", shown(&old), "-o", shown(&path)]);
    let both = Page::read(&path);
    let sections = both.data["against"]["sections"].as_array().expect("sections");
    let names: Vec<&str> = sections.iter().filter_map(|s| s[0].as_str()).collect();
    assert_eq!(names, ["timeline", "findings", "breakdown", "ranks"]);
    let lanes = &sections.iter().find(|s| s[0] == "breakdown").expect("it is there")[1]["grids"]["lanes"];
    let column =
        lanes["columns"].as_array().expect("columns").iter().find(|c| c["name"] == "dur_ns").expect("dur_ns");
    let of_other: i64 = column["cells"].as_array().expect("cells").iter().filter_map(Value::as_i64).sum();
    assert_eq!(of_other, before.sum("breakdown", "lanes", "dur_ns"));
    assert!(both.html.len() < 8_000_000);
    assert_eq!(before.data["against"], Value::Null);
}

#[test]
fn memory_in_the_page_is_that_of_the_tables_and_holders_sum_to_the_peak() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let peaks = rows("memory", "memory_peaks", sample);
        let peaks: Vec<&Value> = peaks.iter().filter(|r| r["scope"] == "capture").collect();
        if peaks.is_empty() {
            continue;
        }
        assert_eq!(page.sum("memory", "peaks", "peak_bytes"), sum(&peaks, "peak_bytes"), "{sample}");
        let first = page.cells("memory", "peaks", "peak_bytes")[0];
        let highest = page.cells("memory", "curve", "highest_bytes").into_iter().flatten().max();
        assert_eq!(highest, first, "{sample}");
        let kinds: std::collections::BTreeSet<i64> =
            page.cells("memory", "content", "kind").into_iter().flatten().collect();
        // Every kind of holder adds up to the peak.
        let held = page.sum("memory", "content", "bytes");
        assert_eq!(Some(held), first.map(|peak| peak * kinds.len() as i64), "{sample}");
        assert!(!kinds.is_empty(), "{sample}");
    }
}

#[test]
fn idle_causes_in_the_page_are_those_of_the_table_and_sum_to_the_idle_time() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let all = rows("idle", "idle", sample);
        let devices: Vec<Value> = all.into_iter().filter(|r| r["stream"].is_null()).collect();
        let idle = sum(&counted(&devices), "idle_ns");
        assert_eq!(page.sum("idle", "lanes", "idle_ns"), idle, "{sample}");
        let columns = page.grid("idle", "lanes")["columns"].as_array().expect("columns");
        let causes = columns.iter().filter(|c| c["kind"] == "ns" && c["name"] != "idle_ns");
        let of_causes: i64 =
            causes.map(|c| page.sum("idle", "lanes", c["name"].as_str().expect("a name"))).sum();
        assert_eq!(of_causes, idle, "{sample}");
        let host = rows("idle", "idle_host", sample);
        assert_eq!(page.sum("idle", "host", "time_ns"), sum(&counted(&host), "time_ns"), "{sample}");
    }
}

/// Each kernel has the operator with most time over all ranks, with shapes that a rank has for it, and its rate is that of
/// the operations and times of the table.
fn operators_of_kernels(page: &Page, kernels: &[&Value], sample: &str) {
    let texts = |name: &str| page.texts("kernels", "kernels", name);
    let (names, categories, ops, shapes) =
        (texts("name"), texts("category"), texts("main_op"), texts("main_input_dims"));
    let rates = page.column("kernels", "kernels", "tflops_per_s")["cells"].as_array().expect("cells").clone();
    for i in 0..names.len() {
        let mine: Vec<&&Value> =
            kernels.iter().filter(|r| r["name"] == *names[i] && r["category"] == *categories[i]).collect();
        let mut of_op: std::collections::BTreeMap<&str, i64> = std::collections::BTreeMap::new();
        for r in &mine {
            if let Some(op) = r["main_op"].as_str() {
                *of_op.entry(op).or_default() += r["main_op_ns"].as_i64().expect("its time");
            }
        }
        let most = of_op.values().max().copied();
        assert_eq!(of_op.get(ops[i].as_str()).copied(), most, "{sample}: {}", names[i]);
        let has_shapes = mine.iter().any(|r| r["main_op"] == *ops[i] && r["main_input_dims"] == *shapes[i]);
        assert!(shapes[i].is_empty() || has_shapes, "{sample}: {}", shapes[i]);
        let total = |column: &str| mine.iter().filter_map(|r| r[column].as_u64()).sum::<u64>() as f64;
        let rate = Some(total("flops") / total("work_ns") / 1e3).filter(|r| *r > 0.0);
        let near = |(a, b): (f64, f64)| (a / b - 1.0).abs() < 1e-9;
        assert!(
            rate.zip(rates[i].as_f64()).map_or(rate.is_none() && rates[i].is_null(), near),
            "{sample}: {}",
            names[i]
        );
    }
}

#[test]
fn modules_in_the_page_are_those_of_the_table_all_ranks_first() {
    let mut with_modules = 0;
    for sample in SAMPLES {
        let page = of_sample(sample);
        let table = rows("ops", "modules", sample);
        if table.is_empty() {
            assert!(page.reason("modules").is_some_and(|r| r.contains("with_modules")), "{sample}");
            continue;
        }
        with_modules += 1;
        let (ranks, paths) = (page.cells("modules", "tree", "rank"), page.texts("modules", "tree", "path"));
        let parents = page.cells("modules", "tree", "parent");
        for column in ["gpu_ns", "host_ns", "bwd_gpu_ns", "count"] {
            let cells = page.cells("modules", "tree", column);
            for i in 0..paths.len() {
                let mine = table
                    .iter()
                    .filter(|r| r["path"] == *paths[i] && ranks[i].is_none_or(|rank| r["rank"] == rank));
                let values: Vec<i64> = mine.filter_map(|r| r[column].as_i64()).collect();
                let whole = (!values.is_empty()).then(|| values.iter().sum::<i64>());
                assert_eq!(cells[i], whole, "{sample} {column}: {}", paths[i]);
            }
        }
        assert!(ranks.first() == Some(&None), "{sample}");
        for (i, parent) in parents.iter().enumerate() {
            let Some(parent) = parent.map(|p| p as usize) else { continue };
            assert!(parent < i && ranks[parent] == ranks[i], "{sample}: row {i}");
            assert!(paths[i].starts_with(&format!("{}/", paths[parent])), "{sample}: {}", paths[i]);
        }
    }
    assert!(with_modules > 0);
}

#[test]
fn kernels_and_operators_in_the_page_are_those_of_the_tables() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let kernels = rows("kernels", "kernels_by_name", sample);
        let kernels: Vec<&Value> = kernels.iter().filter(|r| r["scope"] == "span").collect();
        match page.reason("kernels") {
            Some(reason) => {
                assert!(kernels.is_empty() && reason.contains("No kernels"), "{sample}: {reason}")
            }
            None => {
                for column in ["sum_ns", "count"] {
                    assert_eq!(page.sum("kernels", "kernels", column), sum(&kernels, column), "{sample}");
                }
                operators_of_kernels(&page, &kernels, sample);
            }
        }
        let operators = rows("ops", "operators", sample);
        let operators: Vec<&Value> = operators.iter().filter(|r| r["scope"] != "step").collect();
        for column in ["host_self_ns", "gpu_self_ns", "count"] {
            assert_eq!(page.sum("ops", "operators", column), sum(&operators, column), "{sample}");
        }
    }
}

#[test]
fn flame_graphs_in_the_page_have_the_times_of_the_table_together_and_rank_by_rank() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let table = rows("ops", "flame", sample);
        let ranks: std::collections::BTreeSet<i64> =
            table.iter().filter_map(|r| r["rank"].as_i64()).collect();
        let (of_rank, parents) = (page.cells("flame", "tree", "rank"), page.cells("flame", "tree", "parent"));
        let mut trees = vec![None];
        trees.extend(ranks.iter().copied().map(Some).filter(|_| ranks.len() > 1));
        for tree in trees {
            for (shown, column) in
                [("host_ns", "host_self_ns"), ("gpu_ns", "gpu_sum_ns"), ("bwd_gpu_ns", "bwd_gpu_sum_ns")]
            {
                let cells = page.cells("flame", "tree", shown);
                let got: i64 =
                    cells.iter().zip(&of_rank).filter(|(_, r)| **r == tree).filter_map(|(v, _)| *v).sum();
                let of_table: Vec<&Value> =
                    table.iter().filter(|r| tree.is_none() || r["rank"].as_i64() == tree).collect();
                assert_eq!(got, sum(&of_table, column), "{sample}, {column} of {tree:?}");
            }
        }
        for (row, parent) in parents.iter().enumerate() {
            let above = parent.and_then(|p| usize::try_from(p).ok());
            assert!(above.is_none_or(|p| p < row && of_rank[p] == of_rank[row]), "{sample}, row {row}");
        }
        assert!(page.texts("flame", "tree", "name").iter().any(|n| n.starts_with("aten::")), "{sample}");
    }
}

#[test]
fn delays_and_collectives_in_the_page_are_those_of_the_tables() {
    for sample in ["gpu_ddp8", "gloo_ddp4"] {
        let page = of_sample(sample);
        let delays = rows("stragglers", "straggler_delays", sample);
        let delays: Vec<&Value> = delays.iter().filter(|r| r["process_group"].is_null()).collect();
        for column in ["gain_ns", "excess_ns", "imposed_wait_ns", "wait_ns"] {
            assert_eq!(page.sum("stragglers", "delays", column), sum(&delays, column), "{sample}");
        }
        let sizes = rows("collectives", "collective_summary", sample);
        let sizes: Vec<&Value> = sizes.iter().collect();
        for column in ["dur_sum_ns", "wait_sum_ns", "count"] {
            assert_eq!(page.sum("collectives", "sizes", column), sum(&sizes, column), "{sample}");
        }
    }
}

#[test]
fn utilization_over_time_has_the_mean_of_the_whole() {
    let page = of_sample("gpu_single");
    let means = rows("counters", "counter_means", "gpu_single");
    let capture = means.iter().find(|r| r["scope"] == "capture").expect("a row of the capture");
    let busy = capture["gpu_utilization_ratio"].as_f64().expect("a ratio");
    let cells = page.column("utilization", "stretches", "mean")["cells"].as_array().expect("cells");
    let values: Vec<f64> = cells.iter().filter_map(Value::as_f64).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    // The last stretch may be shorter than the others.
    assert!((mean - busy).abs() < 0.01, "{mean} and {busy}");
    assert!(values.iter().all(|v| (0.0..=1.0).contains(v)));
}

#[test]
fn what_is_empty_says_why() {
    let cpu = of_sample("cpu_single");
    for (section, word) in [
        ("kernels", "CPU-only"),
        ("utilization", "CPU-only"),
        ("patterns", "CPU-only"),
        ("collectives", "matched"),
    ] {
        let reason = cpu.reason(section).unwrap_or_else(|| panic!("`{section}` is not empty"));
        assert!(reason.contains(word), "{section}: {reason}");
    }
    let one = of_sample("gpu_single");
    for section in ["stragglers", "collectives"] {
        assert!(one.reason(section).is_some_and(|r| r.starts_with("One rank")), "{section}");
    }
    assert!(one.reason("kernels").is_none() && one.reason("breakdown").is_none());
}

#[test]
fn python_functions_have_file_and_line_where_stacks_were_recorded() {
    let page = of_sample("cpu_single");
    let names = page.texts("ops", "python", "name");
    assert!(names.iter().any(|n| n.starts_with("torch/nn/modules/") && n.contains(".py(")), "{names:?}");
    assert!(page.sum("ops", "python", "count") > 1000);
}

#[test]
fn the_page_loads_nothing_and_its_elements_are_closed() {
    for sample in SAMPLES {
        let page = of_sample(sample);
        let frame = page.frame();
        assert!(page.html.contains("default-src 'none'"), "{sample}");
        // Requests by Plotly are tested in a browser (tests/html/check.py); its text is excluded here.
        let (before, after) = page.html.split_once(PLOTLY).expect("Plotly as it is published");
        for part in [before, after] {
            for (at, _) in part.match_indices("://") {
                let before = &part[part.floor_char_boundary(at.saturating_sub(40))..at];
                assert!(
                    !before.contains("src=") && !before.contains("href=") && !before.contains("url("),
                    "{sample}: {before}"
                );
            }
        }
        assert!(!frame.contains("://") && !frame.contains("@import") && !frame.contains("url("), "{sample}");
        assert_eq!(page.html.matches("<script").count(), page.html.matches("</script>").count(), "{sample}");
        assert_closed(&frame);
        assert!(page.html.len() < 8_000_000);
    }
}

/// Every element that is opened is closed, in the right order.
fn assert_closed(html: &str) {
    const VOID: [&str; 6] = ["!doctype", "!--", "meta", "link", "input", "br"];
    let mut open: Vec<String> = Vec::new();
    let (mut rest, mut in_style) = (html, false);
    while let Some((_, tag)) = rest.split_once('<') {
        rest = tag;
        let name: String = tag.chars().take_while(|c| !c.is_whitespace() && *c != '>').collect();
        let name = name.to_lowercase();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed));
            in_style = false;
        } else if !in_style && !VOID.contains(&name.as_str()) {
            in_style = name == "style";
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn a_trace_without_steps_is_as_idle_in_the_page_as_in_the_text() {
    // Idle time before the first kernel and after the last: the capture is longer than the span.
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::add", us(0)..us(100));
    main.launch(us(10)..us(15)).kernel("a", 7, us(40)..us(60));
    main.launch(us(30)..us(35)).kernel("b", 7, us(61)..us(80));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("rank_0.json");
    std::fs::write(&input, t.to_json()).expect("a trace can be written");
    let page = analyze(shown(&input), &dir.path().join("out"), &[]);
    let text = hta(&["breakdown", shown(&input)]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("2.5 %"), "{text:?}");
    for section in ["breakdown", "idle"] {
        assert_eq!(page.sum(section, "lanes", "idle_ns"), us(1), "{section}");
    }
    assert_eq!(page.sum("breakdown", "lanes", "dur_ns"), us(40));
    assert!(!page.has("breakdown", "steps"));
}

/// ```text
/// us           0         10        20        30        40
/// steps        [ 0                 )[ 1                )
/// kernel          [==)                    [==)
/// SM active    300 samples for each step, more than a line has points
/// power        100 W at 0, 200 W at 30
/// ```
#[test]
fn hardware_counters_are_lines_below_the_lane_of_their_device() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for (number, at) in [(0, us(0)), (1, us(20))] {
        main.annotation(&format!("ProfilerStep#{number}"), at..at + us(20));
        main.launch(at..at + us(1)).kernel("k", 7, at + us(3)..at + us(6));
    }
    for i in 0..600 {
        t.hardware_counter("SM Active (%)", i * us(40) / 600, (i % 2) as f64);
    }
    t.hardware_counter("Power (W)", us(0), 100.0);
    t.hardware_counter("Power (W)", us(30), 200.0);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let input = dir.path().join("rank_0.json");
    std::fs::write(&input, t.to_json()).expect("a trace can be written");
    let page = analyze(shown(&input), &dir.path().join("out"), &[]);
    // A line of each counter in each of both steps; two samples share a point.
    assert_eq!(page.cells("timeline", "lines", "samples"), [1, 300, 1, 300].map(Some));
    assert_eq!(page.cells("timeline", "lines", "points"), [1, 150, 1, 150].map(Some));
    let means = page.column("timeline", "points", "mean")["cells"].as_array().expect("cells");
    assert_eq!((means.len(), means[0].as_f64(), means[1].as_f64()), (302, Some(100.0), Some(0.5)));
    assert_eq!(page.cells("utilization", "recorded", "sampled_every_ns"), [Some(67)]);
    let plain = of_sample("gpu_single");
    assert!(page.has("timeline", "lines") && plain.cells("timeline", "lines", "samples").is_empty());
}
