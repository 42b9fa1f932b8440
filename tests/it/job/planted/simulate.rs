//! Simulates the ranks of a job: a host that launches ahead, a device that works in order, and collectives that end at
//! the last arrival plus the transfer.
//!
//! ```text
//! host      |launch|launch|submit....|          |sync.....................|
//! stream 7         |kernel..|kernel...|                     |kernel...|
//! stream 20                           |waiting....|transfer|
//! ```
//!
//! All times are true times of a common clock.

use super::job::{Action, Job, Join, Kind, draw};
use hta_testkit::us;
use std::collections::BTreeMap;
use std::ops::Range;

/// Identifies a collective or message: equal on all members, and unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub group: usize,
    /// Sender and receiver of a message.
    pub wire: Option<(u32, u32)>,
    /// Position among those of the group (and wire).
    pub nth: u64,
}

/// One rank's part in a collective.
#[derive(Clone, Debug)]
pub struct Call {
    pub rank: u32,
    pub key: Key,
    pub kind: Kind,
    pub elements: u64,
    pub root: Option<u32>,
    pub step: u64,
    pub submit: Range<i64>,
    pub run: Range<i64>,
}

/// What a rank did, in the order of the host.
#[derive(Clone, Debug)]
pub enum Row {
    Step { number: u64, span: Range<i64> },
    Sync(Range<i64>),
    Loader(Range<i64>),
    Frame(&'static str, Range<i64>),
    Kernel { name: &'static str, launch: Range<i64>, run: Range<i64> },
    Call(Call),
}

/// Everything that happened.
pub struct Simulated {
    /// By rank.
    pub rows: Vec<Vec<Row>>,
    pub world: u32,
    pub groups: Vec<super::job::Group>,
}

impl Simulated {
    /// Every call of every rank.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.rows.iter().flatten().filter_map(|row| if let Row::Call(call) = row { Some(call) } else { None })
    }

    /// End of the last call of any rank.
    pub fn end(&self) -> i64 {
        self.calls().map(|c| c.run.end).max().expect("a call")
    }

    /// Start of a rank's step.
    pub fn step_start(&self, rank: u32, step: u64) -> i64 {
        let find = |row: &Row| match row {
            Row::Step { number, span } if *number == step => Some(span.start),
            _ => None,
        };
        self.rows[rank as usize].iter().find_map(find).expect("the step was run")
    }

    /// Summed time and count of kernels of one name that start in a span of a rank.
    pub fn kernels(&self, rank: u32, name: &str, within: &Range<i64>) -> (i64, i64) {
        let of_name = self.rows[rank as usize].iter().filter_map(|row| match row {
            Row::Kernel { name: n, run, .. } if *n == name && within.contains(&run.start) => {
                Some(run.end - run.start)
            }
            _ => None,
        });
        of_name.fold((0, 0), |(sum, n), dur| (sum + dur, n + 1))
    }

    /// Start of the first thing that a rank did.
    pub fn first_start(&self, rank: u32) -> i64 {
        let start = |row: &Row| match row {
            Row::Step { .. } => None,
            Row::Sync(span) | Row::Loader(span) | Row::Frame(_, span) => Some(span.start),
            Row::Kernel { launch, .. } => Some(launch.start),
            Row::Call(call) => Some(call.submit.start),
        };
        self.rows[rank as usize].iter().filter_map(start).min().expect("it did something")
    }
}

enum Todo {
    Begin(u64),
    Do(u64, Action),
    End,
}

struct Rank {
    todo: std::vec::IntoIter<Todo>,
    host: i64,
    device: i64,
    rows: Vec<Row>,
    step: (u64, i64),
    launches: u64,
    counts: BTreeMap<(usize, Option<(u32, u32)>), u64>,
    /// End of the last collective of each group: a group has a stream of its own.
    joined: BTreeMap<usize, i64>,
    /// The current call, its transfer time, and whether the device waits for it.
    open: Option<(Call, i64, bool)>,
}

/// Runs the job to its end.
pub fn simulate(job: &Job) -> Simulated {
    let mut ranks: Vec<Rank> = (0..job.world).map(|rank| Rank::new(job, rank)).collect();
    // Arrivals by collective or message.
    let mut arrived: BTreeMap<Key, BTreeMap<u32, (Call, i64)>> = BTreeMap::new();
    loop {
        let mut moved = false;
        for rank in 0..job.world {
            while ranks[rank as usize].open.is_none() {
                if !ranks[rank as usize].advance(rank) {
                    break;
                }
                moved = true;
                if let Some((call, transfer, _)) = &ranks[rank as usize].open {
                    arrived.entry(call.key).or_default().insert(rank, (call.clone(), *transfer));
                }
            }
            let Some((call, ..)) = &ranks[rank as usize].open else { continue };
            if let Some(end) = end(job, call, &arrived[&call.key]) {
                ranks[rank as usize].leave(end);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    assert!(ranks.iter().all(|r| r.open.is_none() && r.todo.len() == 0), "the program never ends");
    Simulated {
        rows: ranks.into_iter().map(|r| r.rows).collect(),
        world: job.world,
        groups: job.groups.clone(),
    }
}

/// The end of a call, once everything that it depends on has arrived.
fn end(job: &Job, call: &Call, arrived: &BTreeMap<u32, (Call, i64)>) -> Option<i64> {
    let (own, transfer) = arrived.get(&call.rank)?;
    let at = |rank: u32| arrived.get(&rank).map(|(c, _)| c.run.start);
    let members = &job.groups[call.key.group].ranks;
    let root = call.root.unwrap_or(members[0]);
    let all = || members.iter().map(|r| at(*r)).collect::<Option<Vec<_>>>().and_then(|v| v.into_iter().max());
    let last = match (call.kind, call.key.wire) {
        // An eager send, marked by a root.
        (Kind::Send, Some(_)) if call.root.is_some() => own.run.start,
        (_, Some((from, to))) => at(from)?.max(if call.kind == Kind::Send { at(to)? } else { own.run.start }),
        (Kind::Broadcast, None) => at(root)?.max(own.run.start),
        (Kind::Reduce, None) if call.rank != root => own.run.start,
        _ => all()?,
    };
    let k = call.key;
    let skew = draw(&[77, k.group as u64, k.nth, u64::from(call.rank)], job.end_skew.max(1));
    Some(last + transfer + skew)
}

impl Rank {
    fn new(job: &Job, rank: u32) -> Self {
        let mut todo = Vec::new();
        for step in job.first_step..job.first_step + job.steps {
            todo.push(Todo::Begin(step));
            todo.extend((job.program)(rank, step).into_iter().map(|a| Todo::Do(step, a)));
            todo.push(Todo::End);
        }
        let host = us(50) + draw(&[5, u64::from(rank)], us(20));
        let (rows, counts) = (Vec::new(), BTreeMap::new());
        Rank {
            todo: todo.into_iter(),
            host,
            device: 0,
            rows,
            step: (0, 0),
            launches: 0,
            counts,
            joined: BTreeMap::new(),
            open: None,
        }
    }

    /// Performs one action; `false` at the end.
    fn advance(&mut self, rank: u32) -> bool {
        match self.todo.next() {
            None => return false,
            Some(Todo::Begin(number)) => {
                self.step = (number, self.host + us(2));
                self.host += us(4);
            }
            Some(Todo::End) => {
                self.sync();
                let (number, start) = self.step;
                self.rows.push(Row::Step { number, span: start..self.host + us(1) });
                self.host += us(3);
            }
            Some(Todo::Do(step, action)) => self.act(rank, step, action),
        }
        true
    }

    fn act(&mut self, rank: u32, step: u64, action: Action) {
        match action {
            Action::Kernel { name, dur } => {
                let start = self.device + 800;
                self.kernel(rank, name, start, dur);
            }
            Action::Loader(dur) => {
                self.sync();
                self.rows.push(Row::Loader(self.host..self.host + dur));
                self.host += dur + us(1);
            }
            Action::Frame(name, dur) => {
                self.sync();
                self.rows.push(Row::Frame(name, self.host..self.host + dur));
                self.host += dur + us(1);
            }
            Action::Join(join) => self.enter(rank, step, join, None, true),
            Action::Async(join) => self.enter(rank, step, join, None, false),
            Action::Wait => self.device = self.joined.values().copied().fold(self.device, i64::max),
            Action::Send { group, to, elements, transfer, is_eager } => {
                let root = is_eager.then_some(rank);
                let join = Join { group, kind: Kind::Send, elements, transfer, root };
                self.enter(rank, step, join, Some((rank, to)), true);
            }
            Action::Receive { group, from, elements, transfer } => {
                let join = Join { group, kind: Kind::Receive, elements, transfer, root: None };
                self.enter(rank, step, join, Some((from, rank)), true);
            }
        }
    }

    fn enter(&mut self, rank: u32, step: u64, j: Join, wire: Option<(u32, u32)>, blocks: bool) {
        let submit = self.host..self.host + us(14);
        self.host = submit.end + us(2) + draw(&[9, u64::from(rank), self.launches], 700);
        self.launches += 1;
        let on_stream = self.joined.get(&j.group).map_or(0, |end| end + 1_000);
        let start = (self.device + 1_200).max(on_stream).max(submit.end + us(3));
        let count = self.counts.entry((j.group, wire)).or_default();
        let key = Key { group: j.group, wire, nth: *count };
        *count += 1;
        let (kind, elements, root) = (j.kind, j.elements, j.root);
        let call = Call { rank, key, kind, elements, root, step, submit, run: start..start };
        self.open = Some((call, j.transfer, blocks));
    }

    fn leave(&mut self, end: i64) {
        let Some((mut call, _, blocks)) = self.open.take() else { return };
        call.run.end = end;
        self.joined.insert(call.key.group, end);
        if blocks {
            self.device = end;
        }
        self.rows.push(Row::Call(call));
    }

    fn kernel(&mut self, rank: u32, name: &'static str, at: i64, dur: i64) {
        let launch = self.host..self.host + us(3) + draw(&[8, u64::from(rank), self.launches], 900);
        self.launches += 1;
        self.host = launch.end + us(2);
        let start = at.max(launch.end + us(3));
        self.device = start + dur;
        self.rows.push(Row::Kernel { name, launch, run: start..start + dur });
    }

    fn sync(&mut self) {
        let span = self.host..self.device.max(self.host) + us(2);
        self.host = span.end + us(1);
        self.rows.push(Row::Sync(span));
    }
}
