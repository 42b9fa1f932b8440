//! Kernels that change layouts: a likely cause that names its operator; none where FP8 products need them.

use crate::analyses::diagnosis::of;
use hta_testkit::{TraceBuilder, us};

/// Twenty steps of a product of 800 us and a transpose of 200 us.
fn layout_of(product: &str) -> Vec<(String, String)> {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    for k in 0..20 {
        let at = us(1_000 * k);
        main.step(k as u64, at..at + us(30));
        main.op(product, at..at + us(8));
        main.launch(at + us(1)..at + us(3)).kernel("nvjet_tst_gemm", 7, at + us(10)..at + us(800));
        main.op("aten::contiguous", at + us(9)..at + us(20));
        main.launch(at + us(11)..at + us(13)).kernel("transpose_kernel", 7, at + us(800)..at + us(1_000));
    }
    let rows = of(&t).rows_where("findings", |r| r.text("kind") == "kernel_layout");
    rows.iter().map(|r| (r.text("certainty").to_string(), r.text("detail").to_string())).collect()
}

#[test]
fn layouts_are_likely_and_name_their_operator() {
    let found = layout_of("aten::mm");
    let [(certainty, detail)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(certainty, "likely");
    assert!(detail.contains("20 of them take 20.2 % of the compute, most in `aten::contiguous`"), "{detail}");
}

#[test]
fn transposes_for_products_in_fp8_are_no_cause() {
    assert_eq!(layout_of("aten::_scaled_mm"), []);
}
