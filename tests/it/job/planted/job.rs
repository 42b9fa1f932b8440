//! Description of a job: groups, and the actions of each rank in each step. Times in ns.

use hta_testkit::us;

/// A process group, by members in ascending order.
#[derive(Clone, Debug)]
pub struct Group {
    pub name: &'static str,
    pub description: &'static str,
    pub ranks: Vec<u32>,
}

impl Group {
    pub fn new(name: &'static str, description: &'static str, ranks: impl IntoIterator<Item = u32>) -> Self {
        Group { name, description, ranks: ranks.into_iter().collect() }
    }

    /// The default group of all ranks.
    pub fn world(size: u32) -> Self {
        Group::new("0", "default_pg", 0..size)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Barrier,
    Broadcast,
    Reduce,
    Send,
    Receive,
}

impl Kind {
    /// As hta's tables write it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::AllReduce => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllToAll => "all_to_all",
            Kind::Barrier => "barrier",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::Send => "send",
            Kind::Receive => "recv",
        }
    }
}

/// A collective of one of the job's groups.
#[derive(Clone, Copy, Debug)]
pub struct Join {
    /// Index into the job's groups.
    pub group: usize,
    pub kind: Kind,
    /// What one member contributes (all-gather) or keeps (reduce-scatter), else the buffer.
    pub elements: u64,
    pub transfer: i64,
    /// Root of a broadcast or reduce; default: the lowest member.
    pub root: Option<u32>,
}

impl Join {
    pub fn new(group: usize, kind: Kind, elements: u64, transfer: i64) -> Self {
        Join { group, kind, elements, transfer, root: None }
    }

    pub fn root(self, rank: u32) -> Self {
        Join { root: Some(rank), ..self }
    }
}

/// One action of a rank.
#[derive(Clone, Debug)]
pub enum Action {
    Kernel {
        name: &'static str,
        dur: i64,
    },
    /// The host waits for the device, then fetches data while the device idles.
    Loader(i64),
    /// The host waits for the device, then runs this Python frame.
    Frame(&'static str, i64),
    /// The device joins a collective; what follows waits for its end.
    Join(Join),
    /// The same, but the device continues to compute; the collectives of a group are still executed one after the other.
    Async(Join),
    /// The device waits for the end of the started collectives.
    Wait,
    /// A message in the group with this index. An eager send ends when the bytes are sent.
    Send {
        group: usize,
        to: u32,
        elements: u64,
        transfer: i64,
        is_eager: bool,
    },
    Receive {
        group: usize,
        from: u32,
        elements: u64,
        transfer: i64,
    },
}

pub fn kernel(name: &'static str, dur: i64) -> Action {
    Action::Kernel { name, dur }
}

/// An all-reduce of floats.
pub fn all_reduce(group: usize, elements: u64, transfer: i64) -> Action {
    Action::Join(Join::new(group, Kind::AllReduce, elements, transfer))
}

pub type Program<'a> = &'a dyn Fn(u32, u64) -> Vec<Action>;

/// A job: `program(rank, step)` is what a rank does in a step.
pub struct Job<'a> {
    pub world: u32,
    pub groups: Vec<Group>,
    /// Number of the first step, and how many there are.
    pub first_step: u64,
    pub steps: u64,
    pub program: Program<'a>,
    /// Ends of one collective differ between members by up to this much.
    pub end_skew: i64,
}

impl<'a> Job<'a> {
    /// Steps from 10 on, all ranks in one group.
    pub fn new(world: u32, steps: u64, program: Program<'a>) -> Self {
        Job { world, groups: vec![Group::world(world)], first_step: 10, steps, program, end_skew: 0 }
    }

    /// More groups; the group of all ranks stays the first.
    pub fn groups(mut self, groups: impl IntoIterator<Item = Group>) -> Self {
        self.groups.extend(groups);
        self
    }

    pub fn end_skew(mut self, ns: i64) -> Self {
        self.end_skew = ns;
        self
    }
}

/// A pseudo-random number below `below` that depends only on `seed` (splitmix64).
pub fn draw(seed: &[u64], below: i64) -> i64 {
    let mut state = 0_u64;
    for s in seed {
        let mut mixed = (state ^ s).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state = mixed ^ (mixed >> 31);
    }
    (state >> 8) as i64 % below.max(1)
}

/// `ns` plus up to `percent`, depending on rank, step and place in the step.
pub fn about(ns: i64, percent: i64, rank: u32, step: u64, place: u64) -> i64 {
    ns + draw(&[u64::from(rank), step, place], (ns * percent / 100).max(1))
}

/// Half a dozen kernels of about 3 ms together, differing by 2 % from rank to rank and step to step.
pub fn forward(rank: u32, step: u64) -> Vec<Action> {
    let parts =
        [("embedding", 150), ("attention", 900), ("gemm", 700), ("norm", 90), ("gemm", 690), ("loss", 470)];
    let one = |(i, (name, dur)): (usize, (&'static str, i64))| {
        kernel(name, about(us(dur), 2, rank, step, i as u64))
    };
    parts.into_iter().enumerate().map(one).collect()
}
