//! What a GitHub Actions runner would read.

use super::super::github::*;
use super::schema::full_record;
use super::*;
use std::fs;

/// Reads outputs the way the runner does: `name=value`, or `name<<END`, lines, END.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut outputs = Vec::new();
    let mut lines = text.split('\n');
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        let heredoc = line.find("<<").filter(|at| line.find('=').is_none_or(|eq| *at < eq));
        if let Some(at) = heredoc {
            let (name, end) = (&line[..at], &line[at + 2..]);
            let mut value = Vec::new();
            loop {
                match lines.next().expect("the delimiter comes") {
                    inner if inner == end => break,
                    inner => value.push(inner),
                }
            }
            outputs.push((name.to_owned(), value.join("\n")));
        } else {
            let (name, value) = line.split_once('=').expect(line);
            outputs.push((name.to_owned(), value.to_owned()));
        }
    }
    outputs
}

#[test]
fn d103_no_value_can_set_another_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let values = [
        "x\nEOF\nstate=success\n",
        "x\nEOF\nstate=success",
        "x\r\nEOF\r\nstate=success\r\n",
        "state<<EOF\nsuccess\nEOF",
        "",
        "\n\n",
        "plain",
        "end_0123\nstate=success",
    ];
    // Somebody else's line without its newline must not swallow ours.
    fs::write(&path, "before=1").unwrap();
    for value in values {
        write_outputs(&path, &[("state", "unverified"), ("message", value)]).unwrap();
    }
    let outputs = parse(&fs::read_to_string(&path).unwrap());
    assert_eq!(outputs[0], ("before".into(), "1".into()));
    for (pair, value) in outputs[1..].chunks(2).zip(values) {
        assert_eq!(pair[0], ("state".into(), "unverified".into()));
        assert_eq!(pair[1], ("message".into(), value.into()));
    }
    assert_eq!(outputs.len(), 1 + 2 * values.len());
}

#[test]
fn d103_the_delimiter_is_random_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let mut guesses = ["end_1", "end_2", "end_3"].iter().map(|guess| (*guess).to_owned());
    write_outputs_with(&path, &[("m", "has end_1\nend_2")], || guesses.next().unwrap()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "m<<end_3\nhas end_1\nend_2\nend_3\n");
    let ends: std::collections::BTreeSet<_> = (0..100).map(|_| random_delimiter()).collect();
    assert_eq!(ends.len(), 100);
    assert!(ends.iter().all(|end| end.len() == 36));
}

#[test]
fn names_and_files_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    for name in ["", "a b", "a\nb", "a=b", "1a", "a<<b", "ä"] {
        assert!(matches!(write_outputs(&path, &[(name, "x")]), Err(GithubError::Name { .. })));
    }
    assert!(!path.exists(), "nothing is written before everything is checked");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(write_outputs(&link, &[("a", "x")]), Err(GithubError::Io { .. })));
    assert!(matches!(write_outputs(folder.path(), &[("a", "x")]), Err(GithubError::Io { .. })));
}

#[test]
fn outputs_are_cut_to_what_the_host_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("output");
    let long = "阴".repeat(1 << 20);
    write_outputs(&path, &[("a", &long), ("b", &long)]).unwrap();
    let outputs = parse(&fs::read_to_string(&path).unwrap());
    assert!(outputs.iter().all(|(_, value)| value.len() < 300 << 10));
    assert!(outputs[0].1.contains("bytes left out"));
    let error = write_outputs(&path, &[("c", &long), ("d", &long), ("e", &long)]).unwrap_err();
    assert!(matches!(error, GithubError::Full { .. }), "{error}");
    assert_eq!(parse(&fs::read_to_string(&path).unwrap()).len(), 2, "all of a call or nothing");
}

#[test]
fn the_step_summary_stays_within_a_mebibyte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("summary");
    append_step_summary(&path, "# one\n").unwrap();
    append_step_summary(&path, &"| 阴影 |\n".repeat(200_000)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.len() <= MAX_FILE && text.len() > MAX_FILE - 400, "{}", text.len());
    assert!(text.starts_with("# one\n| 阴影 |\n"));
    let mut last = text.lines().rev();
    assert_eq!(last.next(), Some("_Cut: the summary is longer than this host shows._"));
    assert_eq!((last.next(), last.next()), (Some(""), Some("| 阴影 |")));
    let full = append_step_summary(&path, &"more\n".repeat(100));
    assert!(full.is_err() || fs::metadata(&path).unwrap().len() <= MAX_FILE as u64);
}

#[test]
fn annotations_are_escaped_masked_and_capped() {
    let one = |level, title: &str, message: &str| Annotation {
        level,
        title: title.into(),
        message: message.into(),
        file: Some(("src/a,b:c.rs".into(), 3)),
    };
    let masker = Masker::new([("K", "s3cr3t-value")]);
    let commands = annotation_commands(
        &[one(Level::Error, "a, b: 100%\n::x", "one\r\ntwo s3cr3t-value 100%\n::error::y")],
        &masker,
    );
    assert_eq!(
        commands,
        ["::error file=src/a%2Cb%3Ac.rs,line=3,title=a%2C b%3A 100%25\\n%3A%3Ax::one%0D%0Atwo \
          [masked] 100%25%0A::error::y"]
    );
    let many: Vec<_> = (0..30)
        .map(|n| one([Level::Error, Level::Warning, Level::Notice][n % 3], "t", "m"))
        .collect();
    assert_eq!(annotation_commands(&many, &masker).len(), 30);
    let many: Vec<_> = (0..25).map(|_| one(Level::Warning, "t", "m")).collect();
    let commands = annotation_commands(&many, &masker);
    assert_eq!(commands.len(), MAX_ANNOTATIONS);
    assert_eq!(commands[9], "::warning title=turnkey::And 16 more.");
}

#[test]
fn a_run_has_the_annotations_of_its_outcome() {
    let mut record = full_record();
    record.end(&Outcome::new(State::Blocked, "policy", "Denied."), TS, 5, exit_status);
    let titles: Vec<_> = annotations(&record).into_iter().map(|a| (a.level, a.title)).collect();
    assert_eq!(
        titles,
        [
            (Level::Error, "turnkey: blocked (policy)".to_owned()),
            (Level::Error, "check tests failed".to_owned()),
            (Level::Warning, "denied".to_owned()),
        ]
    );
    assert_eq!(group_start("a\n::b"), "::group::a\\n::b");
}
