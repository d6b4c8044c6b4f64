//! Git's files with their bytes changed at random: an answer or an error, never a panic, and never
//! an object that is not what its id says.

use proptest::prelude::*;

use super::*;
use crate::workspace::git::index::Index;
use crate::workspace::git::objects::Objects;
use crate::workspace::git::{ObjectFormat, Oid};

/// Change some bytes and perhaps cut the end.
fn damage(bytes: &mut Vec<u8>, changes: &[(u32, u8)], cut: Option<u32>) {
    if bytes.is_empty() {
        return;
    }
    for (at, byte) in changes {
        let at = *at as usize % bytes.len();
        bytes[at] = *byte;
    }
    if let Some(cut) = cut {
        bytes.truncate(cut as usize % bytes.len());
    }
}

type Damage = (Vec<(u32, u8)>, Option<u32>);

fn damages(most: usize) -> impl Strategy<Value = Damage> {
    let changes = proptest::collection::vec(any::<(u32, u8)>(), 0..most);
    (changes, proptest::option::weighted(0.2, any::<u32>()))
}

struct Repository {
    scene: Scene,
    indexes: Vec<Vec<u8>>,
    pack: Vec<u8>,
    pack_index: Vec<u8>,
    pack_path: PathBuf,
    ids: Vec<Oid>,
}

/// One repository for all cases of a test.
fn repository() -> Repository {
    let scene = Scene::git();
    let long = "a line that is long enough to be worth a delta\n".repeat(50);
    for n in 0..8 {
        scene.write("deep/er/file", format!("{long}{n}\n"));
        scene.write(&format!("file{n}"), format!("{n}\n{long}"));
        scene.commit_all();
    }
    let mut indexes = Vec::new();
    for version in ["2", "4"] {
        scene.run_git(&["update-index", "--index-version", version]);
        let mut index = scene.bytes(".git/index").expect("an index");
        // Without a checksum git and we skip it, so that damage gets through to the parser.
        let end = index.len() - 20;
        index[end..].fill(0);
        indexes.push(index);
    }
    scene.run_git(&["repack", "-adfq", "--depth=20", "--window=20"]);
    scene.run_git(&["prune-packed"]);
    let folder = scene.path(".git/objects/pack");
    let pack_path = std::fs::read_dir(&folder)
        .expect("packs")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|end| end == "pack"))
        .expect("a pack");
    let pack_index = std::fs::read(pack_path.with_extension("idx")).expect("its index");
    let ids = scene.run_git(&["rev-list", "--objects", "--no-object-names", "--all"]);
    let ids = ids.lines().map(|id| Oid::from_hex(id.as_bytes()).expect("an id")).collect();
    let pack = std::fs::read(&pack_path).expect("a pack");
    Repository { scene, indexes, pack, pack_index, pack_path, ids }
}

#[test]
fn damaged_indexes() {
    let repository = repository();
    let path = repository.scene.beside("index");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(600));
    runner
        .run(&(0..2_usize, damages(12)), |(which, (changes, cut))| {
            let mut bytes = repository.indexes[which].clone();
            damage(&mut bytes, &changes, cut);
            std::fs::write(&path, &bytes).expect("writes");
            if let Ok(index) = Index::read(&path, ObjectFormat::Sha1, b"") {
                for entry in index.entries() {
                    prop_assert!(index.find(index.name(entry)).is_some(), "they are in order");
                }
            }
            let _ = Index::read(&path, ObjectFormat::Sha256, b"deep/");
            Ok(())
        })
        .expect("no panic");
}

#[test]
fn damaged_packs() {
    let repository = repository();
    let place = GitPlace::discover(&repository.scene.root).expect("git");
    let index_path = repository.pack_path.with_extension("idx");
    // Git makes them read-only, and an open one must not change under another case.
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::remove_file(path).expect("removes");
        std::fs::write(path, bytes).expect("writes");
    };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(150));
    runner
        .run(&(damages(8), damages(3)), |(pack_damage, index_damage)| {
            let (mut pack, mut index) = (repository.pack.clone(), repository.pack_index.clone());
            damage(&mut pack, &pack_damage.0, pack_damage.1);
            damage(&mut index, &index_damage.0, index_damage.1);
            write(&repository.pack_path, &pack);
            write(&index_path, &index);
            let objects = Objects::open(&place);
            for id in &repository.ids {
                if let Ok(object) = objects.read(id, 1 << 20) {
                    let found = ObjectFormat::Sha1.id_of(object.kind.name(), &object.bytes);
                    prop_assert_eq!(found, *id);
                }
            }
            Ok(())
        })
        .expect("no panic, no wrong object");
    // And undamaged all of them are there.
    write(&repository.pack_path, &repository.pack);
    write(&index_path, &repository.pack_index);
    let objects = Objects::open(&place);
    for id in &repository.ids {
        objects.read(id, 1 << 20).expect("an object");
    }
}

#[test]
fn settings_rules_and_refs_of_any_bytes() {
    let scene = Scene::git();
    scene.write("a/b", "x\n");
    scene.commit_all();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(60));
    let text = "[ -~\u{e9}\n\t\\*!/\\[\\]]{0,80}";
    let bytes = proptest::collection::vec(any::<u8>(), 0..60);
    runner
        .run(&(text, bytes), |(text, bytes)| {
            for name in [".gitignore", "a/.gitignore", ".gitattributes", ".git/info/exclude"] {
                scene.write(name, [text.as_bytes(), &bytes].concat());
            }
            scene.write(".git/packed-refs", &bytes);
            scene.write(".git/config", [b"[core]\n", text.as_bytes()].concat());
            let mut workspace = scene.captured();
            scene.write("a/b", "y\n");
            let changes = workspace.turn_changes().expect("compares");
            prop_assert_eq!(short(&changes.files), ["M a/b"], "tracked, whatever is ignored");
            scene.write("a/b", "x\n");
            workspace.outline().expect("outlines");
            Ok(())
        })
        .expect("no panic");
}
