//! The first half of a step: data loading, copies to the device, the forward pass.

use std::ops::Range;

use hta_testkit::{Call, SyncKind, us};

use crate::job::{self, COMPUTE_STREAM, COPY_STREAM, KERNEL_GAP_NS};
use crate::rank::{Class, Planted, Rank};
use crate::work;

impl Rank {
    /// Data loading, during which the GPU is idle.
    pub fn load(&mut self, step: u64, start: i64) -> Range<i64> {
        let loader = start + us(20)..start + us(20) + job::loader_ns(self.number, step);
        let (a, b) = (loader.start, loader.end);
        let mut thread = self.trace.thread(self.main);
        let next = "torch/utils/data/dataloader.py(733): __next__";
        thread.frame(next, a - us(5)..b + us(5)).called_from("train.py:64");
        thread.frame("<built-in method _record_function_enter_new>", a - us(2)..a + 500);
        thread.data_loader(loader.clone());
        thread.frame("torch/utils/data/dataloader.py(788): _next_data", a + us(4)..b - us(4));
        thread.frame("torch/utils/data/_utils/fetch.py(46): fetch", a + us(12)..b - us(10));
        thread
            .frame("dataset.py(27): __getitem__", a + us(15)..b - us(60))
            .called_from("torch/utils/data/_utils/fetch.py:52");
        thread.frame("dataset.py(41): decode_image", a + us(40)..b - us(90)).called_from("dataset.py:31");
        thread.frame("<built-in method _record_function_exit>", b - 500..b + us(2));
        loader
    }

    /// A blocking copy from pageable memory, and a copy from pinned memory on its own stream.
    pub fn copy_inputs(&mut self, at: i64) -> (i64, i64) {
        let copy = at + us(14)..at + us(14) + job::COPY_NS;
        let labels = copy.end + us(46)..copy.end + us(46) + job::LABELS_NS;
        let call = at + us(6)..copy.end + us(6);
        let mut thread = self.trace.thread(self.main);
        thread.op("aten::to", at..call.end + us(14)).inputs(work::IMAGES);
        thread.op("aten::_to_copy", at + us(1)..call.end + us(13)).inputs(work::IMAGES);
        thread.op("aten::copy_", at + us(4)..call.end + us(12)).inputs(work::IMAGES);
        thread.call(Call::Copy, call.clone()).memcpy(
            "HtoD (Pageable -> Device)",
            COMPUTE_STREAM,
            job::COPY_BYTES,
            copy.clone(),
        );
        let sync = call.end + us(2)..call.end + us(8);
        thread.call(Call::StreamSync, sync.clone()).sync_row(
            SyncKind::StreamSync,
            COMPUTE_STREAM,
            sync.start + 500..sync.end - 500,
        );
        let second = call.end + us(24);
        thread.op("aten::to", second..second + us(22)).inputs(work::LABELS);
        thread.op("aten::copy_", second + us(3)..second + us(20)).inputs(work::LABELS);
        thread.call(Call::Copy, second + us(8)..second + us(13)).memcpy(
            "HtoD (Pinned -> Device)",
            COPY_STREAM,
            job::LABELS_BYTES,
            labels.clone(),
        );
        self.compute_end = copy.end;
        let start = copy.start;
        self.planted.push(Planted { class: Class::Memory, span: copy });
        self.planted.push(Planted { class: Class::Memory, span: labels });
        (start, second + us(22))
    }

    pub fn forward(&mut self, step: u64, start: i64) -> i64 {
        let main = self.main;
        let mut at = start + us(8);
        let mut layers = Vec::new();
        for layer in 0..job::LAYERS {
            let slow = layer == 0;
            let (gemm, dur) = match slow {
                true => (&work::SLOW_GEMM, job::slow_kernel_ns(self.number)),
                false => (&work::GEMM, job::GEMM_NS),
            };
            let number = forward_number(step, layer);
            let linear = at + us(4)..at + us(18);
            let mut thread = self.trace.thread(main);
            thread.op("aten::linear", linear.clone()).inputs(work::LINEAR);
            let addmm = linear.start + us(2)..linear.end - us(1);
            self.op(main, "aten::addmm", addmm, work::ADDMM, Some(number));
            self.compute(main, linear.start + us(6), gemm, KERNEL_GAP_NS, dur);
            let gelu = at + us(20)..at + us(30);
            let dur = job::GELU_NS + if layer == 1 { job::spread_ns(self.number) } else { 0 };
            self.op(main, "aten::gelu", gelu.clone(), work::ACTIVATION, Some(number + 1));
            self.compute(main, gelu.start + us(3), &work::GELU, KERNEL_GAP_NS, dur);
            layers.push((layer, at..at + us(19)));
            at += us(32);
        }
        let model_end = at;
        let loss = at + us(4)..at + us(16);
        self.op(main, "aten::mse_loss", loss.clone(), work::ACTIVATION_GRADIENT, None);
        self.compute(main, loss.start + us(5), &work::LOSS, KERNEL_GAP_NS, job::LOSS_NS);
        let mut thread = self.trace.thread(main);
        thread.frame("nn.Module: DistributedDataParallel_0", start..model_end + us(2)).module(0);
        thread.frame("nn.Module: Mlp_0", start + us(2)..model_end + us(1)).module(0);
        thread
            .frame("model.py(22): forward", start + us(4)..model_end)
            .called_from("torch/nn/modules/module.py:1775");
        for (layer, span) in layers {
            thread.frame(&format!("nn.Module: Linear_{layer}"), span.clone()).module(layer);
            thread.frame("torch/nn/modules/linear.py(130): forward", span.start + us(1)..span.end - 500);
        }
        loss.end
    }
}

/// Sequence number of the autograd node of a layer's linear operator; its activation has the next number.
pub fn forward_number(step: u64, layer: u64) -> u64 {
    step * 100 + layer * 2
}
