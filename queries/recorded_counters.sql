-- Recorded counters of devices
--
-- Answers: what do the hardware's own counters say of each device, beside what is computed from kernels?
-- Read: SM active far below the SM efficiency that grids promise means that blocks end unevenly, or wait for launches.
--   HBM near its peak means that faster arithmetic does not help. A sample holds all that ran in its time.
-- Columns:
--   rank: rank
--   device: device index
--   sampled_every_ns: period of the samples
--   sm_active_pct: mean share of the SMs that have work, first activity to last
--   sm_efficiency_pct: computed over the same time from blocks per SM
--   sm_active_busy_pct: mean share of the SMs that have work while an activity runs
--   hbm_busy_pct: use of the memory's bandwidth while an activity runs, of its peak
--   sm_clock_mhz: clock of the SMs while an activity runs
--   power_w: mean power
--   temperature_max_c: highest temperature
--   step_energy_j: median energy of a step
-- Tables: hardware_by_rank
SELECT
    rank,
    device,
    sampled_every_ns,
    sm_active_pct,
    sm_efficiency_pct,
    sm_active_busy_pct,
    hbm_busy_pct,
    sm_clock_mhz,
    power_w,
    temperature_max_c,
    step_energy_j
FROM hardware_by_rank
ORDER BY sm_active_pct NULLS LAST, rank, device;
