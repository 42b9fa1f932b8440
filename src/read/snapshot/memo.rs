//! What a pickle remembers to name it again.

use super::container::Value;
use hta_trace::strings::StrId;

/// What `MEMOIZE` stores: the id of a text or, with the highest bit, the place of a container.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memo(u32);

impl Memo {
    pub(super) const OBJECT: u32 = 1 << 31;

    pub(super) fn text(id: StrId) -> Self {
        // Ids stay below 2^31, because all texts together have at most as many bytes.
        Self(id.0 & !Self::OBJECT)
    }

    pub(super) fn object(at: u32) -> Self {
        Self(at | Self::OBJECT)
    }

    pub(super) fn value(self) -> Value {
        if self.0 & Self::OBJECT == 0 {
            Value::Text(StrId(self.0))
        } else {
            Value::Object(self.0 & !Self::OBJECT)
        }
    }
}
