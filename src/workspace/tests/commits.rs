//! Patches: all or nothing, and only what was permitted.

use super::*;

#[test]
fn a_patch_makes_replaces_and_deletes() {
    let scene = Scene::plain();
    scene.write("old.txt", "old\n");
    scene.write("gone.txt", "gone\n");
    let workspace = scene.open();
    let changes = vec![
        change("new/deep/file.txt", None, Some(new_file("new\n", 0o644))),
        change("old.txt", Some(regular("old\n", 0o644)), Some(new_file("newer\n", 0o644))),
        change("gone.txt", Some(regular("gone\n", 0o644)), None),
    ];
    let permit = permit(&workspace, &["new/deep/file.txt", "old.txt", "gone.txt"]);
    let committed = workspace.commit(&permit, &plan(changes)).expect("commits");
    assert_eq!(committed.files.len(), 3);
    assert_eq!(committed.notes, Vec::<String>::new());
    assert_eq!(scene.bytes("new/deep/file.txt").as_deref(), Some(b"new\n".as_slice()));
    assert_eq!(scene.bytes("old.txt").as_deref(), Some(b"newer\n".as_slice()));
    assert_eq!(scene.bytes("gone.txt"), None);
    assert_eq!(scene.tree().len(), 4, "{:?}", scene.tree());
    assert_eq!(std::fs::read_dir(&scene.store).expect("store").count(), 0);
}
