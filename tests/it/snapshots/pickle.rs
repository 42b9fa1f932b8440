//! A writer of pickles, in the manner of Python (protocol 4, everything remembered, lists in batches) and of
//! PyTorch's own writer (protocol 2, lists at once).

/// A value of a pickle.
#[derive(Debug, Clone)]
pub enum Py {
    None,
    Bool(bool),
    Int(i64),
    Big(u64),
    Float(f64),
    Text(String),
    List(Vec<Py>),
    Tuple(Vec<Py>),
    Dict(Vec<(&'static str, Py)>),
}

impl From<i64> for Py {
    fn from(v: i64) -> Self {
        Py::Int(v)
    }
}

impl From<&str> for Py {
    fn from(v: &str) -> Self {
        Py::Text(v.to_string())
    }
}

impl From<Vec<Py>> for Py {
    fn from(v: Vec<Py>) -> Self {
        Py::List(v)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    Python,
    Torch,
}

/// The bytes of a pickle.
pub fn dumps(value: &Py, writer: Writer) -> Vec<u8> {
    let mut out = Pickle { out: Vec::new(), memo: 0, writer };
    match writer {
        Writer::Python => {
            out.out.extend([0x80, 4, 0x95]);
            out.out.extend([0xff; 8]);
        }
        Writer::Torch => out.out.extend([0x80, 2]),
    }
    out.value(value);
    out.out.push(b'.');
    out.out
}

struct Pickle {
    out: Vec<u8>,
    memo: usize,
    writer: Writer,
}

impl Pickle {
    fn remember(&mut self) {
        match self.writer {
            Writer::Python => self.out.push(0x94),
            Writer::Torch if self.memo < 256 => self.out.extend([b'q', self.memo as u8]),
            Writer::Torch => {
                self.out.push(b'r');
                self.out.extend((self.memo as u32).to_le_bytes());
            }
        }
        self.memo += 1;
    }

    fn text(&mut self, text: &str) {
        match (self.writer, u8::try_from(text.len())) {
            (Writer::Python, Ok(len)) => self.out.extend([0x8c, len]),
            _ => {
                self.out.push(b'X');
                self.out.extend((text.len() as u32).to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
        self.remember();
    }

    fn value(&mut self, value: &Py) {
        match value {
            Py::None => self.out.push(b'N'),
            Py::Bool(v) => self.out.push(if *v { 0x88 } else { 0x89 }),
            Py::Int(v) => match (u8::try_from(*v), u16::try_from(*v), i32::try_from(*v)) {
                (Ok(v), _, _) => self.out.extend([b'K', v]),
                (_, Ok(v), _) => {
                    self.out.push(b'M');
                    self.out.extend(v.to_le_bytes());
                }
                (_, _, Ok(v)) => {
                    self.out.push(b'J');
                    self.out.extend(v.to_le_bytes());
                }
                _ => {
                    self.out.extend([0x8a, 8]);
                    self.out.extend(v.to_le_bytes());
                }
            },
            Py::Big(v) => {
                self.out.extend([0x8a, 9]);
                self.out.extend(v.to_le_bytes());
                self.out.push(0);
            }
            Py::Float(v) => {
                self.out.push(b'G');
                self.out.extend(v.to_be_bytes());
            }
            Py::Text(text) => self.text(text),
            Py::Tuple(values) => {
                self.out.push(b'(');
                values.iter().for_each(|v| self.value(v));
                self.out.push(b't');
                self.remember();
            }
            Py::List(values) => {
                self.out.push(b']');
                if self.writer == Writer::Python {
                    self.remember();
                }
                let batch = if self.writer == Writer::Python { 1000 } else { usize::MAX };
                for part in values.chunks(batch) {
                    if let ([one], Writer::Python) = (part, self.writer) {
                        self.value(one);
                        self.out.push(b'a');
                        continue;
                    }
                    self.out.push(b'(');
                    part.iter().for_each(|v| self.value(v));
                    self.out.push(b'e');
                }
                if self.writer == Writer::Torch {
                    self.remember();
                }
            }
            Py::Dict(pairs) => {
                self.out.push(b'}');
                if self.writer == Writer::Python {
                    self.remember();
                }
                self.out.push(b'(');
                for (key, value) in pairs {
                    self.text(key);
                    self.value(value);
                }
                self.out.push(b'u');
                if self.writer == Writer::Torch {
                    self.remember();
                }
            }
        }
    }
}

/// A frame.
pub fn frame(file: &str, line: i64, name: &str) -> Py {
    Py::Dict(vec![("name", name.into()), ("filename", file.into()), ("line", line.into())])
}

/// A stack with one frame of the user's code.
pub fn at(line: i64) -> Vec<Py> {
    vec![frame("/home/me/train.py", line, "train")]
}

/// An entry; without a time if `time` is negative.
pub fn entry(action: &str, addr: i64, size: i64, time: i64, frames: Vec<Py>) -> Py {
    let address = if action == "oom" { "device_free" } else { "addr" };
    let mut pairs =
        vec![("action", action.into()), (address, addr.into()), ("size", size.into()), ("stream", 0.into())];
    if time >= 0 {
        pairs.push(("time_us", time.into()));
    }
    pairs.push(("frames", frames.into()));
    Py::Dict(pairs)
}

/// A block: size, requested, state.
pub fn block(address: i64, size: i64, requested: i64, state: &str) -> Py {
    Py::Dict(vec![
        ("address", address.into()),
        ("size", size.into()),
        ("requested_size", requested.into()),
        ("state", state.into()),
        ("frames", at(1).into()),
    ])
}

/// A segment of a device with these blocks, (size, requested, state) each.
pub fn segment(device: i64, address: i64, stream: i64, pool: (i64, i64), blocks: &[(i64, i64, &str)]) -> Py {
    let (mut next, mut rows) = (address, Vec::new());
    for (size, requested, state) in blocks {
        rows.push(block(next, *size, *requested, state));
        next += size;
    }
    let sum = |of: fn(&(i64, i64, &str)) -> i64| -> i64 {
        blocks.iter().filter(|b| b.2 == "active_allocated").map(of).sum()
    };
    Py::Dict(vec![
        ("device", device.into()),
        ("address", address.into()),
        ("total_size", (next - address).into()),
        ("allocated_size", sum(|b| b.0).into()),
        ("active_size", sum(|b| b.0).into()),
        ("requested_size", sum(|b| b.1).into()),
        ("stream", stream.into()),
        ("segment_type", "large".into()),
        ("segment_pool_id", Py::Tuple(vec![pool.0.into(), pool.1.into()])),
        ("is_expandable", Py::Bool(false)),
        ("frames", Py::List(Vec::new())),
        ("blocks", rows.into()),
    ])
}

/// A snapshot of these segments, with a history for each device.
pub fn snapshot(segments: Vec<Py>, traces: Vec<Vec<Py>>) -> Py {
    let traces: Vec<Py> = traces.into_iter().map(Py::List).collect();
    Py::Dict(vec![("segments", segments.into()), ("device_traces", traces.into())])
}
