//! What a recording can carry, and how far it does.

macro_rules! capabilities {
    ($($(#[doc = $doc:literal])+ $id:ident $name:literal;)+) => {
        /// What a sentence rests on. A recording carries it, carries only a bound, or does not carry it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Capability { $($(#[doc = $doc])+ $id),+ }

        impl Capability {
            pub const ALL: &'static [Capability] = &[$(Capability::$id),+];

            /// As in the tables.
            pub fn name(self) -> &'static str {
                match self { $(Capability::$id => $name),+ }
            }

            /// The capability with a name, as in the tables.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|c| c.name() == name)
            }

            /// What rests on it.
            pub fn text(self) -> &'static str {
                match self { $(Capability::$id => concat!($($doc),+)),+ }
            }
        }
    };
}

capabilities! {
    /// Busy time, compute and kernels of devices.
    DeviceTime "device_time";
    /// Idle time of devices and its causes.
    Idle "idle";
    /// What the host does: causes on the host, lines of code, pauses.
    Host "host";
    /// Delays between launch and start, queues, whether a device is bound by launches.
    Launch "launch";
    /// Means of steps, outliers, growth from step to step.
    Steps "steps";
    /// Comparison of ranks: late ranks, waiting, what if.
    Ranks "ranks";
    /// Bandwidth, and exposed transfer as a cause.
    Transfer "transfer";
    /// The share of communication that compute hides.
    Overlap "overlap";
    /// Layers of experts: tokens, hot ranks, waiting for exchanges.
    Experts "experts";
    /// Peaks, leaks and holders of memory.
    Memory "memory";
    /// FLOPs, their rate and its share of the peak.
    Work "work";
}

impl Capability {
    /// Those that times alone carry. Whether kernels exchange, and what, is told by their names.
    pub(crate) fn of_times() -> impl Iterator<Item = Capability> {
        Self::ALL.iter().copied().filter(|c| ![Capability::Overlap, Capability::Experts].contains(c))
    }
}

/// How far a recording carries a capability, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Grade {
    #[default]
    Ok,
    /// What is said is a bound.
    AtMost,
    /// Nothing is said.
    Withheld,
}

impl Grade {
    const ALL: [Grade; 3] = [Grade::Ok, Grade::AtMost, Grade::Withheld];

    /// The grade with a name, as in the tables.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grade| grade.name() == name)
    }

    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Ok => "sure",
            Grade::AtMost => "at most",
            Grade::Withheld => "withheld",
        }
    }
}
