//! Arguments of device rows that have no column of their own, because the name, the stream or the annotation
//! of the row is made of them when the whole file has been read.

use crate::category::Class;
use crate::strings::StrId;

/// One of these arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceField {
    /// Direction of a copy: `HtoD`, or the number of a kind that the recorder does not know.
    CopyKind,
    /// Memory that a copy reads: `pinned`.
    SourceKind,
    /// Memory that a copy writes.
    TargetKind,
    /// Memory that a set fills, as CUPTI's number.
    MemoryKind,
    /// The stream of a row that is drawn on another one.
    OriginalStream,
    /// Name that the program gave to a part of a CUDA graph.
    Name,
    /// `backward` in the backward pass.
    AutogradPhase,
    /// A list of what torch 2.15 writes as arguments, as JSON text.
    Annotation,
}

impl DeviceField {
    /// The field of a key of `args`.
    pub fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"copy kind" => DeviceField::CopyKind,
            b"src kind" => DeviceField::SourceKind,
            b"dst kind" => DeviceField::TargetKind,
            b"memory kind" => DeviceField::MemoryKind,
            b"original_stream" => DeviceField::OriginalStream,
            b"name" => DeviceField::Name,
            b"autograd_phase" => DeviceField::AutogradPhase,
            b"annotation" => DeviceField::Annotation,
            _ => return None,
        })
    }

    /// Whether rows of a class may have such a field.
    pub fn is_of(class: Class) -> bool {
        class.is_gpu() || matches!(class, Class::Sync | Class::CudaEvent)
    }
}

/// Values as text, by row in ascending order. The last value of a field of a row counts.
#[derive(Debug, Default)]
pub struct DeviceFields {
    pub(crate) all: Vec<(u32, DeviceField, StrId)>,
}

impl DeviceFields {
    /// Adds a value; rows must not descend.
    pub fn push(&mut self, row: u32, field: DeviceField, text: StrId) {
        self.all.push((row, field, text));
    }

    /// The fields of each row that has some.
    pub fn by_row(&self) -> impl Iterator<Item = (u32, &[(u32, DeviceField, StrId)])> {
        self.all.chunk_by(|a, b| a.0 == b.0).filter_map(|of_row| Some((of_row.first()?.0, of_row)))
    }

    /// Moves values to new row numbers; those of rows without one are dropped.
    pub(crate) fn renumber(&mut self, new_row: &[Option<u32>]) {
        let map = |row: u32| new_row.get(row as usize).copied().flatten();
        self.all = self.all.iter().filter_map(|&(row, field, text)| Some((map(row)?, field, text))).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_their_rows_and_those_of_dropped_rows_are_dropped() {
        let mut fields = DeviceFields::default();
        for (row, field) in [(1, DeviceField::Name), (2, DeviceField::Name), (2, DeviceField::AutogradPhase)]
        {
            fields.push(row, field, StrId::EMPTY);
        }
        fields.renumber(&[Some(0), None, Some(1)]);
        let rows: Vec<(u32, usize)> = fields.by_row().map(|(row, of_row)| (row, of_row.len())).collect();
        assert_eq!(rows, [(1, 2)]);
    }
}
