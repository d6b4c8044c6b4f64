//! What people read, as a whole: snapshots of what a run prints.

use super::support::{Run, Sandboxed, command, patch, script};
use snapbox::{assert_data_eq, str};

const POLICY: &str = "version: 1
exec:
  allow: [\"cat *\", \"true\"]
files: { read: [\"**\"], write: [\"**\"] }
";

#[test]
fn a_run_as_people_read_it() {
    let place = Sandboxed::with_policy(POLICY);
    place.write("ws/a.txt", "a\n");
    place.write(
        "model.yaml",
        script(&[
            &command("curl https://example.com"),
            &patch("*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** End Patch\n"),
        ]),
    );
    let done =
        Run::exec(&place, &["--model", "scripted/model.yaml", "--verify", "cat a.txt", "Do it."])
            .finish();
    assert_data_eq!(
        done.stdout,
        str![
            "done

"
        ]
    );
    assert_data_eq!(
        done.stderr,
        str![[r#"
artifacts: [..]/out
step 1
  call exec_command: curl https://example.com
  deny curl https://example.com: `curl https://example.com`: no rule allows `curl` (built-in: exec.default: deny)
  denied exec_command, [..]
step 2
  call apply_patch: a.txt
  allow write a.txt (policy.yaml:4:32: files.write: **)
  ok apply_patch, [..]
step 3
  model: done
diff: 1 file, +1 -1
check cat a.txt: started
check cat a.txt: passed, [..]
turn completed
turnkey: completed, exit 0, [..]: the turn completed
artifacts: [..]/out

"#]]
    );
}

#[test]
fn a_refusal_as_people_read_it() {
    let place = Sandboxed::with_policy("version: 1\nexec:\n  alow: [\"true\"]\n  on_deny: never\n");
    let done = Run::exec(&place, &["--model", "scripted/model.yaml", "Do it."]).finish();
    assert_eq!(done.status, 2);
    assert_data_eq!(
        done.stderr,
        str![[r#"
turnkey: invalid: policy.yaml:3:3: unknown key "alow" in exec
  hint: did you mean "allow"?
policy.yaml:4:12: "exec.on_deny" must be one of continue, stop, fail_at_end, not the text "never"

"#]]
    );
}

#[test]
fn no_model_as_people_read_it() {
    let place = Sandboxed::with_policy(POLICY);
    let done = Run::exec(&place, &["Do it."]).finish();
    assert_eq!(done.status, 2);
    assert_data_eq!(
        done.stderr,
        str![[r#"
turnkey: invalid: model: no model is named
  hint: give --model PROVIDER/NAME, or model: { use: PROVIDER/NAME } in a spec

"#]]
    );
}

#[test]
fn a_file_that_is_not_there_as_people_read_it() {
    let place = Sandboxed::with_policy(POLICY);
    let model = ["--model", "scripted/model.yaml"];
    for (args, told) in [
        (
            &["--spec", "task.yaml"][..],
            "turnkey: invalid: the spec task.yaml: No such file or directory (os error 2)\n  hint: name an existing file with --spec, or give the task itself: turnkey exec \"TASK\"\n",
        ),
        (
            &["--task-file", "task.md"],
            "turnkey: invalid: the task file task.md: No such file or directory (os error 2)\n  hint: name an existing file, or give the task as an argument or, with -, as input\n",
        ),
        (
            &["--input", "title=@title.txt", "Do it."],
            "turnkey: invalid: the input \"title\": title.txt: No such file or directory (os error 2)\n  hint: name an existing file, or give the text itself: --input NAME=TEXT\n",
        ),
    ] {
        let done = Run::exec(&place, &[args, &model].concat()).finish();
        assert_eq!((done.status, done.stderr.as_str()), (2, told), "{args:?}");
        assert_eq!(done.result()["state"], "invalid");
    }
}
