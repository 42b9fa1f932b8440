//! Metadata of a trace file: rank, job, host, devices, time base.

use hashbrown::HashMap;
use hta_base::stored_name;
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// How a file writes its times (trace-format, "three eras").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TimeEra {
    /// Whole microseconds since the Unix epoch (torch up to 2.2).
    EpochInteger,
    /// Decimal microseconds since the Unix epoch (torch 2.3).
    EpochDecimal,
    /// Decimal microseconds after `baseTimeNanoseconds` (torch since 2.4).
    Based,
    /// No base, and times too small to be since the epoch: the origin is unknown.
    #[default]
    Unknown,
}

stored_name!(TimeEra, [TimeEra::EpochInteger, TimeEra::EpochDecimal, TimeEra::Based, TimeEra::Unknown], name);

impl TimeEra {
    pub fn name(self) -> &'static str {
        match self {
            TimeEra::EpochInteger => "epoch_integer_us",
            TimeEra::EpochDecimal => "epoch_decimal_us",
            TimeEra::Based => "base_time",
            TimeEra::Unknown => "unknown_origin",
        }
    }
}

/// The program that recorded a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Recorder {
    /// torch.profiler and other users of Kineto, and what writes its format.
    #[default]
    Kineto,
    /// The CUDA recorder of torch.profiler since 2.14, which writes Chrome JSON or Perfetto protobuf.
    Cuspy,
    /// Chrome JSON of torch.profiler that another program has converted to Perfetto protobuf.
    Converted,
    /// Nsight Systems.
    Nsys,
    /// nvprof and the Visual Profiler.
    Nvprof,
    /// The caching allocator and the memory timeline of torch.profiler, which record no events.
    MemoryDump,
}

impl Recorder {
    pub const ALL: [Recorder; 6] = [
        Recorder::Kineto,
        Recorder::Cuspy,
        Recorder::Converted,
        Recorder::Nsys,
        Recorder::Nvprof,
        Recorder::MemoryDump,
    ];

    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Recorder::Kineto => "Kineto",
            Recorder::Cuspy => "Cuspy",
            Recorder::Converted => "a Perfetto converter",
            Recorder::Nsys => "Nsight Systems",
            Recorder::Nvprof => "nvprof",
            Recorder::MemoryDump => "memory dump",
        }
    }

    /// Name in the table `ranks`.
    pub fn key(self) -> &'static str {
        match self {
            Recorder::Kineto => "kineto",
            Recorder::Cuspy => "cuspy",
            Recorder::Converted => "converted",
            Recorder::Nsys => "nsys",
            Recorder::Nvprof => "nvprof",
            Recorder::MemoryDump => "memory_dump",
        }
    }

    /// The recorder that stands for those whose files can be ranks of one job and name the same things alike:
    /// Kineto and Cuspy are two recorders of one profiler.
    pub fn family(self) -> Recorder {
        if self == Recorder::Cuspy { Recorder::Kineto } else { self }
    }
}

/// One entry of `deviceProperties`: a device that the host can see, whether or not the rank uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Device {
    pub id: i64,
    pub name: String,
    pub memory_bytes: Option<u64>,
    /// Number of streaming multiprocessors (compute units).
    pub sm_count: Option<u32>,
    /// Compute capability, e.g. 9.0.
    pub compute_capability: Option<String>,
    /// Threads of a warp (wavefront).
    pub warp_size: Option<u32>,
    pub max_threads_per_sm: Option<u32>,
    pub registers_per_sm: Option<u32>,
    /// Shared memory of a multiprocessor, bytes.
    pub shared_memory_per_sm: Option<u32>,
}

/// Which of the recorded devices has a number.
pub(crate) struct DeviceNumbers {
    places: HashMap<i64, usize>,
    /// Whether all are of one product.
    are_alike: bool,
}

impl DeviceNumbers {
    pub(crate) fn new(devices: &[Device]) -> Self {
        // Of several devices with one number the first counts.
        let places = devices.iter().enumerate().rev().map(|(place, d)| (d.id, place)).collect();
        let are_alike = devices.windows(2).all(|w| matches!(w, [a, b] if a.product() == b.product()));
        Self { places, are_alike: are_alike && !devices.is_empty() }
    }

    /// The place of the device with a number, or of any one where all are of one product.
    pub(crate) fn place(&self, device: Option<i64>) -> Option<usize> {
        let numbered = device.and_then(|id| self.places.get(&id));
        numbered.copied().or_else(|| self.are_alike.then_some(0))
    }
}

impl Device {
    fn product(&self) -> (&str, Option<u64>, Option<u32>) {
        (&self.name, self.memory_bytes, self.sm_count)
    }

    /// The name of a product that can be identified by its properties, if the file has no name (as with ROCm
    /// in containers).
    fn known_name(&self) -> Option<&'static str> {
        let units = self.sm_count?;
        let gigabytes = self.memory_bytes? / 1_000_000_000;
        match (self.compute_capability.as_deref()?, units, gigabytes) {
            ("9.4", 304, 195..=215) => Some("AMD Instinct MI300X"),
            _ => None,
        }
    }

    /// The name, or else other known properties of the device.
    pub fn display_name(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        if let Some(name) = self.known_name() {
            return name.to_string();
        }
        let memory = self.memory_bytes.map(hta_base::units::fmt_bytes);
        let sms = self.sm_count.map(|n| format!("{n} SMs"));
        let cc = self.compute_capability.as_ref().map(|c| format!("capability {c}"));
        let parts: Vec<String> = [memory, sms, cc].into_iter().flatten().collect();
        if parts.is_empty() {
            "unnamed device".to_string()
        } else {
            format!("unnamed device ({})", parts.join(", "))
        }
    }
}

/// Largest plausible number of ranks of a process group or job; a larger one counts as damage and is read as
/// unknown.
pub const LARGEST_GROUP: u32 = 1_000_000;

/// One entry of `distributedInfo.pg_config`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessGroup {
    pub name: String,
    pub desc: String,
    pub size: Option<u32>,
    /// Members, if the file lists them.
    pub ranks: Vec<u32>,
}

/// The place of a rank in a job of several programs, such as a trainer and its rollout engines. Each program
/// numbers its ranks from 0; in the job those of one program follow those of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRole {
    /// actor, rollout ...
    pub name: String,
    /// Which of several programs of this role.
    pub replica: Option<u32>,
    /// The rank inside its program, as the file tells it.
    pub rank: u32,
    /// The number in the job of the program's rank 0.
    pub first: u32,
    /// Ranks of the program.
    pub size: u32,
}

impl ProcessRole {
    /// The number in the job of a rank of the program; `None` if it has no such rank.
    pub fn in_job(&self, rank: u32) -> Option<u32> {
        if rank < self.size { self.first.checked_add(rank) } else { None }
    }

    /// How the process is named in words, as what goes before a number, and the number: `actor` and its rank;
    /// of several programs `rollout` and the number of one that has one rank, else `rollout 1 rank` and the
    /// rank.
    pub fn label(&self) -> (String, u32) {
        match self.replica {
            None => (self.name.clone(), self.rank),
            Some(replica) if self.size == 1 => (self.name.clone(), replica),
            Some(_) => (format!("{} rank", self.program()), self.rank),
        }
    }

    /// How its program is named: `actor`, and of several `rollout 1`.
    pub fn program(&self) -> String {
        self.replica.map_or_else(|| self.name.clone(), |replica| format!("{} {replica}", self.name))
    }

    /// Whether a rank of the job is one of the program.
    pub fn holds(&self, job_rank: u32) -> bool {
        job_rank.checked_sub(self.first).is_some_and(|rank| rank < self.size)
    }
}

/// Everything in a file except its events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta {
    pub recorder: Recorder,
    pub schema_version: Option<i64>,
    /// `distributedInfo.rank`.
    pub rank: Option<u32>,
    pub world_size: Option<u32>,
    pub backend: Option<String>,
    pub host_name: Option<String>,
    pub devices: Vec<Device>,
    pub groups: Vec<ProcessGroup>,
    /// `baseTimeNanoseconds`, added to every time, ns.
    pub base_ns: Option<Ns>,
    pub trace_id: Option<String>,
    /// File name of `traceName`, without folders.
    pub trace_name: Option<String>,
    /// All other top-level keys, as JSON text.
    pub other: BTreeMap<String, String>,
    pub era: TimeEra,
    /// Of a job of several programs: which one wrote the file.
    pub role: Option<ProcessRole>,
}

impl Meta {
    /// The number in the job of a rank that the file names; `None` if its program has no such rank.
    pub fn in_job(&self, rank: u32) -> Option<u32> {
        self.role.as_ref().map_or(Some(rank), |role| role.in_job(rank))
    }

    /// Sets the place in a job of `world` ranks, and gives the members of groups their numbers there. A group
    /// with a member that the program does not have joins it with others: its list counts otherwise, and is
    /// left out.
    pub fn place(&mut self, role: ProcessRole, world: u32) {
        for group in &mut self.groups {
            let members: Option<Vec<u32>> = group.ranks.iter().map(|rank| role.in_job(*rank)).collect();
            group.ranks = members.unwrap_or_default();
        }
        self.world_size = Some(world);
        self.role = Some(role);
    }

    /// The numbers in the job of the ranks of the program; `None` if its size is unknown.
    pub(crate) fn program(&self) -> Option<(u32, u32)> {
        match &self.role {
            Some(role) => Some((role.first, role.size)),
            None => Some((0, self.world_size?)),
        }
    }
}

/// Where a rank's number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankSource {
    /// `distributedInfo.rank` in the file.
    File,
    /// The file's name.
    Name,
    /// The position among the files.
    Position,
    /// The position among the processes of a server, which are no ranks of one job.
    Process,
}

stored_name!(
    RankSource,
    [RankSource::File, RankSource::Name, RankSource::Position, RankSource::Process],
    name
);

impl RankSource {
    pub fn name(self) -> &'static str {
        match self {
            RankSource::File => "file",
            RankSource::Name => "name",
            RankSource::Position => "position",
            RankSource::Process => "process",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_name_has_that_of_the_only_product_it_can_be() {
        let device = |sm_count, memory| Device {
            memory_bytes: Some(memory),
            sm_count: Some(sm_count),
            compute_capability: Some("9.4".to_string()),
            ..Device::default()
        };
        assert_eq!(device(304, 206_141_652_992).display_name(), "AMD Instinct MI300X");
        let other = device(228, 137_000_000_000).display_name();
        assert!(
            other.starts_with("unnamed device (") && other.ends_with("228 SMs, capability 9.4)"),
            "{other}"
        );
    }
}
