//! Names of kernels, copies and sets as numbers that are equal for equal work.
//!
//! A capture and a replay spell one kernel differently: mangled or not, with or without spaces. Copies have
//! only their direction, which captures on CUDA do not say, and fills are sets whatever they are called.

use hashbrown::HashMap;
use hta_trace::graph_capture::NodeKind;
use hta_trace::kernel::demangled;

/// A node of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// The name as a number; `None` if it is not recorded.
    Kernel(Option<u32>),
    /// The direction as a number; `None` if it is not recorded.
    Copy(Option<u32>),
    Set,
}

impl Symbol {
    #[cfg(test)]
    pub(crate) fn kernel(name: u32) -> Self {
        Self::Kernel(Some(name))
    }

    /// Whether both can be one node: a copy of unknown direction is like any copy.
    pub(crate) fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Symbol::Copy(a), Symbol::Copy(b)) => a.is_none() || b.is_none() || a == b,
            (a, b) => a == b,
        }
    }

    /// The symbol without what only one side may know, so that nodes that are alike are equal.
    pub(crate) fn without_direction(self) -> Self {
        match self {
            Symbol::Copy(_) => Symbol::Copy(None),
            other => other,
        }
    }

    /// Kernel, copy or set.
    pub(crate) fn kind(self) -> u8 {
        match self {
            Symbol::Kernel(_) => 0,
            Symbol::Copy(_) => 1,
            Symbol::Set => 2,
        }
    }
}

/// Numbers for names.
#[derive(Default)]
pub(crate) struct Symbols(HashMap<String, u32>);

impl Symbols {
    /// The symbol of a node by its kind and name. `direction` reads the text of a copy's direction.
    pub fn of<'a, T>(
        &mut self,
        kind: NodeKind<T>,
        name: Option<&str>,
        direction: impl Fn(T) -> &'a str,
    ) -> Symbol {
        match kind {
            NodeKind::Set => Symbol::Set,
            NodeKind::Copy(to) => Symbol::Copy(to.map(|to| self.number(direction(to)))),
            NodeKind::Kernel => match name {
                Some(name) if name.starts_with("__amd_rocclr_fillBuffer") => Symbol::Set,
                Some(name) => Symbol::Kernel(Some(self.number(&spelled(name)))),
                None => Symbol::Kernel(None),
            },
        }
    }

    fn number(&mut self, text: &str) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry_ref(text).or_insert(next)
    }
}

/// A name in one spelling.
fn spelled(name: &str) -> String {
    let name = name.strip_suffix(".kd").unwrap_or(name);
    let name = name.strip_suffix(" [clone .kd]").unwrap_or(name);
    demangled(name).chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(symbols: &mut Symbols, kind: NodeKind<&'static str>, name: Option<&str>) -> Symbol {
        symbols.of(kind, name, |text| text)
    }

    #[test]
    fn one_kernel_has_one_symbol_however_it_is_spelled() {
        let mut s = Symbols::default();
        let mut kernel = |name: &str| symbol(&mut s, NodeKind::Kernel, Some(name));
        let mangled = kernel("_ZN2at6native4fillIfEEvPT_i");
        assert_eq!(kernel("void at::native::fill<float>(float*, int)"), mangled);
        assert_eq!(kernel("_ZN2at6native4fillIfEEvPT_i.kd"), mangled);
        assert_ne!(kernel("void at::native::fill<double>(double*, int)"), mangled);
        assert_eq!(kernel("__amd_rocclr_fillBufferAligned"), Symbol::Set);
    }

    #[test]
    fn copies_are_told_apart_by_direction_where_both_sides_know_it() {
        let mut s = Symbols::default();
        let mut copy = |to: Option<&'static str>| symbol(&mut s, NodeKind::Copy(to), None);
        let (up, down, unknown) = (copy(Some("HtoD")), copy(Some("DtoH")), copy(None));
        assert!(!up.is_like(down) && up.is_like(unknown) && unknown.is_like(down) && up.is_like(up));
        assert_eq!(up.without_direction(), down.without_direction());
        assert!(!up.is_like(Symbol::Set));
    }
}
