//! The tables of recorded hardware counters.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// Samples of hardware counters as recorded, each with the time for which it stands.
    pub struct HardwareCounters, HardwareCounterRow = "hardware_counters"
        by "rank, device, counter, ts_ns" {
        rank; device;
        kind: Text, "",
            "power, temperature, sm_clock, memory_clock, fan, sm_active, hbm, hbm_read, hbm_write, \
             nvlink_rx, nvlink_tx, pcie, cycles or other";
        counter: Text, "", "name as recorded";
        unit: Option<Text>, "", "W, C, MHz, %, per s or cycles; null: the file does not tell";
        source: Text, "",
            "environment (the value at ts_ns), pm_sampling (a mean over the time that starts at ts_ns) or \
             derived (computed by the recorder, not measured)";
        ts_ns: i64, "ns", "time of the sample";
        dur_ns: i64, "ns",
            "length of the time for which the value stands; 0 for derived values, and where there is only \
             one sample";
        value: f64, "", "value in the unit of the row";
    }
}

table! {
    /// Means of hardware counters over sets of time, weighted by time.
    pub struct HardwareCounterMeans, HardwareMeanRow = "hardware_counter_means"
        by "rank, device, counter, scope, name, step" {
        rank; device;
        kind: Text, "", "what is measured, as in hardware_counters";
        counter: Text, "", "name as recorded";
        unit: Option<Text>, "", "W, C, MHz, %, per s; null: the file does not tell";
        scope: Text, "",
            "busy (some activity runs), capture (all that is recorded, samples included), collective, \
             kernel_name, span (first start to last end of the device's activities) or step";
        name: Option<Text>, "", "kernel, or kind of the collective; null in the other scopes";
        step; step_label;
        mean: Option<f64>, "", "mean in the unit of the row; null: see reason";
        min: Option<f64>, "", "smallest sample that overlaps the time; null as the mean";
        max: Option<f64>, "", "largest sample that overlaps the time; null as the mean";
        period_ns: Option<i64>, "ns", "usual time from a sample to the next; null: there is only one";
        samples: u64, "", "samples that overlap the time";
        covered_ns: i64, "ns", "length of the time for which a sample stands";
        window_ns: i64, "ns", "length of the time";
        resolved: bool, "",
            "the time fills 80 % of its samples, or its shortest piece lasts for two periods: the samples \
             tell it from what else ran";
        reason: Option<Text>, "", "why there is no mean, or what it includes";
    }
}

table! {
    /// Energy of devices from samples of power.
    pub struct EnergyTable, EnergyRow = "energy" by "rank, device, scope, name, step" {
        rank; device;
        scope: Text, "",
            "busy (some activity runs), capture (all that is recorded, samples included), idle (capture \
             without busy), kernel_name, span (first start to last end of the device's activities) or step";
        name: Option<Text>, "", "activity; null in the other scopes";
        step; step_label; is_partial;
        pj: Option<Text>, "pJ", "energy as an integer; null: see reason";
        j: Option<f64>, "J", "the same in joules";
        covered_ns: i64, "ns", "length of the time for which a sample of power stands";
        window_ns: i64, "ns", "length of the time";
        tokens: Option<u64>, "",
            "tokens by which the iteration that is the step brings its requests on, as in iterations";
        shared: Option<Text>, "",
            "by share of time: the power of each instant is divided equally among the activities that run";
        reason: Option<Text>, "", "why there is no energy";
    }
}

table! {
    /// Recorded counters of each device beside what is computed from its kernels.
    pub struct HardwareByRank, HardwareByRankRow = "hardware_by_rank" by "rank, device" {
        rank; device;
        sampled_every_ns: Option<i64>, "ns", "period of PM sampling: SM active, HBM and links"
            => max(sampled_every_ns);
        power_every_ns: Option<i64>, "ns", "time between two samples of power";
        sm_active_pct: Option<f64>, "%",
            "mean share of the SMs that have work, first activity to last", "SM active"
            => mean(sm_active_pct);
        sm_efficiency_pct: Option<f64>, "%",
            "computed over the same time: mean of min(1, blocks per SM of the running kernels)",
            "SM eff."
            => mean(sm_efficiency_pct);
        sm_active_busy_pct: Option<f64>, "%",
            "mean share of the SMs that have work while an activity runs", "SM active, busy"
            => mean(sm_active_busy_pct);
        hbm_busy_pct: Option<f64>, "%",
            "mean use of the memory's bandwidth while an activity runs, of its peak", "HBM, busy"
            => mean(hbm_busy_pct);
        sm_clock_mhz: Option<f64>, "MHz",
            "mean clock of the SMs while an activity runs", "SM clock, MHz"
            => mean(sm_clock_mhz);
        power_w: Option<f64>, "W", "mean power over the capture", "power, W" => mean(power_w);
        temperature_max_c: Option<f64>, "C",
            "highest sample of the temperature in the capture", "highest temperature, C";
        energy_j: Option<f64>, "J", "energy of the capture", "energy, J";
        step_count: u64, "", "whole steps (not is_partial) with an energy";
        step_energy_j: Option<f64>, "J", "lower median of their energies; null: there is no such step",
            "energy / step, J" => mean(step_energy_j);
        token_energy_j: Option<f64>, "J",
            "energy of those of them whose tokens are known, divided by these tokens; where iterations name \
             them", "energy / token, J" => mean(token_energy_j);
    }
}
