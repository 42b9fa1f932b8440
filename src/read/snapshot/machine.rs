//! The pickle machine: runs the closed list of opcodes in one pass over the file.
//!
//! A dict becomes a row as soon as its keys are complete, and rows of one kind that follow each other on the
//! stack are one value. So the stack stays small whether the writer fills lists in batches, as Python does,
//! or at once, as PyTorch's own writer does.

use super::bytes::PickleBytes;
use super::container::{Containers, DEEPEST, Object, Unfit, Value};
use super::error::Problem;
use super::memo::Memo;
use super::opcode::{op, refused_name};
use super::rows::SnapshotRowList;
use crate::room::{MemoryGate, MemoryUse};

/// Longest text, bytes.
const LONGEST_TEXT: u64 = 16 << 20;

/// Largest number of values that wait to be put into a container. Python writes 1000 at a time.
const MOST_WAITING: usize = 1 << 20;

/// Longest integer, bytes: 2^64 - 1 takes nine.
const LONGEST_INT: usize = 9;

/// Longest module or function name that a message quotes, bytes.
const LONGEST_NAME: usize = 200;

/// Number of opcodes after which the memory is checked, and length of a text before which it is, bytes.
const CHECKED: u32 = 1 << 8;
const CHECKED_TEXT: u64 = 4 << 10;

pub(crate) struct PickleMachine<'a> {
    pub(crate) bytes: PickleBytes,
    pub(crate) stack: Vec<Value>,
    /// Heights of the stack at which marks were set.
    marks: Vec<usize>,
    memo: Vec<Memo>,
    /// The object that the last opcode made or completed, which is the only one that may go to the memo:
    /// Python remembers a container before it is filled, PyTorch's own writer after.
    made: Option<Memo>,
    pub(crate) containers: Containers,
    pub(crate) rows: SnapshotRowList,
    room: &'a dyn MemoryGate,
}

impl<'a> PickleMachine<'a> {
    pub(crate) fn new(bytes: PickleBytes, room: &'a dyn MemoryGate) -> Self {
        Self {
            bytes,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            made: None,
            containers: Containers::default(),
            rows: SnapshotRowList::new(),
            room,
        }
    }

    /// Runs to the end of the pickle and returns its value.
    ///
    /// # Errors
    /// When the file ends early, or holds what a snapshot never does.
    pub(crate) fn run(&mut self) -> Result<Value, Problem> {
        let mut until_check = CHECKED;
        loop {
            until_check -= 1;
            if until_check == 0 {
                until_check = CHECKED;
                self.check_memory(0)?;
            }
            let byte = self.bytes.offset();
            let Some(code) = self.bytes.next()? else {
                return Err(Problem::Cut { expected: "the end of a pickle", byte });
            };
            if code == op::STOP {
                return match (self.stack.as_slice(), self.marks.is_empty()) {
                    ([value], true) => Ok(*value),
                    _ => Err(malformed("one value at the end", "others beside it", byte)),
                };
            }
            self.step(code, byte)?;
            if self.stack.len() > MOST_WAITING {
                return Err(exceeds("values wait to be put into a list", MOST_WAITING, byte));
            }
        }
    }

    /// Checks that there is room for what is held and `more`, bytes.
    fn check_memory(&self, more: u64) -> Result<(), Problem> {
        let held = more
            + self.rows.held_bytes()
            + self.containers.held_bytes()
            + (self.memo.len() * size_of::<Memo>() + self.stack.len() * size_of::<Value>()) as u64;
        Ok(self.room.hold(MemoryUse { buffers: held, ..MemoryUse::default() })?)
    }

    /// The number behind an opcode: a value, a length or a place of the memo; 0 if it has none.
    fn operand(&mut self, code: u8) -> Result<u64, Problem> {
        Ok(match code {
            op::PROTO
            | op::BININT1
            | op::LONG1
            | op::SHORT_BINUNICODE
            | op::SHORT_BINBYTES
            | op::BINPUT
            | op::BINGET => u64::from(u8::from_le_bytes(self.bytes.array()?)),
            op::BININT2 => u64::from(u16::from_le_bytes(self.bytes.array()?)),
            op::BININT | op::LONG4 => i64::from(i32::from_le_bytes(self.bytes.array()?)) as u64,
            op::BINUNICODE | op::BINBYTES | op::LONG_BINPUT | op::LONG_BINGET => {
                u64::from(u32::from_le_bytes(self.bytes.array()?))
            }
            op::BINUNICODE8 | op::FRAME => u64::from_le_bytes(self.bytes.array()?),
            op::BINFLOAT => u64::from_be_bytes(self.bytes.array()?),
            _ => 0,
        })
    }

    fn step(&mut self, code: u8, byte: u64) -> Result<(), Problem> {
        let made = self.made.take();
        let operand = self.operand(code)?;
        match code {
            op::PROTO if (2..=5).contains(&operand) => {}
            op::PROTO => return Err(malformed("protocol 2 to 5", format!("protocol {operand}"), byte)),
            // Frames only announce how much may be read at once.
            op::FRAME => {}
            op::MARK if self.marks.len() >= usize::from(DEEPEST) => {
                return Err(exceeds("containers inside each other", usize::from(DEEPEST), byte));
            }
            op::MARK => self.marks.push(self.stack.len()),
            op::NONE => self.stack.push(Value::None),
            op::NEWTRUE => self.stack.push(Value::Bool(true)),
            op::NEWFALSE => self.stack.push(Value::Bool(false)),
            op::BININT1 | op::BININT2 | op::BININT => self.stack.push(Value::Int(operand as i64)),
            op::LONG1 | op::LONG4 => self.int(usize::try_from(operand).unwrap_or(usize::MAX), byte)?,
            op::BINFLOAT => self.stack.push(Value::Float(f64::from_bits(operand))),
            op::SHORT_BINUNICODE | op::SHORT_BINBYTES | op::BINUNICODE | op::BINBYTES | op::BINUNICODE8 => {
                self.text(operand, byte)?;
            }
            op::EMPTY_DICT => self.make(Object::EmptyDict, byte)?,
            op::EMPTY_LIST | op::EMPTY_TUPLE => self.make(Object::EmptyList, byte)?,
            op::TUPLE1 => self.tuple(1, byte)?,
            op::TUPLE2 => self.tuple(2, byte)?,
            op::TUPLE3 => self.tuple(3, byte)?,
            op::TUPLE | op::LIST => {
                let mark = self.pop_mark(byte)?;
                self.tuple(self.stack.len() - mark, byte)?;
            }
            op::DICT => {
                let mark = self.pop_mark(byte)?;
                let pairs = self.stack.split_off(mark);
                self.make(Object::EmptyDict, byte)?;
                self.fill(&pairs, byte)?;
            }
            op::SETITEM => {
                let at = self.height(3, byte)? + 1;
                let pairs = self.stack.split_off(at);
                self.fill(&pairs, byte)?;
            }
            op::SETITEMS => {
                let mark = self.pop_mark(byte)?;
                self.set_items(mark, byte)?;
            }
            op::APPEND => {
                let at = self.height(2, byte)? + 1;
                self.append_from(at, byte)?;
            }
            op::APPENDS => {
                let mark = self.pop_mark(byte)?;
                self.append_from(mark, byte)?;
            }
            op::MEMOIZE => self.put(made, self.memo.len(), byte)?,
            op::BINPUT | op::LONG_BINPUT => self.put(made, operand as usize, byte)?,
            op::BINGET | op::LONG_BINGET => self.get(operand as usize, byte)?,
            op::GLOBAL | op::INST => {
                let module = self.bytes.line(LONGEST_NAME)?;
                let name = self.bytes.line(LONGEST_NAME)?;
                return Err(Problem::Calls { module, name, byte });
            }
            op::STACK_GLOBAL => {
                let mut named = self.stack.iter().rev().map(|v| match v {
                    Value::Text(id) => self.rows.texts.get(*id).chars().take(LONGEST_NAME).collect(),
                    _ => "?".to_string(),
                });
                let (name, module) = (named.next().unwrap_or_default(), named.next().unwrap_or_default());
                return Err(Problem::Calls { module, name, byte });
            }
            other => return Err(Problem::Opcode { name: refused_name(other), byte }),
        }
        Ok(())
    }

    /// The height of the stack below its top `count` values, which must lie above the last mark.
    fn height(&self, count: usize, byte: u64) -> Result<usize, Problem> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let height = self.stack.len().checked_sub(count).filter(|h| *h >= floor);
        height.ok_or_else(|| malformed("values on the stack", "too few", byte))
    }

    /// Removes the last mark and returns its height, below which a container must lie.
    fn pop_mark(&mut self, byte: u64) -> Result<usize, Problem> {
        self.marks.pop().ok_or_else(|| malformed("a mark on the stack", "none", byte))
    }

    fn int(&mut self, len: usize, byte: u64) -> Result<(), Problem> {
        if len > LONGEST_INT {
            return Err(exceeds("bytes of an integer", LONGEST_INT, byte));
        }
        let bytes = self.bytes.take(len)?;
        let is_negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut all = [if is_negative { 0xff } else { 0 }; 16];
        all.iter_mut().zip(bytes).for_each(|(to, b)| *to = *b);
        let v = i128::from_le_bytes(all);
        let value = match (i64::try_from(v), u64::try_from(v)) {
            (Ok(v), _) => Value::Int(v),
            (_, Ok(v)) => Value::Big(v),
            _ => return Err(malformed("an integer from -2^63 to 2^64 - 1", v.to_string(), byte)),
        };
        self.stack.push(value);
        Ok(())
    }

    fn text(&mut self, len: u64, byte: u64) -> Result<(), Problem> {
        if len > LONGEST_TEXT {
            return Err(Problem::Exceeds {
                what: format!("a text of {len} bytes"),
                limit: LONGEST_TEXT.to_string(),
                byte,
            });
        }
        if len > CHECKED_TEXT {
            // Once as it is read and once as it is kept.
            self.check_memory(2 * len)?;
        }
        let bytes = self.bytes.take(len as usize)?;
        let id = match std::str::from_utf8(bytes) {
            Ok(text) => self.rows.texts.intern(text),
            Err(_) => self.rows.texts.intern(&String::from_utf8_lossy(bytes)),
        };
        self.stack.push(Value::Text(id));
        self.made = Some(Memo::text(id));
        Ok(())
    }

    fn check_objects(&self, byte: u64) -> Result<(), Problem> {
        let most = Memo::OBJECT as usize;
        if self.containers.objects.len() >= most { Err(exceeds("containers", most, byte)) } else { Ok(()) }
    }

    /// Pushes a new container.
    fn make(&mut self, object: Object, byte: u64) -> Result<(), Problem> {
        self.check_objects(byte)?;
        let value = self.containers.add(object);
        self.stack.push(value);
        if let Value::Object(at) = value {
            self.made = Some(Memo::object(at));
        }
        Ok(())
    }

    /// Replaces the top `count` values by a tuple or list of them.
    fn tuple(&mut self, count: usize, byte: u64) -> Result<(), Problem> {
        self.check_objects(byte)?;
        let at = self.height(count, byte)?;
        let values = self.stack.split_off(at);
        let value = self.containers.tuple(&values).map_err(|e| unfit(e, byte))?;
        self.stack.push(value);
        if let Value::Object(at) = value {
            self.made = Some(Memo::object(at));
        }
        Ok(())
    }

    /// Puts the values above a height, in pairs, into the dict below them.
    fn set_items(&mut self, at: usize, byte: u64) -> Result<(), Problem> {
        let Some(dict) = at.checked_sub(1).and_then(|d| self.stack.get(d)).copied() else {
            return Err(malformed("a dict below its items", "nothing", byte));
        };
        self.completed(dict);
        let pairs = self.stack.get(at..).unwrap_or_default();
        if matches!(self.containers.object(dict), Some(Object::EmptyDict))
            && pairs.len().is_multiple_of(2)
            && let Some(object) = self.rows.close(pairs, &mut self.containers, byte)
        {
            self.containers.close(dict, object);
            self.stack.truncate(at - 1);
            self.push_closed(object);
            return Ok(());
        }
        let pairs = self.stack.split_off(at);
        self.fill(&pairs, byte)
    }

    fn completed(&mut self, container: Value) {
        if let Value::Object(at) = container {
            self.made = Some(Memo::object(at));
        }
    }

    /// Puts pairs into the dict on top of the stack.
    fn fill(&mut self, pairs: &[Value], byte: u64) -> Result<(), Problem> {
        let Some(dict) = self.stack.last().copied() else {
            return Err(malformed("a dict below its items", "nothing", byte));
        };
        if !pairs.len().is_multiple_of(2) {
            return Err(malformed("keys with their values", "a key without one", byte));
        }
        self.completed(dict);
        if matches!(self.containers.object(dict), Some(Object::EmptyDict))
            && let Some(object) = self.rows.close(pairs, &mut self.containers, byte)
        {
            self.containers.close(dict, object);
            self.stack.pop();
            self.push_closed(object);
            return Ok(());
        }
        for pair in pairs.chunks_exact(2) {
            if let [key, value] = pair {
                self.containers.insert(dict, *key, *value).map_err(|e| unfit(e, byte))?;
            }
        }
        Ok(())
    }

    /// Pushes a dict that became a row or frame; a row that follows the one below joins it.
    fn push_closed(&mut self, object: Object) {
        let (kind, at) = match object {
            Object::Row { kind, at } => (kind, at),
            Object::Frame(frame) => {
                self.stack.push(Value::Frame(frame));
                return;
            }
            _ => return,
        };
        let floor = self.marks.last().copied().unwrap_or(self.stack.len());
        let below = self.stack.get_mut(floor..).and_then(<[Value]>::last_mut);
        match below {
            Some(Value::Rows { kind: k, first, len })
                if *k == kind && first.checked_add(*len) == Some(at) =>
            {
                *len += 1
            }
            _ => self.stack.push(Value::Rows { kind, first: at, len: 1 }),
        }
    }

    /// Appends the values above a height to the list below them.
    fn append_from(&mut self, at: usize, byte: u64) -> Result<(), Problem> {
        let Some(list) = at.checked_sub(1).and_then(|l| self.stack.get(l)).copied() else {
            return Err(malformed("a list below its items", "nothing", byte));
        };
        for value in self.stack.get(at..).unwrap_or_default() {
            self.containers.append(list, *value).map_err(|e| unfit(e, byte))?;
        }
        self.stack.truncate(at);
        self.completed(list);
        Ok(())
    }

    /// Stores the object that the last opcode made or completed. So the memo grows no faster than the objects
    /// do.
    fn put(&mut self, made: Option<Memo>, at: usize, byte: u64) -> Result<(), Problem> {
        let Some(made) = made else {
            return Err(malformed("a text or container to remember", "something else", byte));
        };
        let next = self.memo.len();
        match self.memo.get_mut(at) {
            Some(place) => *place = made,
            None if at == next => self.memo.push(made),
            None => {
                return Err(malformed(
                    "the next place of the memo",
                    format!("place {at} after {next}"),
                    byte,
                ));
            }
        }
        Ok(())
    }

    fn get(&mut self, at: usize, byte: u64) -> Result<(), Problem> {
        let Some(memo) = self.memo.get(at) else {
            let found = format!("place {at} of {}", self.memo.len());
            return Err(malformed("a place of the memo that was filled", found, byte));
        };
        let value = self.containers.resolved(memo.value());
        self.stack.push(value);
        Ok(())
    }
}

fn malformed(expected: &'static str, found: impl Into<String>, byte: u64) -> Problem {
    Problem::Malformed { expected, found: found.into(), byte }
}

fn exceeds(what: &str, limit: usize, byte: u64) -> Problem {
    Problem::Exceeds { what: what.to_string(), limit: limit.to_string(), byte }
}

fn unfit(why: Unfit, byte: u64) -> Problem {
    match why {
        Unfit::TooDeep => exceeds("containers inside each other", usize::from(DEEPEST), byte),
        Unfit::Used => malformed("a new dict or list", "one that was used and is changed again", byte),
        Unfit::Other => malformed("a dict or list that takes these values", "another value", byte),
    }
}
