//! Collectives on the host: a rank arrives when it submits, and can transfer when its worker thread has started.
//!
//! ```text
//! rank 0   |c10d|                            submit 100
//!   worker         |gloo..........|          ts 140, end 500
//! rank 1         |c10d|                      submit 200: last, and the gain is 200 - 180
//!   worker              |gloo.....|          ts 230
//! rank 2       |c10d|                        submit 180
//!   worker                 |gloo..|          ts 290: nothing was transferred before
//! ```

use crate::run::{answer, options};
use hta_testkit::{Collective, TraceBuilder, ms, us};
use std::path::PathBuf;

/// Submission, start and end in us after the start of a step; all of rank 1's are shifted by `late`.
const PLAN: [[i64; 3]; 3] = [[100, 140, 500], [200, 230, 500], [180, 290, 500]];

fn write(folder: &std::path::Path, late: i64) -> Vec<PathBuf> {
    let one = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(3).backend("gloo");
        for step in 0..6u64 {
            let s = ms(20) * step as i64 + us(13) * (step * step) as i64;
            t.thread(1).step(step, s..s + ms(18));
            let [submit, start, end] = PLAN[rank as usize];
            let own = if rank == 1 { us(late) } else { 0 };
            t.thread(1).op("aten::mm", s + us(20)..s + us(submit - 10) + own);
            let c = Collective::all_reduce(1_000 + step, "Float").group("0", "default_pg", 0..3);
            let run = s + us(start) + own..s + us(end + late);
            t.thread(1).gloo(&c, s + us(submit) + own..s + us(submit + 8) + own, 9, run);
            t.thread(1).op("aten::add_", s + us(end + late + 30)..s + us(end + late + 90));
        }
        let path = folder.join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    };
    (0..3).map(one).collect()
}

#[test]
fn a_worker_waits_until_the_last_worker_has_started() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = answer(&write(folder.path(), 0), &options()).rows("collectives");
    assert_eq!(rows.len(), 18);
    for r in rows {
        let [submit, start, end] = PLAN[r.int("rank") as usize].map(us);
        assert_eq!(r.int("arrival_ns"), r.int("submit_ns"));
        assert_eq!((r.int("ts_ns") - r.int("submit_ns"), r.int("dur_ns")), (start - submit, end - start));
        assert_eq!((r.int("wait_ns"), r.int("transfer_ns")), (us(290) - start, end - us(290)), "{}", r.0);
        assert_eq!(
            (r.int("last_rank"), r.int("last_arrival_ns") - r.int("arrival_ns")),
            (1, us(200) - submit)
        );
    }
}

#[test]
fn a_late_submission_is_the_gain_and_excess_of_its_rank() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answer = answer(&write(folder.path(), 4_000), &options());
    let rows = answer.rows_where("straggler_delays", |r| !r.text("process_group").is_empty());
    assert_eq!(rows.len(), 18);
    for r in &rows {
        // Windows start with the step, or with the end of the previous call: the same on all ranks except for the
        // first.
        let gain = if r.int("rank") == 1 { us(4_200 - 180) } else { 0 };
        assert_eq!(r.int("gain_ns"), gain, "{}", r.0);
        let excess = match r.int("rank") {
            // the lower median of 100 and 180
            1 => us(4_200 - 100),
            2 => us(180 - 100),
            _ => 0,
        };
        assert_eq!(r.int("excess_ns"), excess, "{}", r.0);
    }
    let named = answer.rows("stragglers");
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!((named[0].text("ranks"), named[0].text("pattern")), ("1", "persistent"));
    assert_eq!(named[0].int("gain_sum_ns"), 6 * us(4_020));
    let causes =
        answer.rows_where("straggler_causes", |r| r.int("rank") == 1 && r.text("name") == "aten::mm");
    assert_eq!(causes.len(), 6);
    // against rank 0, which has the lower median
    assert!(
        causes.iter().all(|r| r.int("typical_rank") == 0 && r.int("delta_ns") == us(4_100)),
        "{causes:?}"
    );
}
