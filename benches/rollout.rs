//! What the record costs: a line without and with its sync, and reading a long one back.

use divan::{Bencher, counter::BytesCount};
use std::path::Path;
use std::sync::Arc;
use turnkey::job::Past;
use turnkey::protocol::{CallId, Effect, Item, ResultKind, Role, ToolResult};
use turnkey::rollout::{Masker, Reader, Record, RolloutWriter, read, verify};

fn main() {
    divan::main();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn masker() -> Arc<Masker> {
    let secrets = (0..8).map(|n| (format!("KEY_{n}"), format!("sk-test-{n}-0123456789abcdef{n}")));
    Arc::new(Masker::new(secrets))
}

fn result(step: u32) -> Record {
    let output = "test result: ok. 12 passed; 0 failed; finished in 0.03s\n".repeat(10);
    let result = ToolResult {
        call_id: CallId::from("call_0123456789"),
        name: "exec_command".into(),
        result: ResultKind::Ok,
        effect: Effect::Done,
        output,
        exit_code: Some(0),
        duration_ms: 31,
        freeform: false,
    };
    Record::Item { step, response_id: None, item: Arc::new(Item::ToolResult(result)) }
}

fn message(step: u32) -> Record {
    let item = Item::Message {
        role: Role::Assistant,
        text: "I run the tests again.".into(),
        fragment: None,
        raw: None,
    };
    Record::Item { step, response_id: Some("resp_1".into()), item: Arc::new(item) }
}

/// 100 records, one sync at the end.
#[divan::bench(sample_count = 50)]
fn append_100(bencher: Bencher) {
    let (runtime, folder, masker) = (runtime(), tempfile::tempdir().expect("a folder"), masker());
    let writer = RolloutWriter::create(&folder.path().join("r.jsonl"), masker).expect("a file");
    bencher.bench_local(|| {
        runtime.block_on(async {
            for step in 0..100 {
                writer.append(result(step)).await.expect("appended");
            }
            writer.flush().await.expect("flushed")
        })
    });
}

/// What a step pays: two records and their sync.
#[divan::bench(sample_count = 200)]
fn append_2_and_flush(bencher: Bencher) {
    let (runtime, folder, masker) = (runtime(), tempfile::tempdir().expect("a folder"), masker());
    let writer = RolloutWriter::create(&folder.path().join("r.jsonl"), masker).expect("a file");
    bencher.bench_local(|| {
        runtime.block_on(async {
            writer.append(message(1)).await.expect("appended");
            writer.append(result(1)).await.expect("appended");
            writer.flush().await.expect("flushed")
        })
    });
}

fn long_rollout(path: &Path) -> u64 {
    runtime().block_on(async {
        let writer = RolloutWriter::create(path, masker()).expect("a file");
        for step in 0..5_000 {
            writer.append(message(step)).await.expect("appended");
            writer.append(result(step)).await.expect("appended");
        }
        writer.close().await.expect("closed").bytes
    })
}

#[divan::bench(sample_count = 10)]
fn read_10_000_records(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let bytes = long_rollout(&path);
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| read(&path).expect("read").entries.len());
}

#[divan::bench(sample_count = 10)]
fn stream_10_000_records(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let bytes = long_rollout(&path);
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| Reader::open(&path).expect("opened").filter(Result::is_ok).count());
}

#[divan::bench(sample_count = 10)]
fn verify_10_000_records(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let bytes = long_rollout(&path);
    bencher.counter(BytesCount::new(bytes)).bench_local(|| verify(&path).expect("read").ok);
}

/// What a resume does before anything else: the Session folded out of its record.
#[divan::bench(sample_count = 10)]
fn fold_10_000_records(bencher: Bencher) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.jsonl");
    let bytes = long_rollout(&path);
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| Past::read(&path, None).expect("read").0.history.len());
}

/// Masking of output that holds no secret, which is nearly all of it.
#[divan::bench(sample_count = 20)]
fn mask_1_mib_without_a_secret(bencher: Bencher) {
    let masker = masker();
    let text = "   Compiling some-crate v1.2.3 (/work/some-crate): https://example.com/x\n"
        .repeat((1 << 20) / 72);
    bencher.counter(BytesCount::new(text.len())).bench_local(|| masker.mask(&text).len());
}
