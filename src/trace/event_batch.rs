//! The events of a rank as one Arrow record batch, which shares the memory of the rank's columns.

use crate::args::{ARGS, Arg};
use crate::category::Class;
use crate::rank_trace::RankTrace;
use crate::strings::StrId;
use arrow_array::types::{ArrowDictionaryKeyType, Int8Type, Int32Type, UInt16Type};
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{Field, Schema};
use hashbrown::HashMap;
use std::sync::Arc;

impl RankTrace {
    /// The complete events of the rank as one Arrow record batch, in the order of the file. Row `i` is the
    /// event with the id `i`; `event_id` and all columns that end in `_event_id` in the results tables
    /// contain these ids.
    ///
    /// | column | Arrow type | unit | meaning |
    /// |---|---|---|---|
    /// | `ts_ns` | Int64 | ns | start on the rank's own clock: since 1970 if the file says so |
    /// | `dur_ns` | Int64 | ns | length, never negative |
    /// | `name` | Dictionary(Int32, Utf8) | | name of the event |
    /// | `category` | Dictionary(UInt16, Utf8) | | `cat` as spelled in the file |
    /// | `class` | Dictionary(Int8, Utf8) | | category, unified across eras and vendors: `kernel`, `operator`, ... |
    /// | `pid` | Dictionary(Int32, Utf8) | | process, or device |
    /// | `tid` | Dictionary(Int32, Utf8) | | thread, or stream |
    /// | `thread_name` | Dictionary(Int32, Utf8) | | name of the thread, or null |
    ///
    /// Only `class` is copied: the other columns share the memory of the trace, which stays alive as long as
    /// the batch. The columns `pid`, `tid` and `thread_name` have the same keys, one for each pair of process
    /// and thread, so two keys may have the same text. [`RankTrace::events_with`] adds arguments.
    ///
    /// The page of the crate `hta-read` has an example.
    pub fn events(&self) -> RecordBatch {
        self.events_with(&[])
    }

    /// Like [`RankTrace::events`], with a further column for each of these arguments. Its name and meaning
    /// are those of [`crate::args::ArgSpec`], its type is that of [`crate::args::ArgType::arrow_type`], and
    /// it is null for events without the argument. These columns are built by each call, because a trace
    /// stores arguments only for the events that have them. Arguments that only the `events` table shows are
    /// filled if the trace was loaded with them.
    pub fn events_with(&self, args: &[Arg]) -> RecordBatch {
        let c = &self.columns;
        let lane_text = |text: &dyn Fn(u32) -> Option<StrId>| -> ArrayRef {
            let texts: StringArray =
                (0..c.lanes.len() as u32).map(|l| text(l).map(|t| self.text(t))).collect();
            dictionary::<Int32Type>(signed(&c.lane), Arc::new(texts))
        };
        let categories = StringArray::from_iter_values(c.categories.iter().map(|k| self.text(k.text)));
        let classes = StringArray::from_iter_values(Class::ALL.iter().map(|k| k.name()));
        let names = self.thread_names();
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("ts_ns", Arc::new(Int64Array::new(c.ts.clone(), None))),
            ("dur_ns", Arc::new(Int64Array::new(c.dur.clone(), None))),
            ("name", dictionary::<Int32Type>(signed(&c.name), Arc::clone(c.strings.array()) as ArrayRef)),
            ("category", dictionary::<UInt16Type>(c.cat.clone(), Arc::new(categories))),
            (
                "class",
                dictionary::<Int8Type>(self.classes.iter().map(|k| *k as i8).collect(), Arc::new(classes)),
            ),
            ("pid", lane_text(&|l| c.lanes.get(l as usize).map(|lane| lane.pid))),
            ("tid", lane_text(&|l| c.lanes.get(l as usize).map(|lane| lane.tid))),
            ("thread_name", lane_text(&|l| names.get(&l).copied())),
        ];
        columns
            .extend(args.iter().map(|a| (ARGS[*a as usize].column, c.args.array(*a, c.len(), &c.strings))));
        let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
        let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
        let columns = columns.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(schema), columns).expect("all columns have a row for each event")
    }

    /// Names of threads by lane.
    pub fn thread_names(&self) -> HashMap<u32, StrId> {
        let c = &self.columns;
        let named = c.lane_names.iter().filter(|n| c.strings.get(n.kind) == "thread_name");
        named.map(|n| (n.lane, n.text)).collect()
    }
}

/// A column of texts. The reader creates keys and texts together, so all keys are valid.
fn dictionary<K: ArrowDictionaryKeyType>(keys: ScalarBuffer<K::Native>, texts: ArrayRef) -> ArrayRef {
    Arc::new(DictionaryArray::<K>::new(PrimitiveArray::new(keys, None), texts))
}

/// The same numbers as signed integers, in the same memory. They must be less than `i32::MAX`.
fn signed(numbers: &ScalarBuffer<u32>) -> ScalarBuffer<i32> {
    ScalarBuffer::new(numbers.inner().clone(), 0, numbers.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_signed_ones_in_the_same_memory() {
        let numbers = ScalarBuffer::from(vec![0, 7, i32::MAX as u32]);
        let signed = signed(&numbers.slice(1, 2));
        assert_eq!(signed.as_ref(), [7, i32::MAX]);
        assert_eq!(signed.inner().as_ptr(), numbers.slice(1, 2).inner().as_ptr());
    }
}
