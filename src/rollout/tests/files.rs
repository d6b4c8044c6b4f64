//! Files as they are found: whole, cut, damaged, in use, and not rollouts at all.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

fn folder_with_example() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    write_all(&path, example());
    (folder, path)
}

#[test]
fn what_is_written_is_read_back_and_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let confirmed = write_all(&path, example());
    assert_eq!(confirmed.records, 4);
    assert_eq!(confirmed.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let rollout = read(&path).unwrap();
    assert_eq!(records(&rollout), example());
    assert_eq!(rollout.entries.iter().map(|e| e.seq).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(rollout.report.incomplete_turns.is_empty());
    let report = verify(&path).unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!(report.notes, ["The last run has no end."]);
}

#[test]
fn d108_times_are_utc_and_say_so() {
    let (_folder, path) = folder_with_example();
    for entry in read(&path).unwrap().entries {
        assert_eq!(entry.ts.len(), "2026-11-29T22:48:21.035Z".len(), "{}", entry.ts);
        assert!(entry.ts.ends_with('Z') && entry.ts.as_bytes()[10] == b'T', "{}", entry.ts);
    }
}

#[test]
fn d97_one_record_is_one_line_whatever_its_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let text =
        "{\"v\":1,\"seq\":9,\"type\":\"turn_completed\"}\n::error::x\r\n\u{2028}\u{85}\0\x1b[2J";
    write_all(&path, vec![run_started(), message(text)]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
    assert_eq!(records(&read(&path).unwrap()), [run_started(), message(text)]);
}

/// Cuts at every byte of the last three records; then a run goes on.
#[test]
fn d98_cut_at_every_byte_loses_at_most_the_torn_record() {
    let (folder, path) = folder_with_example();
    let whole = fs::read(&path).unwrap();
    let ends: Vec<usize> =
        (0..whole.len()).filter(|at| whole[*at] == b'\n').map(|at| at + 1).collect();
    for cut in ends[0]..=whole.len() {
        let path = folder.path().join("cut.jsonl");
        fs::write(&path, &whole[..cut]).unwrap();
        // A line that only lacks its newline is whole.
        let kept = ends.iter().filter(|end| cut + 1 >= **end).count();
        let torn = cut > ends[kept - 1];

        let rollout = read(&path).unwrap();
        assert_eq!(records(&rollout), example()[..kept], "cut {cut}");
        assert_eq!(rollout.report.torn.is_some(), torn, "cut {cut}");
        assert_eq!(rollout.report.incomplete_turns.len(), usize::from((2..4).contains(&kept)));
        assert!(verify(&path).unwrap().ok, "cut {cut}");

        append_all(&path, vec![run_started(), message("went on")]).unwrap();
        let rollout = read(&path).unwrap();
        let mut want = example()[..kept].to_vec();
        want.extend([run_started(), message("went on")]);
        assert_eq!(records(&rollout), want, "cut {cut}");
        assert_eq!(rollout.report.closed_off.len(), usize::from(torn), "cut {cut}");
        let report = verify(&path).unwrap();
        assert!(report.ok, "cut {cut}: {report:?}");
        assert_eq!(fs::read(&path).unwrap()[..cut], whole[..cut], "what was there is untouched");
    }
}

#[test]
fn d98_torn_twice() {
    let (_folder, path) = folder_with_example();
    for round in 0..2u64 {
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        append_all(&path, vec![message("again"), message("lost")]).unwrap();
        assert!(verify(&path).unwrap().ok, "round {round}");
    }
    let report = read(&path).unwrap().report;
    assert_eq!((report.closed_off.len(), report.bad_count, report.records), (2, 0, 6));
}

#[test]
fn damage_in_the_middle_is_skipped_counted_and_seen() {
    let (_folder, path) = folder_with_example();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();

    // A broken line: skipped, named, and the line after it does not follow.
    let broken = format!("{}\n{}\n{{oops\n{}\n", lines[0], lines[1], lines[3]);
    fs::write(&path, broken).unwrap();
    let report = read(&path).unwrap().report;
    assert_eq!((report.records, report.bad_count, report.break_count), (3, 1, 1));
    assert_eq!(report.bad[0].line, 3);
    assert_eq!(report.breaks[0].line, 4);
    let verified = verify(&path).unwrap();
    assert!(!verified.ok);
    assert!(verified.faults[0].starts_with("Line 3 cannot be read: "), "{verified:?}");

    // A changed word: only the chain tells.
    fs::write(&path, text.replace("wörld", "World")).unwrap();
    let report = read(&path).unwrap().report;
    assert_eq!((report.records, report.bad_count, report.break_count), (4, 0, 1));
    assert!(!verify(&path).unwrap().ok);

    // A line that is gone, a line that stands twice.
    fs::write(&path, format!("{}\n{}\n{}\n", lines[0], lines[1], lines[3])).unwrap();
    assert!(!verify(&path).unwrap().ok);
    fs::write(&path, format!("{text}{}\n", lines[3])).unwrap();
    assert!(!verify(&path).unwrap().ok);

    // Whole JSON that is no record was never torn, even if the next line follows it.
    let foreign = "{\"v\":1,\"seq\":\"x\"}";
    fs::write(&path, format!("{text}{foreign}\n")).unwrap();
    assert_eq!(append_all(&path, vec![message("x")]).unwrap().records, 1);
    let report = verify(&path).unwrap();
    assert_eq!((report.found.bad_count, report.found.closed_off.len()), (1, 0));
}

#[test]
fn an_editor_that_changed_line_ends_did_no_harm() {
    let (_folder, path) = folder_with_example();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("\u{feff}{}\n\n", text.replace('\n', "\r\n"))).unwrap();
    let rollout = read(&path).unwrap();
    assert_eq!(records(&rollout), example());
    assert!(verify(&path).unwrap().ok);
}

#[test]
fn d99_a_byte_order_mark_is_tolerated_and_told() {
    let (_folder, path) = folder_with_example();
    let mut bytes = b"\xef\xbb\xbf".to_vec();
    bytes.extend(fs::read(&path).unwrap());
    fs::write(&path, bytes).unwrap();
    let rollout = read(&path).unwrap();
    assert_eq!(records(&rollout), example());
    assert!(rollout.report.bom);
    assert!(verify(&path).unwrap().ok);
    append_all(&path, vec![message("more")]).unwrap();
    assert!(verify(&path).unwrap().ok);
}

#[test]
fn d99_what_is_no_rollout_is_a_typed_error_beside_a_good_one() {
    let (folder, good) = folder_with_example();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("empty"), "").unwrap();
    fs::write(at("bom"), "\u{feff}").unwrap();
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("text"), "hello\nworld\n").unwrap();
    fs::File::create(at("sparse")).unwrap().set_len(2 << 30).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    symlink(&good, at("link")).unwrap();

    let reason = |name: &str| read(&at(name)).unwrap_err().reason();
    let began = crate::clock::now();
    assert_eq!(reason("empty"), "rollout.empty");
    assert_eq!(reason("bom"), "rollout.empty");
    assert_eq!(reason("directory"), "rollout.not_a_file");
    assert_eq!(reason("pipe"), "rollout.not_a_file");
    assert_eq!(reason("absent"), "rollout.io");
    assert_eq!(reason("sparse"), "rollout.not_a_rollout");
    // Unreadable for root too: opens, and its first read fails.
    assert_eq!(read(Path::new("/proc/self/mem")).unwrap_err().reason(), "rollout.io");
    assert!(began.elapsed().as_secs() < 5, "not by reading all of it");
    let text = read(&at("text")).unwrap().report;
    assert_eq!((text.records, text.bad_count), (0, 2));
    assert!(!verify(&at("text")).unwrap().ok);
    assert_eq!(records(&read(&at("link")).unwrap()), example(), "reading through a link is fine");

    let reason = |name: &str| append_all(&at(name), vec![message("x")]).unwrap_err().reason();
    assert_eq!(reason("directory"), "rollout.not_a_file");
    assert_eq!(reason("pipe"), "rollout.not_a_file");
    assert_eq!(reason("link"), "rollout.not_a_file", "writing through a link is not");
    assert_eq!(reason("sparse"), "rollout.not_a_rollout");
    assert_eq!(reason("text"), "rollout.not_a_rollout");
    assert!(append_all(&at("empty"), vec![run_started()]).is_ok(), "killed before its first line");

    assert_eq!(records(&read(&good).unwrap()), example());
}

#[test]
fn a_line_too_long_is_passed_over() {
    let (_folder, path) = folder_with_example();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&vec![b'x'; MAX_LINE + 10]).unwrap();
    file.write_all(b"\n").unwrap();
    drop(file);
    append_all(&path, vec![message("after")]).unwrap();
    let report = read(&path).unwrap().report;
    assert_eq!((report.records, report.closed_off.len()), (5, 1));
    assert!(report.closed_off[0].cause.starts_with("longer than"));
}

#[test]
fn a_second_writer_is_refused() {
    let (_folder, path) = folder_with_example();
    runtime().block_on(async {
        let masker = Arc::new(Masker::none());
        let first = RolloutWriter::open_append(&path, Arc::clone(&masker)).unwrap();
        let second = RolloutWriter::open_append(&path, Arc::clone(&masker)).err().unwrap();
        assert_eq!(second, RolloutError::Locked { path: path.clone() });
        assert_eq!(second.reason(), "rollout.locked");
        let again = RolloutWriter::create(&path, Arc::clone(&masker)).err().unwrap();
        assert_eq!(again, RolloutError::Exists { path: path.clone() });
        let other = first.clone();
        first.close().await.unwrap();
        assert_eq!(other.append(message("late")).await.unwrap_err(), RolloutError::Closed);
        assert_eq!(other.flush().await.unwrap_err(), RolloutError::Closed);
        RolloutWriter::open_append(&path, masker).unwrap().close().await.unwrap();
    });
}

#[test]
fn who_asks_whether_a_rollout_is_written_is_no_writer() {
    let (_folder, path) = folder_with_example();
    let other = fs::File::open(&path).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockShared).unwrap();
    assert!(!crate::rollout::is_held(&path), "somebody else asks at the same time");
    drop(other);
    runtime().block_on(async {
        let writer = RolloutWriter::open_append(&path, Arc::new(Masker::none())).unwrap();
        assert!(crate::rollout::is_held(&path));
        writer.close().await.unwrap();
    });
    assert!(!crate::rollout::is_held(&path));
}

#[test]
fn a_link_in_place_of_the_new_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    symlink(folder.path().join("elsewhere"), &path).unwrap();
    let error = RolloutWriter::create(&path, Arc::new(Masker::none())).err().unwrap();
    assert_eq!(error, RolloutError::Exists { path });
    assert!(!folder.path().join("elsewhere").exists());
}

#[test]
fn a_run_folder_that_is_already_open_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (open, moved) = (fs::File::open(folder.path()).unwrap(), folder.path().join("moved"));
    let make = |name| RolloutWriter::create_in(&open, name, &moved, Arc::new(Masker::none()));
    runtime().block_on(async {
        let writer = make("r.jsonl").unwrap();
        writer.append(run_started()).await.unwrap();
        writer.close().await.unwrap();
    });
    assert_eq!(records(&read(&folder.path().join("r.jsonl")).unwrap()), [run_started()]);
    assert_eq!(make("r.jsonl").err().unwrap().reason(), "rollout.exists");
    assert_eq!(make("../r.jsonl").err().unwrap().reason(), "rollout.not_a_file");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let (_folder, path) = folder_with_example();
    let text = fs::read_to_string(&path).unwrap().replace("{\"v\":1,", "{\"v\":2,");
    fs::write(&path, text).unwrap();
    let error = read(&path).unwrap_err();
    assert_eq!(error, RolloutError::Newer { path: path.clone(), line: 1, version: 2 });
    assert!(append_all(&path, vec![message("x")]).is_err());
}

#[test]
fn an_unknown_type_and_unknown_fields_are_no_damage() {
    let (_folder, path) = folder_with_example();
    let text = fs::read_to_string(&path).unwrap();
    let hash = super::super::line::hash(text.lines().last().unwrap().as_bytes());
    let line = format!(
        "{{\"v\":1,\"seq\":4,\"ts\":\"x\",\"type\":\"moon_phase\",\"phase\":{{\"a\":1}},\"prev\":\"{hash}\"}}\n"
    );
    fs::write(&path, text + &line).unwrap();
    let rollout = read(&path).unwrap();
    assert_eq!(rollout.entries[4].record, Record::Unknown);
    assert_eq!(rollout.report.unknown, 1);
    assert!(verify(&path).unwrap().ok);
}

#[test]
fn turns_without_an_end_are_named_over_several_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    write_all(&path, vec![run_started(), turn_started("t-1"), message("a")]);
    append_all(&path, vec![run_started(), turn_started("t-2"), completed("t-2")]).unwrap();
    append_all(&path, vec![run_started(), turn_started("t-3")]).unwrap();
    let report = read(&path).unwrap().report;
    assert_eq!(report.incomplete_turns, ["t-1".into(), "t-3".into()]);
    assert_eq!(report.runs, 3);
}

#[test]
fn d82_the_secret_is_not_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let secret = "top\"secret\nline";
    runtime().block_on(async {
        let masker = Arc::new(Masker::new([("KEY", secret)]));
        let writer = RolloutWriter::create(&path, masker).unwrap();
        writer.append(run_started()).await.unwrap();
        writer.append(message(&format!("it is {secret}!"))).await.unwrap();
        writer.append(message("url https://u:TOK@h")).await.unwrap();
        writer.close().await.unwrap();
    });
    let want = [run_started(), message("it is [masked]!"), message("url https://[masked]@h")];
    assert_eq!(records(&read(&path).unwrap()), want);
}

#[test]
fn d106_many_writers_of_one_process_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let threads: Vec<_> = (0..16)
        .map(|n| {
            let path = folder.path().join(format!("{n}.jsonl"));
            std::thread::spawn(move || {
                let mine: Vec<_> = (0..50).map(|k| message(&format!("{n}-{k}"))).collect();
                write_all(&path, mine.clone());
                assert_eq!(records(&read(&path).unwrap()), mine);
                assert!(verify(&path).unwrap().ok);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn handles_share_one_order_and_batches_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    runtime().block_on(async {
        let writer = RolloutWriter::create(&path, Arc::new(Masker::none())).unwrap();
        let one = |writer: RolloutWriter, name: &'static str| async move {
            for n in 0..40 {
                let pair = vec![message(&format!("{name}{n}a")), message(&format!("{name}{n}b"))];
                writer.append_batch(pair).await.unwrap();
            }
        };
        tokio::join!(one(writer.clone(), "x"), one(writer.clone(), "y"));
        assert_eq!(writer.flush().await.unwrap().records, 160);
        assert_eq!(writer.flush().await.unwrap(), writer.close().await.unwrap());
    });
    let rollout = read(&path).unwrap();
    assert!(verify(&path).unwrap().ok);
    for pair in rollout.entries.chunks(2) {
        let texts: Vec<_> = pair.iter().map(|e| format!("{:?}", e.record)).collect();
        assert_eq!(texts[0].replace("a\", fragment", "b\", fragment"), texts[1]);
    }
}

#[test]
fn dropping_every_handle_still_writes_what_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    runtime().block_on(async {
        let writer = RolloutWriter::create(&path, Arc::new(Masker::none())).unwrap();
        for record in example() {
            writer.append(record).await.unwrap();
        }
    });
    // The thread lets go of its lock last of all.
    let reopened = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        append_all(&path, Vec::new()).ok()
    });
    assert!(reopened.is_some());
    assert_eq!(records(&read(&path).unwrap()), example());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever stands in a file, reading it ends, panics never, and keeps its books.
    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut reader = Reader::new(bytes.as_slice(), Path::new("x"));
        for entry in reader.by_ref() {
            if entry.is_err() { break; }
        }
        prop_assert!(reader.report().lines <= bytes.len() as u64);
    }

    /// Lines of a good file, some cut, doubled, dropped or changed in a byte: every line that is
    /// left whole is read, and nothing damaged passes for whole.
    #[test]
    fn whole_lines_survive_damage_around_them(
        damage in prop::collection::vec((0usize..6, 0usize..5, any::<prop::sample::Index>(), any::<u8>()), 0..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rollout.jsonl");
        let mut want = example();
        want.extend([message("five"), message("six")]);
        write_all(&path, want.clone());
        let text = fs::read_to_string(&path).unwrap();
        let original: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
        let mut lines = original.clone();
        for (line, kind, at, byte) in damage {
            let Some(line_now) = lines.get(line % lines.len().max(1)).cloned() else { break };
            let index = line % lines.len();
            match kind {
                0 => { lines[index].truncate(at.index(line_now.len() + 1)); }
                1 => { lines.remove(index); }
                2 => { lines.insert(index, line_now); }
                3 if !line_now.is_empty() => { lines[index][at.index(line_now.len())] = byte; }
                _ => { lines.insert(index, vec![byte; 3]); }
            }
            if lines.is_empty() { break; }
        }
        let mut bytes = lines.join(&b'\n');
        bytes.push(b'\n');
        fs::write(&path, &bytes).unwrap();
        if let Ok(rollout) = read(&path) {
            // Blank and re-split lines aside, every original line still there is among the entries.
            for (number, line) in original.iter().enumerate() {
                let there = bytes.split(|b| *b == b'\n').any(|l| l == line.as_slice());
                if there {
                    prop_assert!(records(&rollout).contains(&want[number]));
                }
            }
            let ok = verify(&path).unwrap().ok;
            match damage_seen(&lines, &original) {
                Damage::None => prop_assert!(ok),
                Damage::BeforeTheLastLine => prop_assert!(!ok),
                // Nothing comes after the last line that could vouch for it.
                Damage::InTheLastLine => {}
            }
        }
    }
}

enum Damage {
    /// A prefix of the original, as a file that was killed early.
    None,
    BeforeTheLastLine,
    InTheLastLine,
}

fn damage_seen(lines: &[Vec<u8>], original: &[Vec<u8>]) -> Damage {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
        .collect();
    let same =
        lines.iter().zip(original).take_while(|(line, one)| **line == one.as_slice()).count();
    match lines.len() - same {
        0 if same > 0 => Damage::None,
        1 => Damage::InTheLastLine,
        _ => Damage::BeforeTheLastLine,
    }
}
