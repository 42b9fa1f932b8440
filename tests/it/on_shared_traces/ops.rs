//! Call stacks of samples and real traces hold what a count says.

use crate::analyses::ops::*;
use crate::run::options;
use crate::shared;

/// Self times of all rows of the call trees of a file, with the rows that violate bounds.
fn own_times(file: &std::path::Path) -> Option<(u64, Vec<String>, u64)> {
    use hta::health::Counter;
    use hta::read::input::Input;
    use hta::read::load::load;
    use hta::read::reading::Spread;
    use hta::read::source::ByteCount;
    use hta::trace::meta::RankSource;
    let input = Input::named(file);
    let l = load(&input, hta::read::options::LoadOptions::default(), Spread::Inline, &ByteCount::default())
        .ok()?;
    let trace = l.into_trace(0, RankSource::File, input.shown, &options().model);
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in 0..trace.columns.len() as u32 {
        let Some(own) = trace.stacks.self_ns(row) else { continue };
        rows += 1;
        if !(0..=trace.columns.dur[row as usize]).contains(&own) {
            wrong.push(format!(
                "row {row} `{}`: {own} of {}",
                trace.name(row),
                trace.columns.dur[row as usize]
            ));
        }
    }
    Some((rows, wrong, trace.health.count(Counter::FrameOverlap)))
}

#[test]
fn trees_of_samples_and_real_traces_hold_what_a_count_says() {
    let mut files = crate::robustness::invariants::traces_below(&shared::samples());
    if let Some(root) = shared::folder() {
        files.extend(crate::robustness::invariants::traces_below(&root.traces()));
        files.extend(crate::robustness::invariants::traces_below(&shared::reference("tensorboard/unit")));
    }
    let mut checked = 0;
    for file in files {
        let what = file.display().to_string();
        if let Some(answer) = ops(std::slice::from_ref(&file), &options()) {
            check(&what, &answer);
            check_options(&what, &file);
            checked += 1;
        }
    }
    assert!(checked >= 14, "{checked} files");
}

#[test]
fn own_times_of_all_samples_and_real_traces_lie_within_the_events() {
    let mut files = crate::robustness::invariants::traces_below(&shared::samples());
    let shared = shared::folder();
    if let Some(root) = &shared {
        files.extend(crate::robustness::invariants::traces_below(&root.traces()));
    }
    let (mut rows, mut overlaps) = (0, 0);
    for file in files {
        let Some((of_file, wrong, overlapping)) = own_times(&file) else { continue };
        assert!(wrong.is_empty(), "{}: {} rows, such as {:?}", file.display(), wrong.len(), wrong.first());
        rows += of_file;
        overlaps += u64::from(overlapping > 0);
    }
    assert!(rows > 10_000, "{rows} rows");
    // Some real traces contain overlapping frames.
    assert!(shared.is_none() || overlaps >= 5, "{overlaps} files with overlapping frames");
}
