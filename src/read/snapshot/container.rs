//! The values of a pickle while it is read: 16 bytes each, and handles instead of trees.
//!
//! A list of entries, blocks or segments is only a range of rows. A list of frames is a list of numbers until
//! it is used as a stack, and then the number of that stack. Everything else (settings, the dict at the top)
//! is kept as it is.

use hta_trace::snapshot::{SnapshotStacks, StackId};
use hta_trace::strings::StrId;

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Entry,
    Block,
    Segment,
    Annotation,
    /// An element of `history` of a block, in the first generation.
    Past,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    /// Above `i64::MAX`.
    Big(u64),
    Float(f64),
    Text(StrId),
    /// A dict, list or tuple, by its place.
    Object(u32),
    Frame(u32),
    /// Dicts that became rows, one after the other.
    Rows {
        kind: RowKind,
        first: u32,
        len: u32,
    },
}

impl Value {
    pub(crate) fn int(self) -> Option<i64> {
        match self {
            Value::Int(v) => Some(v),
            Value::Bool(v) => Some(i64::from(v)),
            _ => None,
        }
    }

    pub(crate) fn address(self) -> Option<u64> {
        match self {
            Value::Int(v) => u64::try_from(v).ok(),
            Value::Big(v) => Some(v),
            _ => None,
        }
    }

    pub(crate) fn text(self) -> Option<StrId> {
        match self {
            Value::Text(id) => Some(id),
            _ => None,
        }
    }
}

/// A dict, list or tuple.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Object {
    EmptyDict,
    EmptyList,
    /// A dict that became a row.
    Row {
        kind: RowKind,
        at: u32,
    },
    /// A dict that became a frame.
    Frame(u32),
    /// A list of rows.
    Rows {
        kind: RowKind,
        first: u32,
        len: u32,
    },
    /// A list of frames that may still grow: a place in `open`.
    Frames(u32),
    /// A list of frames that was used as a stack.
    Stack(StackId),
    /// Two integers: a place in `pairs`.
    Pair(u32),
    /// Any other dict: a place in `maps`.
    Map(u32),
    /// Any other list: a place in `items`.
    Items(u32),
    /// A list that was used as the rows of something, which takes it: no second place has the same rows.
    Taken,
}

/// Deepest nesting of containers.
pub(crate) const DEEPEST: u8 = 64;

#[derive(Debug, Default)]
pub(crate) struct Map {
    depth: u8,
    pub(crate) pairs: Vec<(Value, Value)>,
}

#[derive(Debug, Default)]
pub(crate) struct Items {
    depth: u8,
    pub(crate) values: Vec<Value>,
}

/// A container that cannot take what is put into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    TooDeep,
    /// It was already used as a row or a stack.
    Used,
    /// Not a container of that kind.
    Other,
}

/// A list that something else has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedList;

/// All containers of a file.
#[derive(Default)]
pub(crate) struct Containers {
    pub(crate) objects: Vec<Object>,
    open: Vec<Vec<u32>>,
    free: Vec<u32>,
    pub(crate) pairs: Vec<(i64, i64)>,
    pub(crate) maps: Vec<Map>,
    pub(crate) items: Vec<Items>,
    /// Number of values in `maps` and `items`, and of frames in `open`. What was taken still counts.
    kept: u64,
    frames: u64,
}

impl Containers {
    pub(crate) fn add(&mut self, object: Object) -> Value {
        self.objects.push(object);
        Value::Object(self.objects.len() as u32 - 1)
    }

    pub(crate) fn object(&self, value: Value) -> Option<Object> {
        match value {
            Value::Object(at) => self.objects.get(at as usize).copied(),
            _ => None,
        }
    }

    fn set(&mut self, at: u32, object: Object) {
        if let Some(slot) = self.objects.get_mut(at as usize) {
            *slot = object;
        }
    }

    /// A dict became a row or a frame.
    pub(crate) fn close(&mut self, dict: Value, object: Object) {
        if let Value::Object(at) = dict {
            self.set(at, object);
        }
    }

    /// What a value is worth where it is used: dicts that became frames or rows are these.
    pub(crate) fn resolved(&self, value: Value) -> Value {
        match self.object(value) {
            Some(Object::Frame(frame)) => Value::Frame(frame),
            Some(Object::Row { kind, at }) => Value::Rows { kind, first: at, len: 1 },
            _ => value,
        }
    }

    fn depth(&self, value: Value) -> u8 {
        match self.object(value) {
            Some(Object::Map(at)) => self.maps.get(at as usize).map_or(1, |m| m.depth),
            Some(Object::Items(at)) => self.items.get(at as usize).map_or(1, |m| m.depth),
            Some(_) => 1,
            None => 0,
        }
    }

    fn deeper(&self, depth: u8, value: Value) -> Result<u8, Unfit> {
        let depth = depth.max(self.depth(value).saturating_add(1));
        if depth > DEEPEST { Err(Unfit::TooDeep) } else { Ok(depth) }
    }

    /// Appends a value to a list.
    pub(crate) fn append(&mut self, list: Value, value: Value) -> Result<(), Unfit> {
        let Value::Object(at) = list else { return Err(Unfit::Other) };
        let value = self.resolved(value);
        match (self.object(list).ok_or(Unfit::Other)?, value) {
            (Object::EmptyList, Value::Frame(frame)) => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.open.push(Vec::new());
                    self.open.len() as u32 - 1
                });
                if let Some(open) = self.open.get_mut(place as usize) {
                    open.push(frame);
                    self.frames += 1;
                }
                self.set(at, Object::Frames(place));
            }
            (Object::Frames(place), Value::Frame(frame)) => {
                if let Some(open) = self.open.get_mut(place as usize) {
                    open.push(frame);
                    self.frames += 1;
                }
            }
            (Object::EmptyList, Value::Rows { kind, first, len }) => {
                self.set(at, Object::Rows { kind, first, len })
            }
            (Object::Rows { kind, first, len }, Value::Rows { kind: k, first: f, len: l })
                if kind == k && first.checked_add(len) == Some(f) =>
            {
                self.set(at, Object::Rows { kind, first, len: len.saturating_add(l) });
            }
            (Object::Stack(_) | Object::Taken, _) => return Err(Unfit::Used),
            (
                Object::EmptyDict | Object::Row { .. } | Object::Frame(_) | Object::Pair(_) | Object::Map(_),
                _,
            ) => {
                return Err(Unfit::Other);
            }
            (object, value) => {
                let place = self.as_items(at, object);
                let depth = self.items.get(place as usize).map_or(1, |i| i.depth);
                let depth = self.deeper(depth, value)?;
                if let Some(items) = self.items.get_mut(place as usize) {
                    items.depth = depth;
                    items.values.push(value);
                    self.kept += 1;
                }
            }
        }
        Ok(())
    }

    /// Turns a list into one of any values.
    fn as_items(&mut self, at: u32, object: Object) -> u32 {
        let values = match object {
            Object::Items(place) => return place,
            Object::Rows { kind, first, len } => vec![Value::Rows { kind, first, len }],
            Object::Frames(place) => {
                self.free.push(place);
                let open = self.open.get_mut(place as usize).map(std::mem::take).unwrap_or_default();
                self.frames -= open.len() as u64;
                open.into_iter().map(Value::Frame).collect()
            }
            _ => Vec::new(),
        };
        self.kept += values.len() as u64;
        self.items.push(Items { depth: 1, values });
        let place = self.items.len() as u32 - 1;
        self.set(at, Object::Items(place));
        place
    }

    /// A tuple.
    pub(crate) fn tuple(&mut self, values: &[Value]) -> Result<Value, Unfit> {
        if let [Value::Int(a), Value::Int(b)] = values {
            // Almost all pairs of a file are the same pool.
            let few = Some(&self.pairs).filter(|pairs| pairs.len() < 64);
            let place =
                few.and_then(|pairs| pairs.iter().rposition(|p| *p == (*a, *b))).unwrap_or_else(|| {
                    self.pairs.push((*a, *b));
                    self.pairs.len() - 1
                });
            return Ok(self.add(Object::Pair(place as u32)));
        }
        let list = self.add(Object::EmptyList);
        values.iter().try_for_each(|value| self.append(list, *value))?;
        Ok(list)
    }

    /// Puts a value into a dict.
    pub(crate) fn insert(&mut self, dict: Value, key: Value, value: Value) -> Result<(), Unfit> {
        let Value::Object(at) = dict else { return Err(Unfit::Other) };
        let value = self.resolved(value);
        let place = match self.object(dict) {
            Some(Object::EmptyDict) => {
                self.maps.push(Map { depth: 1, pairs: Vec::new() });
                let place = self.maps.len() as u32 - 1;
                self.set(at, Object::Map(place));
                place
            }
            Some(Object::Map(place)) => place,
            Some(Object::Row { .. } | Object::Frame(_)) => return Err(Unfit::Used),
            _ => return Err(Unfit::Other),
        };
        let depth = self.maps.get(place as usize).map_or(1, |m| m.depth);
        let depth = self.deeper(depth, value)?;
        if let Some(map) = self.maps.get_mut(place as usize) {
            map.depth = depth;
            map.pairs.push((key, value));
            self.kept += 2;
        }
        Ok(())
    }

    /// The stack that a list of frames is; `None` if it is something else.
    pub(crate) fn stack(&mut self, list: Value, stacks: &mut SnapshotStacks) -> Option<StackId> {
        match self.object(list)? {
            Object::EmptyList => Some(StackId::NONE),
            Object::Stack(stack) => Some(stack),
            Object::Frames(place) => {
                let open = self.open.get_mut(place as usize)?;
                let stack = stacks.stack(open);
                self.frames -= open.len() as u64;
                open.clear();
                self.free.push(place);
                self.close(list, Object::Stack(stack));
                Some(stack)
            }
            _ => None,
        }
    }

    /// The value of a key of a dict.
    pub(crate) fn get(&self, dict: Value, key: StrId) -> Option<Value> {
        let Some(Object::Map(place)) = self.object(dict) else { return None };
        let pairs = &self.maps.get(place as usize)?.pairs;
        pairs.iter().rev().find(|(k, _)| *k == Value::Text(key)).map(|(_, value)| *value)
    }

    /// Takes the values of a list of anything but frames; an error if another place has taken them.
    pub(crate) fn take(&mut self, list: Value) -> Result<Vec<Value>, SharedList> {
        let values = match self.object(list) {
            Some(Object::Rows { kind, first, len }) => vec![Value::Rows { kind, first, len }],
            Some(Object::Items(place)) => {
                self.items.get_mut(place as usize).map(|i| std::mem::take(&mut i.values)).unwrap_or_default()
            }
            Some(Object::Taken) => return Err(SharedList),
            _ => return Ok(Vec::new()),
        };
        self.close(list, Object::Taken);
        Ok(values)
    }

    /// The first value of a list of anything but frames.
    pub(crate) fn first(&self, list: Value) -> Option<Value> {
        match self.object(list)? {
            Object::Rows { kind, first, len } => Some(Value::Rows { kind, first, len }),
            Object::Items(place) => self.items.get(place as usize)?.values.first().copied(),
            _ => None,
        }
    }

    pub(crate) fn pair(&self, value: Value) -> Option<(i64, i64)> {
        match self.object(value)? {
            Object::Pair(place) => self.pairs.get(place as usize).copied(),
            _ => None,
        }
    }

    /// Memory, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let of = |n: usize, size: usize| (n * size) as u64;
        of(self.objects.len(), size_of::<Object>())
            + of(self.maps.len(), size_of::<Map>())
            + of(self.items.len(), size_of::<Items>())
            + of(self.pairs.len(), 16)
            + of(self.open.len(), size_of::<Vec<u32>>())
            + self.kept * size_of::<Value>() as u64
            + self.frames * size_of::<u32>() as u64
    }
}
