//! What a kernel of a library does in an exchange between ranks (`hta explain rules`).

use crate::collective::kind::CollectiveKind;

macro_rules! roles {
    ($($(#[doc = $doc:literal])* $id:ident $name:literal $kind:expr;)+) => {
        /// The part of a kernel in an exchange between ranks, as a rule names it. Of two that match the first
        /// decides.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum KernelRole { $($(#[doc = $doc])* $id),+ }

        impl KernelRole {
            pub const ALL: &'static [KernelRole] = &[$(KernelRole::$id),+];

            /// As in the tables and in the file of rules.
            pub fn name(self) -> &'static str {
                match self { $(KernelRole::$id => $name),+ }
            }

            /// The kind of collective that follows from it; `None` where it is no exchange of its own.
            pub fn kind(self) -> Option<CollectiveKind> {
                match self { $(KernelRole::$id => $kind),+ }
            }
        }
    };
}

use CollectiveKind as Kind;

roles! {
    /// Exchanges sizes or flags only, or only waits for another rank.
    Barrier "barrier" Some(Kind::Barrier);
    SendRecv "send_recv" Some(Kind::SendRecv);
    Send "send" Some(Kind::Send);
    Recv "recv" Some(Kind::Recv);
    AllGather "all_gather" Some(Kind::AllGather);
    ReduceScatter "reduce_scatter" Some(Kind::ReduceScatter);
    Broadcast "broadcast" Some(Kind::Broadcast);
    /// Tokens go to the ranks of their experts.
    Dispatch "dispatch" Some(Kind::AllToAll);
    /// Results of experts come back.
    Combine "combine" Some(Kind::AllToAll);
    AllToAll "all_to_all" Some(Kind::AllToAll);
    AllReduce "all_reduce" Some(Kind::AllReduce);
    Reduce "reduce" Some(Kind::Reduce);
    /// Writes to the memory of one other rank.
    Put "put" Some(Kind::Unknown);
    /// Reads the memory of one other rank.
    Get "get" Some(Kind::Unknown);
    /// Fused kernels, exchange and product in one.
    DispatchGemmCombine "dispatch+gemm+combine" None;
    DispatchGemm "dispatch+gemm" None;
    GemmCombine "gemm+combine" None;
    GemmReduceScatter "gemm+reduce_scatter" None;
    GemmAllReduce "gemm+all_reduce" None;
    GemmAllToAll "gemm+all_to_all" None;
    GemmAllGather "gemm+all_gather" None;
    AttentionAllGather "attention+all_gather" None;
    /// A local step before an exchange: counts, layouts, staging.
    Prepare "prepare" None;
    /// A local step behind one: permutes, sums of what was received.
    Finish "finish" None;
    /// Parameters or gradients go into the buffer of a collective.
    CopyIn "copy_in" None;
    /// They come out of it.
    CopyOut "copy_out" None;
    /// Keys and values go to other buffers of the rank.
    KvCopy "kv_copy" None;
}

impl KernelRole {
    pub fn named(name: &str) -> Option<KernelRole> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }

    /// Whether the kernel exchanges and multiplies.
    pub fn is_fused(self) -> bool {
        self.name().contains('+')
    }
}
