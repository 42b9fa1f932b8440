//! Writes the builder's rows as the bytes of a file.
//!
//! The text is assembled by hand instead of by a serializer, because tests need what no serializer writes:
//! broken names, bare words, unpadded fractions, a chosen order of keys.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use serde_json::Value;

use crate::event::{ArgValue, Event, EventPhase, IdValue, NameValue, TestEvent};
use crate::format::{
    CategorySpelling, ExternalIds, Format, Ids, MetadataSide, Root, TestRecorder, Times, WhiteSpace,
};
use crate::nesting::{Nested, Nesting};
use crate::time::{duration, timestamp};
use crate::trace::TraceBuilder;

impl TraceBuilder {
    /// The file in the default format.
    pub fn to_json(&self) -> String {
        String::from_utf8_lossy(&self.to_bytes(&Format::default())).into_owned()
    }

    /// The file in a chosen format. Not valid UTF-8 if such raw bytes were added.
    pub fn to_bytes(&self, format: &Format) -> Vec<u8> {
        let mut events: Vec<Vec<u8>> = {
            let pen = TestWriter {
                trace: self,
                format,
                operators: self.nesting("cpu_op", "External id"),
                frames: self.nesting("python_function", "Python id"),
            };
            self.events.iter().map(|event| pen.event(event)).collect()
        };
        if let Some(seed) = format.shuffle {
            let order = self.shuffled(seed);
            events = order.into_iter().map(|i| std::mem::take(&mut events[i])).collect();
        }
        let (separator, blank) = match format.layout {
            WhiteSpace::Pretty => (&b",\n"[..], "\n  "),
            WhiteSpace::Compact => (&b","[..], ""),
        };
        let list =
            [b"[", blank.trim_end_matches(' ').as_bytes(), &events.join(separator), blank.as_bytes(), b"]"]
                .concat();
        if format.root == Root::Array {
            return list;
        }
        let mut keys = self.keys(format, MetadataSide::Before);
        keys.push(("traceEvents".to_owned(), list));
        keys.extend(self.keys(format, MetadataSide::After));
        let colon = if format.layout == WhiteSpace::Pretty { ": " } else { ":" };
        let lines: Vec<Vec<u8>> = keys
            .into_iter()
            .map(|(key, value)| {
                [blank.as_bytes(), quoted(&key).as_bytes(), colon.as_bytes(), &value].concat()
            })
            .collect();
        [&b"{"[..], &lines.join(&b","[..]), blank.trim_end_matches(' ').as_bytes(), b"}"].concat()
    }

    /// The file in a chosen format, gzipped; the time in the gzip header is 0.
    pub fn to_gz(&self, format: &Format) -> io::Result<Vec<u8>> {
        let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        encoder.write_all(&self.to_bytes(format))?;
        encoder.finish()
    }

    /// A permutation of the events; rows with equal starts keep their order, because ties are resolved by it.
    fn shuffled(&self, seed: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.events.len()).collect();
        shuffle(&mut order, seed);
        let mut places: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, &event) in order.iter().enumerate() {
            if let Event::Row(row) = &self.events[event] {
                places.entry(row.ts).or_default().push(place);
            }
        }
        for places in places.values() {
            let mut events: Vec<usize> = places.iter().map(|&p| order[p]).collect();
            events.sort_unstable();
            places.iter().zip(events).for_each(|(&place, event)| order[place] = event);
        }
        order
    }

    /// Spans of one category that have an id under `key`.
    fn nesting(&self, category: &str, key: &str) -> Nesting {
        let span = |row: &TestEvent| {
            let (IdValue::Number(pid), IdValue::Number(tid)) = (&row.pid, &row.tid) else {
                return None;
            };
            let id = row.arg(key).and_then(Value::as_u64)?;
            let end = row.ts.saturating_add(row.dur?);
            (row.category == category).then_some(Nested { pid: *pid, tid: *tid, start: row.ts, end, id })
        };
        let spans = self.events.iter().filter_map(|event| match event {
            Event::Row(row) => span(row),
            Event::Raw(_) => None,
        });
        Nesting::new(spans.collect())
    }
}

/// Writes the events of one trace in one format.
struct TestWriter<'a> {
    trace: &'a TraceBuilder,
    format: &'a Format,
    operators: Nesting,
    frames: Nesting,
}

impl TestWriter<'_> {
    fn event(&self, event: &Event) -> Vec<u8> {
        let row = match event {
            Event::Raw(bytes) => return bytes.clone(),
            Event::Row(row) if self.format.recorder == TestRecorder::Cuspy => &row.of_cuspy(),
            Event::Row(row) => row,
        };
        let absolute = self.trace.origin_ns.saturating_add(row.ts);
        let ts = self.time(timestamp(absolute, self.trace.base_ns, self.format.era, self.format.fraction));
        let category = self.category(&row.category);
        let name = match &row.name {
            NameValue::Text(text) => quoted(self.flow_name(row, text)).into_bytes(),
            NameValue::Raw(bytes) => [b"\"", &bytes[..], b"\""].concat(),
        };
        let cat = (!category.is_empty()).then(|| ("cat", quoted(category).into_bytes()));
        let (pid, tid) = (("pid", self.place(&row.pid)), ("tid", self.place(&row.tid)));
        let (ts, name) = (("ts", ts), ("name", name));
        let plain = |text: &str| text.as_bytes().to_vec();
        let mut lines: Vec<Vec<Field>> = match row.phase {
            EventPhase::Complete => {
                let dur = row.dur.unwrap_or(0);
                let dur = self.time(duration(absolute, dur, self.format.era, self.format.fraction));
                let head = [Some(("ph", plain("\"X\""))), cat, Some(name), Some(pid), Some(tid)];
                vec![head.into_iter().flatten().collect(), vec![ts, ("dur", dur)]]
            }
            EventPhase::Instant { scope } => {
                let scope = ("s", quoted(scope).into_bytes());
                let head = [Some(("ph", plain("\"i\""))), cat, Some(scope), Some(name), Some(pid), Some(tid)];
                vec![head.into_iter().flatten().collect(), vec![ts]]
            }
            EventPhase::Counter => vec![vec![("ph", plain("\"C\"")), name, pid, ts]],
            EventPhase::Metadata => vec![vec![name, ("ph", plain("\"M\"")), ts, pid, tid]],
            EventPhase::FlowStart { id } | EventPhase::FlowEnd { id } => {
                let ends = matches!(row.phase, EventPhase::FlowEnd { .. });
                let phase = ("ph", plain(if ends { "\"f\"" } else { "\"s\"" }));
                let bind = ends.then(|| ("bp", plain("\"e\"")));
                let head = vec![phase, ("id", id.to_string().into_bytes()), pid, tid, ts];
                vec![head, [cat, Some(name), bind].into_iter().flatten().collect()]
            }
        };
        if let Some(args) = self.args(row) {
            lines.push(vec![("args", args)]);
        }
        self.object(&lines, "  ", "    ")
    }

    fn args(&self, row: &TestEvent) -> Option<Vec<u8>> {
        let id_key =
            if self.format.categories == CategorySpelling::Legacy { "external id" } else { "External id" };
        let external = self.external_id(row).map(|id| (id_key, id.to_string().into_bytes()));
        let parent = self.python_parent(row).map(|id| ("Python parent id", id));
        let given = row.args.iter().map(|(key, value)| {
            let text = match value {
                ArgValue::Json(value) => value.to_string().into_bytes(),
                ArgValue::Raw(text) => text.clone().into_bytes(),
            };
            (key.as_str(), text)
        });
        let fields: Vec<Field> = external.into_iter().chain(parent).chain(given).collect();
        (!fields.is_empty()).then(|| self.object(&[fields], "", "      "))
    }

    /// `External id` of a launch or of what it launched, unless the test has set one.
    fn external_id(&self, row: &TestEvent) -> Option<u64> {
        let launch = row.launch?;
        if row.args.iter().any(|(key, _)| key.eq_ignore_ascii_case("external id")) {
            return None;
        }
        match self.format.external_ids {
            ExternalIds::Absent => None,
            ExternalIds::Correlation => row.correlation(),
            ExternalIds::Operator => self.operators.innermost(launch.pid, launch.tid, launch.ts),
        }
    }

    /// `Python parent id` of a frame, unless the test has set one; null at the bottom of the stack.
    fn python_parent(&self, row: &TestEvent) -> Option<Vec<u8>> {
        let key = "Python parent id";
        if row.category != "python_function" || row.args.iter().any(|(k, _)| k == key) {
            return None;
        }
        let parent = row.arg("Python id").and_then(Value::as_u64).and_then(|id| self.frames.parent(id));
        Some(parent.map_or("null".to_owned(), |id| id.to_string()).into_bytes())
    }

    fn object(&self, lines: &[Vec<Field>], outer: &str, inner: &str) -> Vec<u8> {
        let pretty = self.format.layout == WhiteSpace::Pretty;
        let (colon, comma) = if pretty { (": ", ", ") } else { (":", ",") };
        let line = |fields: &Vec<Field>| {
            let parts: Vec<Vec<u8>> = fields
                .iter()
                .map(|(key, value)| [quoted(key).as_bytes(), colon.as_bytes(), value].concat())
                .collect();
            parts.join(comma.as_bytes())
        };
        let body: Vec<Vec<u8>> = lines.iter().map(line).collect();
        if !pretty {
            return [b"{", &body.join(&b","[..])[..], b"}"].concat();
        }
        let body = body.join(format!(",\n{inner}").as_bytes());
        let close = if outer.is_empty() { "    " } else { outer };
        [format!("{outer}{{\n{inner}").as_bytes(), &body, format!("\n{close}}}").as_bytes()].concat()
    }

    fn category<'c>(&self, category: &'c str) -> &'c str {
        if self.format.categories == CategorySpelling::Current {
            return category;
        }
        match category {
            "kernel" => "Kernel",
            "gpu_memcpy" => "Memcpy",
            "gpu_memset" => "Memset",
            "cpu_op" | "user_annotation" => "Operator",
            "cuda_runtime" | "cuda_driver" => "Runtime",
            "python_function" => "Python",
            "ac2g" => "async",
            "fwdbwd" => "forward_backward",
            "cpu_instant_event" => "",
            other => other,
        }
    }

    /// Name of a flow. In old files a flow from a launch was called `launch`, and one to a backward node like
    /// its category.
    fn flow_name<'c>(&self, row: &TestEvent, name: &'c str) -> &'c str {
        let is_flow = matches!(row.phase, EventPhase::FlowStart { .. } | EventPhase::FlowEnd { .. });
        match (is_flow && self.format.categories == CategorySpelling::Legacy, name) {
            (true, "ac2g") => "launch",
            (true, "fwdbwd") => "forward_backward",
            _ => name,
        }
    }

    fn place(&self, place: &IdValue) -> Vec<u8> {
        let text = match (place, self.format.ids) {
            (IdValue::Text(text), _) => quoted(text),
            (IdValue::Number(n) | IdValue::Stream(n), Ids::Numbers) => n.to_string(),
            (IdValue::Number(n), Ids::Text) => quoted(&n.to_string()),
            (IdValue::Stream(n), Ids::Text) => quoted(&format!("stream {n}")),
        };
        text.into_bytes()
    }

    fn time(&self, text: String) -> Vec<u8> {
        match self.format.times {
            Times::Numbers => text.into_bytes(),
            Times::Text => quoted(&text).into_bytes(),
        }
    }
}

type Field<'a> = (&'a str, Vec<u8>);

pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Fisher-Yates with splitmix64, so that a seed always gives the same order.
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let other = mixed % (last as u64 + 1);
        order.swap(last, other as usize);
    }
}
