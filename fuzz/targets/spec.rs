//! Spec files and the YAML reader behind every file that people write.

use turnkey::spec::{self, yaml};

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.split('\n').count();
    if let Err(faults) = yaml::parse("spec.yaml", &text) {
        assert!(!faults.is_empty(), "refused without a reason");
    }
    match spec::parse("spec.yaml", &text) {
        Ok(_) => assert!(yaml::parse("spec.yaml", &text).is_ok()),
        Err(faults) => {
            assert!(!faults.is_empty(), "refused without a reason");
            for fault in faults {
                let shown = fault.to_string();
                assert!(shown.starts_with("spec.yaml"), "without its place: {shown}");
                assert!(shown.len() < 64 * 1024 && lines > 0);
            }
        }
    }
}
