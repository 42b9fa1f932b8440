//! What a rank leaves of the clocks of its devices.

use hta_base::table;
use hta_base::table::schema::Text;

table! {
    /// The clock of a device while it works, how it falls, and what is seen beside that. Clocks in Hz, power
    /// in uW, temperatures in millionths of a degree.
    pub(crate) struct DeviceClocks, DeviceClockRow = "device_clocks" by "rank, device" {
        rank; device;
        model: Option<Text>, "", "name of the device";
        is_nameless: bool, "", "the file is torch's own .pftrace, which names no device";
        memory_clock: Option<i64>, "", "median clock of the memory while the device works";
        top_power: Option<i64>, "", "what 99 % of the busy time do not exceed";
        top_temperature: Option<i64>, "", "the highest";
        busy_ns: i64, "ns", "time in which the device works";
        low_ns: i64, "ns", "of that with a low clock; 0: it does not fall";
        is_steady: bool, "", "it is the steady fall, which may be small";
        since_ns: Option<i64>, "ns", "from the start of the capture until the clock falls";
        high_clock: Option<i64>, "", "median of the clocks that are not low";
        low_clock: Option<i64>, "", "median of the low clocks";
        kernels: Text, "", "follow, differ or unknown: whether kernels take longer by that";
        kernel: Text, "", "the one with the most time that does";
        kernel_high_ns: i64, "ns", "its median length at the clocks that are not low";
        kernel_low_ns: i64, "ns", "its median length at the low clocks";
        power_ns: i64, "ns", "low time with a known power";
        plateau_ns: i64, "ns", "of that at 97 % of the highest and more";
        temperature_ns: i64, "ns", "low time with a known temperature";
        hot_ns: i64, "ns", "of that within 2 C of the highest";
        low_temperature: Option<i64>, "", "median temperature in low time";
        high_temperature: Option<i64>, "", "median temperature in the rest";
    }
}

table! {
    /// The same by step, and its energy.
    pub(crate) struct StepClocks, StepClockRow = "step_clocks" by "rank, device, scope, step" {
        rank; device; scope; step; step_label;
        busy_ns: i64, "ns", "time in which the device works";
        low_ns: i64, "ns", "of that with a low clock";
        saved_ns: i64, "ns",
            "what kernels that the clock bounds would take less at the highest clock, at most";
        clock: Option<i64>, "", "median clock; null if it is known for less than half of the busy time";
        power: Option<i64>, "", "median power";
        temperature: Option<i64>, "", "median temperature";
        power_ns: i64, "ns", "time with a known power";
        plateau_ns: i64, "ns", "of that at 97 % of the highest and more";
        temperature_ns: i64, "ns", "time with a known temperature";
        hot_ns: i64, "ns", "of that within 2 C of the highest";
        energy_pj: Option<i64>, "pJ", "energy of a whole step; null if it is cut, or not known";
    }
}
