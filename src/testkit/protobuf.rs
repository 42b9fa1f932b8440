//! Writes protobuf messages, field by field, valid or not.

/// A message that is being written. A field is given by its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtoMessage(pub Vec<u8>);

impl ProtoMessage {
    pub fn new() -> Self {
        Self::default()
    }

    /// An integer; a negative one in two's complement.
    pub fn int(mut self, field: u32, value: i64) -> Self {
        self.tag(field, 0);
        self.varint(value as u64);
        self
    }

    /// Eight bytes.
    pub fn fixed(mut self, field: u32, value: u64) -> Self {
        self.tag(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn double(self, field: u32, value: f64) -> Self {
        self.fixed(field, value.to_bits())
    }

    pub fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub fn message(self, field: u32, message: &ProtoMessage) -> Self {
        self.bytes(field, &message.0)
    }

    pub fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A file of these packets.
pub fn perfetto_file<'a>(packets: impl IntoIterator<Item = &'a ProtoMessage>) -> Vec<u8> {
    packets.into_iter().fold(ProtoMessage::new(), |file, packet| file.message(1, packet)).0
}
