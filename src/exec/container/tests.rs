use super::*;
use crate::exec::Launchers;

fn config(place: Place, workspace: &Path) -> ContainerConfig {
    ContainerConfig {
        engine: Engine {
            runtime: Runtime::Docker,
            client: "/usr/bin/docker".into(),
            env: vec![("HOME".into(), "/home/op".into())],
            launchers: Launchers::new("/turnkey".into()),
        },
        place,
        run: "r1".into(),
        uid: 10001,
        gid: 10002,
        workspace: workspace.to_owned(),
        scratch: workspace.join("scratch"),
        read: vec!["/".into(), "/usr".into()],
        write: vec![workspace.join("src"), workspace.join("src/deep")],
        protected: vec![workspace.join("src/.git"), workspace.join("absent")],
        run_folder: "/run-folder".into(),
        processes: Some(64),
        memory: Some(1 << 30),
        pull: Duration::from_secs(1),
    }
}

fn container(place: Place, workspace: &Path) -> Container {
    let config = config(place, workspace);
    Container {
        mounts: mounts(&config),
        config,
        image: "sha256:abc".into(),
        has_bash: true,
        init: false,
        next: Arc::new(AtomicU64::new(7)),
    }
}

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["scratch", "src/deep", "src/.git"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    dir
}

#[test]
fn the_workspace_is_mounted_read_only_but_for_what_the_policy_grants() {
    let dir = tree();
    let at = |inside: &str| dir.path().join(inside).display().to_string();
    let mounts = mounts(&config(Place::Image("i".into()), dir.path()));
    let bind = |inside: &str, kind: &str| {
        let path = if inside.is_empty() { dir.path().display().to_string() } else { at(inside) };
        format!("type=bind,source={path},target={path}{kind}")
    };
    assert_eq!(
        mounts,
        [
            bind("", ",readonly"),
            bind("scratch", ""),
            bind("src", ""),
            bind("src/.git", ",readonly"),
        ]
    );
    assert_eq!(
        mount(Path::new("/a,b\"c"), true),
        "type=bind,\"source=/a,b\"\"c\",\"target=/a,b\"\"c\""
    );
}

#[test]
fn a_command_gets_a_container_of_its_own_without_network_capabilities_or_secrets_in_its_words() {
    let dir = tree();
    let container = container(Place::Image("i".into()), dir.path());
    let command =
        Command::Argv { program: "cargo".into(), argv: vec!["cargo".into(), "-V".into()] };
    let work = |network, wiring| Work {
        command: &command,
        cwd: dir.path(),
        env: vec![
            ("PATH".into(), "/host/bin".into()),
            ("HOME".into(), "/scratch/home".into()),
            ("TOKEN".into(), "s3cret".into()),
        ],
        network,
        wiring,
    };
    let (setting, order) = container.order(work(&Network::None, Wiring::Closed)).unwrap();
    assert!(setting.unconfined && setting.confinement == Confinement::default());
    let text = order.argv.join(" ");
    for part in [
        "docker run --rm --name turnkey-r1-7 --label turnkey.run=r1 --pull never",
        "--read-only",
        "--cap-drop ALL --security-opt no-new-privileges --network none",
        "--pids-limit 64 --memory 1073741824",
        "--user 10001:10002",
        "--env HOME=/scratch/home --env TOKEN sha256:abc cargo -V",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(!text.contains("s3cret") && !text.contains("/host/bin"), "{text}");
    assert!(order.env.contains(&("TOKEN".into(), "s3cret".into())));
    assert!(order.env.contains(&("HOME".into(), "/home/op".into())), "the client's own home");
    assert_eq!(order.afterwards.unwrap().argv, ["docker", "rm", "--force", "turnkey-r1-7"]);
    let open = container.order(work(&Network::Open, Wiring::Open)).unwrap().1.argv.join(" ");
    assert!(!open.contains("--network") && open.contains("--interactive"), "{open}");
    let hosts = Network::Hosts(vec!["example.com".into()]);
    assert!(container.order(work(&hosts, Wiring::Closed)).is_err(), "never more than granted");
}

#[test]
fn a_named_container_is_swept_after_every_command() {
    let dir = tree();
    let container = container(Place::Name("builder".into()), dir.path());
    let command = Command::Script("echo hi".into());
    let work = Work {
        command: &command,
        cwd: dir.path(),
        env: Vec::new(),
        network: &Network::None,
        wiring: Wiring::Terminal(Default::default()),
    };
    let (_, order) = container.order(work).unwrap();
    let text = order.argv.join(" ");
    assert!(text.starts_with("docker exec --env TURNKEY_COMMAND=turnkey-r1-7 --user"), "{text}");
    assert!(text.contains("--interactive --tty builder bash --noprofile --norc -c echo hi"));
    let afterwards = order.afterwards.unwrap();
    assert!(afterwards.always);
    assert_eq!(afterwards.argv.last().unwrap(), "TURNKEY_COMMAND=turnkey-r1-7");
}
