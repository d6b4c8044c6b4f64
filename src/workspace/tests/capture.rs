//! The start, the changes, who made them.

use super::*;

#[test]
fn d37_all_changes_of_the_turn_whoever_made_them() {
    for scene in [Scene::git(), Scene::plain()] {
        for name in ["a.txt", "b.txt", "c.txt", "f.txt"] {
            scene.write(name, format!("{name}\n"));
        }
        if scene.path(".git").exists() {
            scene.commit_all();
        }
        let mut workspace = scene.captured();
        let committed = edit(&workspace, "a.txt", Some("patched\n")).expect("commits");
        workspace.note_patch("call-1", &committed).expect("notes");
        workspace.command_started("call-2");
        scene.write("b.txt", "rewritten\n");
        scene.remove("c.txt");
        scene.write("d/e.txt", "new\n");
        scene.write("f.txt", "changed\n");
        scene.write("f.txt", "f.txt\n");
        workspace.after_command("call-2").expect("looks");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M a.txt", "M b.txt", "D c.txt", "A d/e.txt"]);
        assert!(changes.exact, "{:?}", changes.reasons);
        assert_eq!(content(&changes.files[1].before), b"b.txt\n");
        assert_eq!(content(&changes.files[1].after), b"rewritten\n");
        let who: Vec<_> = changes
            .attribution
            .iter()
            .map(|one| (one.calls[0].id.as_str(), one.calls[0].by, one.calls.len(), one.outside))
            .collect();
        let command = ("call-2", By::Command, 1, false);
        assert_eq!(who, [("call-1", By::Patch, 1, false), command, command, command]);
    }
}

#[test]
fn d38_untracked_files_only_if_new_or_changed() {
    let scene = Scene::git();
    scene.write(".gitignore", "*.log\n");
    scene.commit_all();
    scene.write("p.txt", "before\n");
    let mut workspace = scene.captured();
    scene.write("q.txt", "new\n");
    scene.write("deep/er/q.txt", "new\n");
    scene.write("r.log", "ignored\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["A deep/er/q.txt", "A q.txt"]);
    assert!(changes.exact);
}
