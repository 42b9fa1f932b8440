//! Events of the host, counted by what they tell about the recording.

use hashbrown::HashSet;
use hta_trace::category::Class;
use hta_trace::launch::{is_graph_launch, is_launch_call};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Events of the host by what they tell about the recording.
#[derive(Default)]
pub struct CountedEvents {
    pub launches: u64,
    /// Of these, those without an activity, beyond those whose kernel another call owns.
    pub lost: u64,
    /// Calls that launch one kernel and own several, and the kernels beyond one each.
    pub shared: u64,
    pub surplus: u64,
    pub captured: u64,
    pub frames: u64,
    pub operators: u64,
    pub data_parallel: u64,
    pub gloo: u64,
    /// Whether one is a call of a device runtime, a row of a device, or communication that needs a device.
    pub names_device: bool,
}

impl CountedEvents {
    pub fn of(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let linked: HashSet<u32> = trace.launches().iter().map(|(row, _)| row).collect();
        let is_launch = c.strings.each(is_launch_call);
        let rows_named = |is_one: &dyn Fn(&str) -> bool| {
            // By name, so that each name is compared once.
            let ids: HashSet<StrId> =
                c.strings.iter().filter(|(_, text)| is_one(text)).map(|(id, _)| id).collect();
            match ids.is_empty() {
                true => 0,
                false => (0..c.len()).filter(|row| ids.contains(&c.name(*row))).count() as u64,
            }
        };
        let mut counted = Self {
            data_parallel: rows_named(&|text| text == "DataParallel.forward"),
            gloo: rows_named(&|text| text.starts_with("gloo:")),
            names_device: c
                .strings
                .iter()
                .any(|(_, t)| t.starts_with("nccl:") || t.contains("ProcessGroupNCCL")),
            ..Self::default()
        };
        for (row, class) in trace.classes.iter().enumerate() {
            counted.names_device |= is_of_device(*class);
            match class {
                Class::Runtime if is_launch.holds(c.name(row)) => {
                    if trace.stream_captures.hold(c, row as u32) {
                        counted.captured += 1;
                        continue;
                    }
                    counted.launches += 1;
                    counted.lost += u64::from(!linked.contains(&(row as u32)));
                }
                Class::Python => counted.frames += 1,
                Class::HostOp => counted.operators += 1,
                _ => {}
            }
        }
        if counted.lost > 0 {
            counted.find_shared(trace);
        }
        counted
    }

    /// Calls that own the kernels of others. As many launches as kernels of others are not lost.
    fn find_shared(&mut self, trace: &RankTrace) {
        let is_plain = |name: &str| is_launch_call(name) && !is_graph_launch(name) && !name.contains("Multi");
        let is_plain = trace.columns.strings.each(is_plain);
        let is_kernel =
            |i: &&u32| trace.activities.get(**i as usize).is_some_and(|a| a.class == Class::Kernel);
        for (call, of_call) in trace.launches().iter() {
            let kernels = of_call.iter().filter(is_kernel).count() as u64;
            if kernels > 1 && is_plain.holds(trace.columns.name(call as usize)) {
                self.shared += 1;
                self.surplus += kernels - 1;
            }
        }
        // A few more kernels than launches are no sign of wrong links.
        if self.surplus * 2 < self.lost {
            (self.shared, self.surplus) = (0, 0);
        }
        self.surplus = self.surplus.min(self.lost);
        self.lost -= self.surplus;
    }
}

/// Whether events of a class are of a device, or calls of its runtime.
fn is_of_device(class: Class) -> bool {
    let is_beside_work = matches!(class, Class::GpuAnnotation | Class::Sync | Class::CudaEvent);
    class == Class::Runtime || class.is_gpu() || is_beside_work
}
