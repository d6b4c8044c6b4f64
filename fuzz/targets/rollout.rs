//! A rollout file of any bytes: read to its end, every line counted once.

use std::io::Cursor;
use std::path::Path;
use turnkey::rollout::Reader;

pub fn run(data: &[u8]) {
    let mut reader = Reader::new(Cursor::new(data), Path::new("rollout.jsonl"));
    let mut records = 0u64;
    for entry in &mut reader {
        match entry {
            Ok(_) => records += 1,
            // A newer format ends the reading: nothing behind it is guessed at.
            Err(_) => return,
        }
    }
    let report = reader.into_report();
    assert_eq!(report.records, records);
    assert_eq!(report.bytes, data.len() as u64, "every byte was looked at");
    assert!(report.records + report.bad_count <= report.lines, "{report:?}");
}
