//! What commands may not read stays hidden while other commands move folders around it.

use super::ahead::{LIMITS, Place, each_with_namespaces};
use tokio_util::sync::CancellationToken;
use turnkey::exec::Wiring;
use turnkey::exec::sandbox::Layers;

/// A workspace with something hidden in `open/a`, and the same name in `open/c`.
fn with_hidden(layers: Layers) -> Place {
    Place::with(layers, false, |input, work| {
        for (folder, text) in [("open/a", "KEY\n"), ("open/c", "decoy\n")] {
            std::fs::create_dir(work.join(folder)).unwrap();
            std::fs::write(work.join(folder).join("secret"), text).unwrap();
        }
        input.hidden = vec![work.join("open/a/secret")];
    })
}

#[test]
fn what_is_hidden_does_not_lie_open_elsewhere_while_another_file_is_in_its_place() {
    each_with_namespaces(|layers| {
        let place = with_hidden(layers);
        place.holds("mv open/a open/x && mv open/c open/a");
        let error = place.try_run("cat open/x/secret").unwrap_err().to_string();
        assert!(error.contains("is not what it was when the run started"), "{layers:?}: {error}");
    });
}

#[test]
fn a_hidden_folder_covers_what_is_hidden_in_it() {
    each_with_namespaces(|layers| {
        let place = Place::with(layers, false, |input, work| {
            std::fs::create_dir(work.join("open/a")).unwrap();
            std::fs::write(work.join("open/a/secret"), "KEY\n").unwrap();
            input.hidden = vec![work.join("open/a"), work.join("open/a/secret")];
        });
        place.holds("! cat open/a/secret && ! ls open/a");
        place.holds("! cat open/a/secret && ! ls open/a");
    });
}

#[test]
fn a_command_at_work_that_moves_folders_to_and_fro_opens_nothing_for_the_others() {
    const SWAP: &str = "exec timeout 15 python3 -c '
import ctypes
swap = ctypes.CDLL(None).syscall
while True: swap(316, -100, b\"open/a\", -100, b\"open/c\", 2)
'";
    if !cfg!(target_arch = "x86_64") {
        println!("SKIPPED: the number of renameat2 is that of x86-64");
        return;
    }
    each_with_namespaces(|layers| {
        let place = with_hidden(layers);
        let swap = place.executor.start(place.permit(SWAP), Wiring::Closed, LIMITS);
        let live = place.runtime.block_on(swap).unwrap();
        let cancel = CancellationToken::new();
        let mut ran = 0;
        for _ in 0..60 {
            let reads = place.permit("cat open/a/secret open/c/secret");
            let done = place.runtime.block_on(place.executor.run(reads, LIMITS, &cancel));
            if let Ok(done) = done {
                assert!(!done.output.text.contains("KEY"), "{layers:?}, after {ran}");
                ran += 1;
            }
        }
        println!("{layers:?}: {ran} of 60 ran");
        place.runtime.block_on(live.end_now());
    });
}
