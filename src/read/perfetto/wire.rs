//! The wire format of protobuf: the fields of a message, borrowed from its bytes. A message that breaks off
//! or has a length beyond its end gives the fields before that.

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// The value of a number.
    #[inline]
    pub(super) fn number(self) -> Option<u64> {
        match self {
            WireValue::Varint(n) | WireValue::Fixed64(n) => Some(n),
            WireValue::Fixed32(n) => Some(u64::from(n)),
            WireValue::Bytes(_) => None,
        }
    }

    /// The value of a text or an inner message.
    #[inline]
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let WireValue::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The value of a `double`.
    #[inline]
    pub(super) fn float(self) -> Option<f64> {
        if let WireValue::Fixed64(bits) = self { Some(f64::from_bits(bits)) } else { None }
    }
}

/// The fields of a message: number and value, in the order of the file.
pub(super) struct WireMessage<'a> {
    rest: &'a [u8],
    is_broken: bool,
    /// Whether only the beginning is there: the last field is what is there of it.
    is_beginning: bool,
}

impl<'a> WireMessage<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, is_broken: false, is_beginning: false }
    }

    /// The beginning of a message that is longer.
    pub(super) fn beginning(bytes: &'a [u8]) -> Self {
        Self { is_beginning: true, ..Self::new(bytes) }
    }

    /// Whether the message is damaged behind the fields that were given.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Number of bytes that were not read yet.
    #[inline]
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next field. Most of the time of reading a file is spent here: in place, what a caller does not
    /// use of it costs nothing.
    #[inline(always)]
    pub(super) fn field(&mut self) -> Option<(u32, WireValue<'a>)> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.whole_field();
        if field.is_none() {
            self.rest = &[];
            self.is_broken = true;
        }
        field
    }

    #[inline(always)]
    fn whole_field(&mut self) -> Option<(u32, WireValue<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| (1..=LARGEST_FIELD).contains(n))?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => {
                let (bytes, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                WireValue::Fixed64(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = match self.rest.split_at_checked(length) {
                    None if self.is_beginning => (self.rest, &[][..]),
                    split => split?,
                };
                self.rest = rest;
                WireValue::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                WireValue::Fixed32(u32::from_le_bytes(*bytes))
            }
            _ => return None,
        };
        Some((number, value))
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        let (value, length) = varint(self.rest)?;
        self.rest = self.rest.get(length..)?;
        Some(value)
    }
}

impl<'a> Iterator for WireMessage<'a> {
    type Item = (u32, WireValue<'a>);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.field()
    }
}

/// Largest number that a field can have.
const LARGEST_FIELD: u32 = (1 << 29) - 1;

/// Longest varint, bytes.
const LONGEST_VARINT: usize = 10;

/// The varint at the beginning of `bytes`, and its length.
#[inline]
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    // Most are short: tags, lengths of texts, small numbers.
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => long_varint(bytes),
    }
}

#[inline(never)]
fn long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(LONGEST_VARINT).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Whether `bytes` begin a varint that ends behind them.
pub(super) fn is_cut_varint(bytes: &[u8]) -> bool {
    bytes.len() < LONGEST_VARINT && bytes.iter().all(|byte| byte & 0x80 != 0)
}

/// The integers of a repeated field: one that stands alone, or several in one text.
pub(super) fn integers(value: WireValue) -> impl Iterator<Item = u64> {
    let (alone, mut packed) = match value {
        WireValue::Bytes(bytes) => (None, bytes),
        other => (other.number(), &[][..]),
    };
    let more = std::iter::from_fn(move || {
        let (value, length) = varint(packed)?;
        packed = packed.get(length..)?;
        Some(value)
    });
    alone.into_iter().chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_given_up_to_the_damage() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x12, 9, b'x'];
        let mut message = WireMessage::new(&bytes);
        let fields: Vec<_> = message.by_ref().collect();
        assert_eq!(
            fields,
            [(1, WireValue::Varint(150)), (2, WireValue::Bytes(b"hi")), (3, WireValue::Fixed32(1))]
        );
        assert!(message.is_broken());
    }

    #[test]
    fn no_number_is_longer_than_ten_bytes() {
        assert_eq!(varint(&[0xff; 11]), None);
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(varint(&minus_one), Some((u64::MAX, 10)));
        assert!(is_cut_varint(&[0xff; 9]) && !is_cut_varint(&[0xff; 10]) && !is_cut_varint(&[1]));
    }

    #[test]
    fn the_beginning_of_a_message_ends_with_what_is_there_of_its_last_field() {
        let bytes = [0x08, 5, 0x12, 4, b'a', b'b'];
        let fields = [(1, WireValue::Varint(5)), (2, WireValue::Bytes(b"ab"))];
        assert_eq!(WireMessage::beginning(&bytes).collect::<Vec<_>>(), fields);
        assert_eq!(WireMessage::new(&bytes).collect::<Vec<_>>(), fields[..1]);
    }

    #[test]
    fn repeated_integers_may_be_packed() {
        assert_eq!(integers(WireValue::Varint(7)).collect::<Vec<_>>(), [7]);
        assert_eq!(integers(WireValue::Bytes(&[1, 0x96, 1, 3])).collect::<Vec<_>>(), [1, 150, 3]);
    }
}
