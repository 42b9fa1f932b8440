//! Tests of the builder: its output is read back with serde_json.

mod files;
mod rows;

use serde_json::Value;

use crate::*;

/// ```text
/// host      |aten::mm.........|                  us(0)..us(50)
/// launch        |==|                             us(10)..us(15)
/// stream 7             |sgemm.........|          us(60)..us(120)
/// ```
fn one_kernel() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(3).world(8).host("node-0").device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::mm", us(0)..us(50)).inputs(&[(&[4, 8], "float"), (&[8, 2], "float")]);
    main.launch(us(10)..us(15)).kernel("sgemm", 7, us(60)..us(120)).grid([132, 1, 1]).block([256, 1, 1]);
    t
}

fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("the builder writes JSON")
}

fn events(file: &Value) -> Vec<Value> {
    let list = file.get("traceEvents").unwrap_or(file);
    list.as_array().cloned().unwrap_or_default()
}

fn named(file: &Value, name: &str) -> Value {
    events(file).into_iter().find(|e| e["name"] == name).unwrap_or_default()
}

fn in_format(t: &TraceBuilder, format: Format) -> Value {
    parse(&t.to_bytes(&format))
}
