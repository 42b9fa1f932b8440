//! Damage: every file of a partial truncated, changed or missing; and arbitrary bytes and tables passed to the decoder.

use super::{copied, hta, map, stderr};
use crate::shared::contents;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use hta::partial::{assemble, read};
use hta::store::StateTable;
use std::path::Path;
use std::sync::Arc;

fn refused(folder: &Path, what: &str, file: &str) {
    let run = hta(folder, &["merge", "part", "-o", "result"]);
    let message = stderr(&run);
    assert_eq!(run.status.code(), Some(2), "{what} {file}: {message}");
    assert!(!folder.join("result").exists(), "{what} {file} left a result");
    let named = format!("hta: cannot merge part: {file} is damaged: expected ");
    let gone = file == "partial.json" && message.contains("found a folder without partial.json");
    assert!(message.starts_with(&named) || gone, "{what} {file}: {message}");
}

#[test]
fn every_file_cut_changed_or_gone_is_told_by_its_name() {
    let (dir, inputs) = copied("gpu_ddp8");
    map(dir.path(), &[], &inputs[..2], "part");
    let root = dir.path().join("part");
    let all = contents(&root);
    assert!(["state/", "tables/", "events/"].iter().all(|below| all.keys().any(|k| k.starts_with(below))));
    for (name, bytes) in &all {
        let path = root.join(name);
        let write = |bytes: &[u8]| std::fs::write(&path, bytes).expect("a file can be written");
        write(&bytes[..bytes.len() - 2]);
        refused(dir.path(), "cut", name);
        let mut other = bytes.clone();
        let middle = other.len() / 2;
        other[middle] ^= 1;
        write(&other);
        refused(dir.path(), "changed", name);
        std::fs::remove_file(&path).expect("a file can be removed");
        refused(dir.path(), "gone", name);
        write(bytes);
    }
    let run = hta(dir.path(), &["merge", "part", "-o", "result"]);
    assert!(run.status.success(), "{}", stderr(&run));
}

/// The state of a partial: file names and bytes.
fn state() -> Vec<(String, Vec<u8>)> {
    let (dir, inputs) = copied("gpu_ddp8");
    map(dir.path(), &["--no-events"], &inputs[..2], "part");
    let all = contents(&dir.path().join("part"));
    all.into_iter().filter(|(name, _)| name.starts_with("state/")).collect()
}

/// Pseudo-random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

#[test]
fn any_bytes_give_a_table_or_an_error() {
    let (mut good, mut bad) = (0, 0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, bytes) in state() {
        let whole = read(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(name, format!("state/{}.{}.parquet", whole.of, whole.spec.name));
        for _ in 0..60 {
            let mut other = bytes.clone();
            // Mostly in the footer, which contains the lengths.
            let tail = other.len().min(2000);
            let from = if random.below(4) == 0 { 0 } else { other.len() - tail };
            for _ in 0..=random.below(3) {
                let at = from + random.below(other.len() - from);
                other[at] = random.below(256) as u8;
            }
            if random.below(5) == 0 {
                other.truncate(random.below(bytes.len()));
            }
            match read(&other) {
                Ok(table) => good += usize::from(table.ranks.len() == table.rows.num_rows()),
                Err(e) => bad += usize::from(!e.expected.is_empty()),
            }
        }
    }
    assert!(good > 0 && bad > 0, "{good} tables, {bad} errors");
    assert!(read(b"").is_err() && read(b"PAR1").is_err() && read(&[0; 4096]).is_err());
}

/// The same table with one number changed.
fn changed(table: &StateTable, random: &mut Random) -> Option<StateTable> {
    let rows = table.rows.num_rows();
    let at = random.below(rows);
    let extreme = [0, 1, -1, i64::MIN, i64::MAX, 4_294_967_295][random.below(6)];
    let i = random.below(table.rows.num_columns());
    let column = table.rows.column(i);
    let new: ArrayRef = match column.data_type() {
        DataType::UInt32 => {
            let old = column.as_primitive::<UInt32Type>().iter().enumerate();
            Arc::new(
                old.map(|(r, v)| if r == at { Some(extreme as u32) } else { v }).collect::<UInt32Array>(),
            )
        }
        DataType::Int64 => {
            let old = column.as_primitive::<Int64Type>().iter().enumerate();
            Arc::new(old.map(|(r, v)| if r == at { Some(extreme) } else { v }).collect::<Int64Array>())
        }
        _ => return None,
    };
    let mut columns = table.rows.columns().to_vec();
    columns[i] = new;
    Some(StateTable { rows: RecordBatch::try_new(table.rows.schema(), columns).ok()?, ..table.clone() })
}

#[test]
fn any_tables_give_a_set_or_an_error() {
    let tables: Vec<StateTable> =
        state().iter().map(|(name, b)| read(b).unwrap_or_else(|e| panic!("{name}: {e}"))).collect();
    let ranks: Vec<u32> =
        assemble(tables.clone()).expect("what was written").ranks.iter().map(|d| d.rank).collect();
    assert_eq!(ranks, [0, 1]);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut good, mut bad) = (0, 0);
    for i in 0..tables.len() {
        let mut without = tables.clone();
        let name = without.remove(i).spec.name;
        assert!(assemble(without).is_err(), "without {name}");
        let mut short = tables.clone();
        let half = short[i].ranks.len() / 2;
        short[i].ranks.truncate(half);
        short[i].rows = short[i].rows.slice(0, half);
        assert!(assemble(short).is_err(), "half of {name}");
        let mut moved = tables.clone();
        moved[i].ranks.reverse();
        let same = moved[i].ranks == tables[i].ranks;
        assert!(same || assemble(moved).is_err(), "ranks of {name} reversed");
        for _ in 0..12 {
            let mut other = tables.clone();
            let Some(table) = changed(&tables[i], &mut random) else { continue };
            other[i] = table;
            match assemble(other) {
                Ok(set) => good += set.files.len(),
                Err(flaw) => bad += usize::from(!flaw.expected.is_empty()),
            }
        }
    }
    assert!(good > 0 && bad > 0, "{good} sets, {bad} flaws");
}
