//! The account of a window: for how long each set of classes of work ran on a device in it. Made once for
//! all windows of a rank, and read by all who report by window.

use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use hta_trace::timeline::TimePerSet;
use hta_trace::window::{Scope, Window};
use std::ops::Deref;
use std::sync::Arc;

/// A window of a device, and what the device did in it.
pub struct WindowAccount {
    window: Window,
    pub shares: TimePerSet,
}

impl WindowAccount {
    pub fn new(work: &DeviceWork, window: Window) -> Self {
        Self { shares: work.timeline.shares_in_all(window.parts()), window }
    }

    /// Time in which nothing runs, ns.
    pub fn idle(&self) -> Ns {
        self.len() - self.shares.busy()
    }
}

impl Deref for WindowAccount {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.window
    }
}

/// The accounts of all windows of a rank, by device.
pub struct WindowAccounts(Vec<Vec<WindowAccount>>);

impl WindowAccounts {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let of = |work| {
            trace.windows_of(work, |_| true).into_iter().map(|w| WindowAccount::new(work, w)).collect()
        };
        Self(trace.devices.iter().map(of).collect())
    }

    /// The devices of the rank with the accounts of the windows for which analyses report.
    pub fn by_device<'a>(
        &'a self,
        trace: &'a RankTrace,
        options: &'a ModelOptions,
    ) -> impl Iterator<Item = (&'a DeviceWork, Vec<&'a WindowAccount>)> {
        let steps = &trace.steps.steps;
        // Of a selection of steps, the time outside them is not the remaining time.
        let every = steps.iter().all(|s| options.selects(s));
        let step = move |w: &WindowAccount| w.step.and_then(|i| steps.get(i as usize));
        let is_chosen = move |w: &&WindowAccount| match w.scope {
            Scope::Outside => every,
            _ => step(w).is_none_or(|s| options.selects(s)),
        };
        trace.devices.iter().zip(&self.0).map(move |(work, of)| (work, of.iter().filter(is_chosen).collect()))
    }
}

/// What a device did, by the step in which it was launched.
pub struct ByLaunchStep<T> {
    all: Vec<T>,
    of_step: HashMap<Option<u32>, Vec<T>>,
}

impl<T: Copy> ByLaunchStep<T> {
    pub fn new(launched: impl Iterator<Item = (Option<u32>, T)>) -> Self {
        let mut by = Self { all: Vec::new(), of_step: HashMap::new() };
        for (step, of) in launched {
            by.all.push(of);
            by.of_step.entry(step).or_default().push(of);
        }
        by
    }

    /// What was launched in a step or outside all steps; of another window everything.
    pub fn of(&self, window: &Window) -> &[T] {
        match window.scope {
            Scope::Step | Scope::Outside => self.of_step.get(&window.step).map_or(&[], Vec::as_slice),
            Scope::Span | Scope::Capture | Scope::DeviceStep => &self.all,
        }
    }
}
