//! An SQLite file that is only read: opened without locks and journals, its tables streamed in the order of
//! their rows.

use crate::error::ReadError;
use crate::input::Input;
use hta_base::health::{Counter, Health};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// First bytes of every SQLite file.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Length of the header, bytes.
const HEADER: usize = 100;

/// Longest value that is read, bytes. SQLite copies a value into memory before it is looked at.
const LONGEST_VALUE: i32 = 4 << 20;

/// Cache of the pages of a file, kB: tables are read from their first row to the last.
const PAGE_CACHE_KB: i32 = 512;

/// Most memory of SQLite for schemas and pages, bytes: of the process, and for each of its threads.
const SQLITE_BYTES: [i64; 2] = [32 << 20, 2 << 20];

/// Most rows of a table that describes what others name, such as devices.
pub(crate) const FEW: usize = 1 << 16;

pub(crate) struct Database {
    connection: Connection,
    shown: String,
    tables: BTreeSet<String>,
    /// Texts that [`Database::text`] repaired.
    repaired: RefCell<Health>,
}

/// Rows whose column, shifted right by some bits, has a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Only {
    pub(crate) column: &'static str,
    pub(crate) shift: u32,
    pub(crate) value: i64,
}

impl Database {
    /// # Errors
    /// When the file cannot be opened, is cut, or is damaged.
    pub fn open(input: &Input) -> Result<Self, ReadError> {
        let io_error = |error| ReadError::io(&input.shown, error);
        let damaged = |reason: String| ReadError::Damaged { file: input.shown.clone(), reason };
        let mut header = [0; HEADER];
        let mut file = File::open(&input.path).map_err(io_error)?;
        file.read_exact(&mut header)
            .map_err(|_| damaged("the SQLite file is cut in its header".to_string()))?;
        let length = file.metadata().map_err(io_error)?.len();
        let expected = expected_length(&header);
        if length < expected {
            return Err(damaged(format!("the SQLite file has {length} of {expected} bytes")));
        }
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(uri(&input.path), flags)?;
            let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as i64);
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_VALUE)?;
            connection.pragma_update(None, "cache_size", -PAGE_CACHE_KB)?;
            connection.pragma_update(None, "hard_heap_limit", SQLITE_BYTES[0] + threads * SQLITE_BYTES[1])?;
            Ok(connection)
        };
        let connection = open().map_err(|e| damaged(e.to_string()))?;
        let mut me = Self {
            connection,
            shown: input.shown.clone(),
            tables: BTreeSet::new(),
            repaired: RefCell::default(),
        };
        let mut tables = BTreeSet::new();
        me.each_of("SELECT name FROM sqlite_master WHERE type = 'table'", |row| {
            tables.extend(text(row, 0).map(Cow::into_owned));
        })?;
        me.tables = tables;
        Ok(me)
    }

    pub(crate) fn tables(&self) -> &BTreeSet<String> {
        &self.tables
    }

    pub(crate) fn has(&self, table: &str) -> bool {
        self.tables.contains(table)
    }

    /// A text of a row, as [`text`] reads it; counted if it was repaired.
    pub(crate) fn text<'a>(&self, row: &'a Row, column: usize) -> Option<Cow<'a, str>> {
        let found = text(row, column)?;
        if matches!(found, Cow::Owned(_)) {
            self.repaired.borrow_mut().note(Counter::SqliteText, &found);
        }
        Some(found)
    }

    /// What was counted so far.
    pub(crate) fn health(&self) -> Health {
        self.repaired.borrow().clone()
    }

    /// Number of rows of a table; 0 without the table.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn count(&self, table: &str) -> Result<u64, ReadError> {
        let mut count = 0;
        if self.has(table) {
            self.each_of(&format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\"")), |row| {
                count = int(row, 0).unwrap_or(0).max(0) as u64;
            })?;
        }
        Ok(count)
    }

    /// Hands on the rows of a table, with some of its columns in this order. A column that the table lacks is
    /// null, and a table that the file lacks has no rows. The names are those of the program, never of a
    /// file.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn each<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        each: impl FnMut(&Row),
    ) -> Result<(), ReadError> {
        self.each_with(table, columns, None, each)
    }

    /// As [`Database::each`], for a table of which all rows are kept beside the columns.
    ///
    /// # Errors
    /// When the file is damaged, or the table has more than [`FEW`] rows.
    pub(crate) fn each_of_few<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        mut each: impl FnMut(&Row),
    ) -> Result<(), ReadError> {
        let mut rows = 0;
        self.each(table, columns, |row| {
            rows += 1;
            if rows <= FEW {
                each(row);
            }
        })?;
        if rows > FEW { Err(self.too_many(&format!("rows in {table}"))) } else { Ok(()) }
    }

    /// The error of a file that has more than [`FEW`] of something.
    pub(crate) fn too_many(&self, what: &str) -> ReadError {
        ReadError::Damaged { file: self.shown.clone(), reason: format!("it has more than {FEW} {what}") }
    }

    /// As [`Database::each`], for the rows alone whose column has a value. SQLite leaves out the others,
    /// which costs less than to look at them here. Without that column all rows are handed on.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(crate) fn each_with<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        only: Option<Only>,
        each: impl FnMut(&Row),
    ) -> Result<(), ReadError> {
        if !self.has(table) {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        self.each_of(&format!("PRAGMA table_info({table})"), |row| {
            known.extend(text(row, 1).map(Cow::into_owned))
        })?;
        let column =
            |name: &&str| if known.contains(*name) { format!("\"{name}\"") } else { "NULL".to_string() };
        let list: Vec<String> = columns.iter().map(column).collect();
        let only = only.filter(|o| known.contains(o.column));
        let only =
            only.map(|o| format!(" WHERE \"{}\" >> {} = {}", o.column, o.shift, o.value)).unwrap_or_default();
        self.each_of(&format!("SELECT {} FROM {table}{only}", list.join(", ")), each)
    }

    fn each_of(&self, query: &str, mut each: impl FnMut(&Row)) -> Result<(), ReadError> {
        let mut run = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(row);
            }
            Ok(())
        };
        let reason = |e: rusqlite::Error| match e.sqlite_error_code() {
            Some(ErrorCode::TooBig) => format!("a value is longer than {LONGEST_VALUE} bytes"),
            Some(ErrorCode::OutOfMemory) => "its tables need too much memory of SQLite".to_string(),
            _ => format!("SQLite says: {e}"),
        };
        run().map_err(|e| ReadError::Damaged { file: self.shown.clone(), reason: reason(e) })
    }
}

/// An integer of a row; null and other types are `None`.
pub(crate) fn int(row: &Row, column: usize) -> Option<i64> {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(n)) => Some(n),
        _ => None,
    }
}

/// A text of a row; null and numbers are `None`. SQLite checks neither the type nor the encoding of what is
/// stored: bytes that are not UTF-8 read U+FFFD, and a BLOB is taken as a text. What was repaired is owned.
pub(crate) fn text<'a>(row: &'a Row, column: usize) -> Option<Cow<'a, str>> {
    match row.get_ref(column) {
        // To check costs a fraction of what a repair does.
        Ok(ValueRef::Text(bytes)) => {
            Some(str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed))
        }
        Ok(ValueRef::Blob(bytes)) => Some(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())),
        _ => None,
    }
}

/// Bytes of a row; null and other types are `None`.
pub(crate) fn blob<'a>(row: &'a Row, column: usize) -> Option<&'a [u8]> {
    match row.get_ref(column) {
        Ok(ValueRef::Blob(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Size of the pages that the header announces, bytes; 0 if it does not know their number.
fn expected_length(header: &[u8; HEADER]) -> u64 {
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    // The number of pages is valid if it was written with the last change.
    if number(24) == number(92) { page * u64::from(number(28)) } else { 0 }
}

/// The path as a URI that opens the file as one that nobody changes: no journal and no lock is made beside
/// it.
fn uri(path: &Path) -> String {
    let path = path.to_string_lossy();
    let mut out = String::from("file:");
    for c in path.chars() {
        match c {
            '%' | '?' | '#' => out.push_str(&format!("%{:02X}", c as u32)),
            _ => out.push(c),
        }
    }
    out.push_str("?immutable=1");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_uris_in_paths_are_escaped() {
        assert_eq!(uri(Path::new("/a b/50%?#.sqlite")), "file:/a b/50%25%3F%23.sqlite?immutable=1");
    }

    #[test]
    fn texts_that_are_none_are_repaired_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        let made = Connection::open(&path).unwrap();
        made.execute_batch(
            "CREATE TABLE t (value TEXT); INSERT INTO t VALUES ('plain'), (CAST(x'6bff6c' AS TEXT)), \
             (x'6b'), (NULL)",
        )
        .unwrap();
        drop(made);
        let input = Input::named(path).shown_as("a");
        let database = Database::open(&input).unwrap();
        let mut found = Vec::new();
        database.each("t", ["value"], |r| found.push(database.text(r, 0).map(Cow::into_owned))).unwrap();
        assert_eq!(
            found,
            [Some("plain"), Some("k\u{fffd}l"), Some("k"), None].map(|t| t.map(str::to_string))
        );
        assert_eq!(database.health().count(Counter::SqliteText), 2);
    }

    #[test]
    fn headers_tell_the_length() {
        let mut header = [0; HEADER];
        header[16..18].copy_from_slice(&4096u16.to_be_bytes());
        header[28..32].copy_from_slice(&3u32.to_be_bytes());
        assert_eq!(expected_length(&header), 3 * 4096);
        header[24] = 1;
        assert_eq!(expected_length(&header), 0);
    }
}
