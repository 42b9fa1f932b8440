//! The opcodes of pickles: the closed list that is read, and the names of the others for messages.
//!
//! A memory snapshot consists of plain dicts, lists, tuples, texts and numbers. What could import a name,
//! call a function or refer to something outside the file is refused.

/// The opcodes that are read.
pub(crate) mod op {
    pub(crate) const MARK: u8 = b'(';
    pub(crate) const STOP: u8 = b'.';
    pub(crate) const BININT: u8 = b'J';
    pub(crate) const BININT1: u8 = b'K';
    pub(crate) const BININT2: u8 = b'M';
    pub(crate) const NONE: u8 = b'N';
    pub(crate) const BINUNICODE: u8 = b'X';
    pub(crate) const APPEND: u8 = b'a';
    pub(crate) const DICT: u8 = b'd';
    pub(crate) const EMPTY_DICT: u8 = b'}';
    pub(crate) const APPENDS: u8 = b'e';
    pub(crate) const BINGET: u8 = b'h';
    pub(crate) const LONG_BINGET: u8 = b'j';
    pub(crate) const LIST: u8 = b'l';
    pub(crate) const EMPTY_LIST: u8 = b']';
    pub(crate) const BINPUT: u8 = b'q';
    pub(crate) const LONG_BINPUT: u8 = b'r';
    pub(crate) const SETITEM: u8 = b's';
    pub(crate) const TUPLE: u8 = b't';
    pub(crate) const EMPTY_TUPLE: u8 = b')';
    pub(crate) const SETITEMS: u8 = b'u';
    pub(crate) const BINFLOAT: u8 = b'G';
    pub(crate) const BINBYTES: u8 = b'B';
    pub(crate) const SHORT_BINBYTES: u8 = b'C';
    pub(crate) const PROTO: u8 = 0x80;
    pub(crate) const TUPLE1: u8 = 0x85;
    pub(crate) const TUPLE2: u8 = 0x86;
    pub(crate) const TUPLE3: u8 = 0x87;
    pub(crate) const NEWTRUE: u8 = 0x88;
    pub(crate) const NEWFALSE: u8 = 0x89;
    pub(crate) const LONG1: u8 = 0x8a;
    pub(crate) const LONG4: u8 = 0x8b;
    pub(crate) const SHORT_BINUNICODE: u8 = 0x8c;
    pub(crate) const BINUNICODE8: u8 = 0x8d;
    pub(crate) const MEMOIZE: u8 = 0x94;
    pub(crate) const FRAME: u8 = 0x95;
    /// These two are read only to name what they ask for.
    pub(crate) const GLOBAL: u8 = b'c';
    pub(crate) const INST: u8 = b'i';
    pub(crate) const STACK_GLOBAL: u8 = 0x93;
}

/// The opcodes of `pickletools` that are refused.
const REFUSED: &[(u8, &str)] = &[
    (b'0', "POP"),
    (b'1', "POP_MARK"),
    (b'2', "DUP"),
    (b'F', "FLOAT"),
    (b'I', "INT"),
    (b'L', "LONG"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (b'R', "REDUCE"),
    (b'S', "STRING"),
    (b'T', "BINSTRING"),
    (b'U', "SHORT_BINSTRING"),
    (b'V', "UNICODE"),
    (b'b', "BUILD"),
    (b'c', "GLOBAL"),
    (b'g', "GET"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (b'p', "PUT"),
    (0x81, "NEWOBJ"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (0x8e, "BINBYTES8"),
    (0x8f, "EMPTY_SET"),
    (0x90, "ADDITEMS"),
    (0x91, "FROZENSET"),
    (0x92, "NEWOBJ_EX"),
    (0x93, "STACK_GLOBAL"),
    (0x96, "BYTEARRAY8"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
];

/// The name of an opcode that is not read.
pub(crate) fn refused_name(code: u8) -> String {
    match REFUSED.iter().find(|(c, _)| *c == code) {
        Some((_, name)) => format!("the opcode {name}"),
        None => format!("the byte 0x{code:02x}, which is no opcode,"),
    }
}
