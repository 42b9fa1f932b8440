//! The second half of a step: the backward pass on the autograd thread, and the all-reduces of its gradients.

use std::ops::Range;

use hta_testkit::{Call, SyncKind, us};

use crate::Collective;
use crate::forward::forward_number;
use crate::job::{self, COMPUTE_STREAM, KERNEL_GAP_NS, NCCL_STREAM};
use crate::rank::{Class, Planted, Rank};
use crate::work;

impl Rank {
    /// Layers in reverse order on the autograd thread; a bucket is reduced as soon as its gradients are submitted.
    pub fn backward(&mut self, step: u64, start: i64) -> (i64, Vec<i64>, Vec<Option<u64>>) {
        let (main, autograd) = (self.main, self.autograd);
        let mut at = start + us(30);
        let (mut ready, mut launches) = (Vec::new(), Vec::new());
        let mut gap = KERNEL_GAP_NS;
        for layer in (0..job::LAYERS).rev() {
            let number = forward_number(step, layer);
            let node = self.node("GeluBackward0", at..at + us(16), number + 1);
            self.op(
                autograd,
                "aten::gelu_backward",
                node + us(2)..node + us(11),
                work::ACTIVATION_GRADIENT,
                None,
            );
            self.compute(autograd, node + us(5), &work::GELU_BACKWARD, gap, job::GELU_BACKWARD_NS);
            gap = 0;
            at += us(18);

            let node = self.node("AddmmBackward0", at..at + us(38), number);
            self.op(autograd, "aten::mm", node + us(2)..node + us(16), work::INPUT_GRADIENT, None);
            self.compute(autograd, node + us(7), &work::GEMM_INPUT_GRADIENT, 0, job::INPUT_GRADIENT_NS);
            self.op(autograd, "aten::mm", node + us(17)..node + us(31), work::WEIGHT_GRADIENT, None);
            self.compute(autograd, node + us(22), &work::GEMM_WEIGHT_GRADIENT, 0, job::WEIGHT_GRADIENT_NS);
            at += us(40);

            if let Some(bucket) = job::BUCKETS.iter().position(|b| b.after_layer == layer) {
                launches.push(self.submit_all_reduce(step, bucket, at));
                ready.push(self.compute_end);
                at += us(62);
            }
        }
        let mut thread = self.trace.thread(autograd);
        let record = thread.call(Call::EventRecord, at..at + us(1)).correlation();
        thread
            .call(Call::StreamWait, at + us(2)..at + us(3))
            .sync_row(SyncKind::StreamWaitEvent, COMPUTE_STREAM, at + us(3)..at + us(4))
            .waits_on(NCCL_STREAM, 31, record);
        let end = at + us(12);
        self.trace
            .thread(main)
            .frame("torch/_tensor.py(592): backward", start..end)
            .called_from("train.py:44");
        (end, ready, launches)
    }

    fn submit_all_reduce(&mut self, step: u64, bucket: usize, at: i64) -> Option<u64> {
        let collective = job::collective(step, bucket);
        let mut thread = self.trace.thread(self.autograd);
        thread.submission(&collective, at..at + us(60));
        thread.param_comms(&collective, at + us(8)..at + us(56));
        let record = thread.call(Call::EventRecord, at + us(14)..at + us(16)).correlation();
        thread
            .call(Call::StreamWait, at + us(18)..at + us(20))
            .sync_row(SyncKind::StreamWaitEvent, NCCL_STREAM, at + us(20)..at + us(21))
            .waits_on(COMPUTE_STREAM, 30 - bucket as i64, record);
        thread.annotation(&collective.annotation("nccl"), at + us(24)..at + us(52));
        let wobble = job::jitter_ns(&mut self.jitter);
        thread.call(Call::LaunchExtended, at + us(32)..at + us(40) + wobble).correlation()
    }

    pub fn all_reduce(&mut self, joined: &Collective, launch: u64) {
        let collective = job::collective(joined.step, joined.bucket);
        let start = joined.arrivals.get(self.number as usize).copied().unwrap_or(joined.end);
        let span = start..joined.end;
        let row = self.trace.linked(launch);
        assert!(
            row.span().is_some_and(|call| call.end < start),
            "an all-reduce cannot start before its launch"
        );
        row.kernel(&collective.kernel_name(), NCCL_STREAM, span.clone())
            .grid([24, 1, 1])
            .block([640, 1, 1])
            .arg("registers per thread", 96)
            .arg("shared memory", 82_240)
            .collective(&collective);
        let name = collective.annotation("nccl");
        self.trace.gpu_annotation(&name, NCCL_STREAM, span.start - 1..span.end + 1);
        self.planted.push(Planted { class: Class::Communication, span });
    }

    /// An autograd node in its wrapper, with the flow from its forward operator. Returns the node's start.
    fn node(&mut self, name: &str, span: Range<i64>, number: u64) -> i64 {
        let (main, autograd) = (self.main, self.autograd);
        let node = span.start + us(2)..span.end - us(1);
        let mut thread = self.trace.thread(autograd);
        let wrapper = format!("autograd::engine::evaluate_function: {name}");
        thread.op(&wrapper, span).sequence(number, 1);
        thread.op(name, node.clone()).sequence(number, 1);
        if let Some(&(_, forward)) = self.forward_starts.iter().find(|(n, _)| *n == number) {
            self.trace.forward_backward(number, (main, forward), (autograd, node.start));
        }
        node.start
    }
}
