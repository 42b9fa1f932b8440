//! Whether the windows of steps are those of the host or of the device.

use crate::steps::rank;
use hta::trace::rank_trace::{ModelOptions, RankTrace};
use hta::trace::step::{Lag, StepWindow};
use hta_testkit::{TraceBuilder, us};

/// Three steps of 100 us that each launch a kernel of `run` us at once, one after the other on the device.
fn ahead(run: i64, window: StepWindow) -> RankTrace {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    for k in 0..3 {
        main.step(k as u64, us(100 * k)..us(100 * k + 100));
        let start = 10 + k * run.max(100);
        main.launch(us(100 * k + 1)..us(100 * k + 5)).kernel("k", 7, us(start)..us(start + run));
    }
    rank(&t, &ModelOptions { step_window: window, ..ModelOptions::default() })
}

fn lengths(t: &RankTrace) -> Vec<i64> {
    t.steps.steps.iter().map(|s| s.window.len() / 1_000).collect()
}

#[test]
fn windows_are_the_devices_where_it_lags() {
    let t = ahead(700, StepWindow::Auto);
    assert!(t.steps.is_on_device);
    assert_eq!(lengths(&t), [710, 700, 700]);
    // Ends at 710, 1410, 2110 of steps that end at 100, 200, 300.
    assert_eq!(t.steps.lag, Lag { median: Some(us(1_210)), launched: us(2_100), held: us(2_100) });
    let t = ahead(700, StepWindow::Host);
    assert_eq!((t.steps.is_on_device, lengths(&t)), (false, vec![100; 3]));
    assert_eq!((t.steps.lag.held, t.steps.lag.launched), (us(290), us(2_100)));
}

#[test]
fn windows_are_the_hosts_where_it_waits() {
    let t = ahead(80, StepWindow::Auto);
    assert_eq!((t.steps.is_on_device, lengths(&t)), (false, vec![100; 3]));
    assert!(ahead(80, StepWindow::Device).steps.is_on_device);
}
