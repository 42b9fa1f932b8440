//! The account of the Megatron job is the known one.

use crate::analyses::efficiency::*;
use crate::run::{answer, device_windows, options};
use crate::shared;

#[test]
fn the_megatron_job_has_the_known_account() {
    let Some(root) = shared::folder() else { return };
    let set = root.trace("multirank_nccl_megatron_tp8");
    let on_device = answer(std::slice::from_ref(&set), &device_windows());
    let job = &rows(&on_device, "job")[0];
    assert_eq!((job.int("device_count"), job.int("step_count"), job.int("time_ns")), (8, 1, 633_541_000));
    assert_eq!(shares(job), [20.85, 58.00, 7.90, 0.0, 0.03, 11.88, 1.34]);
    assert_eq!(factors(job), [0.2085, 0.9891, 0.2129, 0.9901]);
    // The account has the steps of the devices, whatever the other analyses cut by.
    let on_host = answer(&[set], &options());
    assert_eq!(rows(&on_host, "job")[0].int("time_ns"), 633_541_000);
    // It is the hosts, not the network: 0.9994, 0.2109 and 0.9999 by an independent replay.
    let (_, factors) = replayed(&rows(&on_host, "job")[0]);
    for (found, known) in factors.into_iter().zip([0.2085, 0.9994, 0.2109, 0.9999]) {
        assert!((found - known).abs() < 2.5e-4, "{factors:?}");
    }
    let (all, shares) = cost_shares(&on_host);
    assert_eq!(all, 2_939_490_000);
    let charged: Vec<f64> = shares.iter().map(|s| s.0).collect();
    assert_eq!(charged, [46.9, 0.4, 9.9, 2.1, 0.0, 0.3, 40.0, 0.4]);
    let last: Vec<f64> = shares.iter().map(|s| s.1).collect();
    assert_eq!(last, [52.2, 0.0, 5.8, 0.5, 0.0, 0.0, 41.5, 0.0]);
}
