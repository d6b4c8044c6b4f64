//! The specs that ship with the project are specs.

use crate::spec::{EnvValues, FlagValues, parse, resolve, yaml};
use std::path::Path;

const TASK: &str = include_str!("../../../ci-examples/fix-failing-test/task.yaml");

#[test]
fn the_example_is_a_whole_run() {
    let file = "ci-examples/fix-failing-test/task.yaml";
    let spec = parse(file, TASK).unwrap();
    let settings = resolve(FlagValues::default(), EnvValues::default(), Some(&spec)).unwrap();
    assert_eq!(settings.workspace.value, Path::new("ci-examples/fix-failing-test/sample"));
    assert_eq!(settings.model.base_dir, Path::new("ci-examples/fix-failing-test"));
    assert_eq!(settings.model.name.value.to_string(), "scripted/model.yaml");
}

#[test]
fn the_files_beside_it_are_yaml_of_our_kind() {
    for source in [
        include_str!("../../../ci-examples/fix-failing-test/policy.yaml"),
        include_str!("../../../ci-examples/fix-failing-test/model.yaml"),
    ] {
        yaml::parse("example", source).unwrap();
    }
}
