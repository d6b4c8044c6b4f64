//! Random text against random files: no panic, no half plan.

use proptest::prelude::*;

use super::*;

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{0,2}",
        1 => "[ \t]{0,2}[ab–“\u{a0}]{0,3}[ \t\r]{0,2}",
        1 => any::<String>().prop_map(|text| text.replace('\n', "")),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    let ending = prop_oneof![4 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r")];
    let lines = proptest::collection::vec((line(), ending), 0..12);
    (lines, any::<bool>(), any::<bool>()).prop_map(|(lines, bom, cut)| {
        let mut bytes = if bom { vec![0xEF, 0xBB, 0xBF] } else { Vec::new() };
        lines.iter().for_each(|(line, ending)| {
            bytes.extend(line.as_bytes());
            bytes.extend(ending.as_bytes());
        });
        if cut {
            bytes.pop();
        }
        bytes
    })
}

fn path() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "a", "b", "./a", "d/e", "d", "d/../a", "l", "l/x", "", "..", "/a",
    ])
}

fn patch_line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (proptest::sample::select(vec![" ", "-", "+", "", "\\", "\t"]), line())
            .prop_map(|(prefix, line)| format!("{prefix}{line}")),
        2 => line().prop_map(|line| format!("@@ {line}")),
        1 => Just("@@".to_owned()),
        1 => Just("*** End of File".to_owned()),
        1 => Just("\\ No newline at end of file".to_owned()),
        2 => path().prop_map(|path| format!("*** Update File: {path}")),
        1 => path().prop_map(|path| format!("*** Move to: {path}")),
        1 => path().prop_map(|path| format!("*** Add File: {path}")),
        1 => path().prop_map(|path| format!("*** Delete File: {path}")),
    ]
}

fn files() -> impl Strategy<Value = Memory> {
    (content(), content(), content()).prop_map(|(a, b, e)| {
        let mut files = Memory::new([("a", &a), ("b", &b), ("d/e", &e)]);
        files.link("l", "d");
        files
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&wrap(&text));
        let _ = from_shell(&text);
        let mut parser = Parser::new();
        parser.feed(&text);
        let _ = parser.finish();
    }

    #[test]
    fn arbitrary_bytes_of_patches_never_panic(
        lines in proptest::collection::vec(patch_line(), 0..14),
        files in files(),
    ) {
        let text = wrap(&lines.join("\n"));
        if let Ok(patch) = parse(&text) {
            match plan(&patch, &files) {
                // A plan commits as a whole, every precondition holding.
                Ok(plan) => {
                    let mut after = files.clone();
                    after.commit(&plan);
                    let _ = plan.summary();
                }
                Err(error) => {
                    let shown = error.to_string();
                    prop_assert!(shown.lines().count() <= 2, "{}", shown);
                }
            }
        }
    }

    /// A patch made from two versions of a file, with enough context to be certain, makes the one
    /// from the other. Lines are unique, so nothing is ambiguous.
    #[test]
    fn a_patch_made_from_two_versions_leads_from_one_to_the_other(
        kept in proptest::collection::vec((any::<bool>(), 0usize..3), 1..25),
        crlf in any::<bool>(),
        final_newline in any::<bool>(),
    ) {
        let ending = if crlf { "\r\n" } else { "\n" };
        let (mut before, mut after, mut chunk) = (Vec::new(), Vec::new(), String::from("@@\n"));
        for (number, (keep, inserted)) in kept.iter().enumerate() {
            for extra in 0..*inserted {
                after.push(format!("new {number} {extra}"));
                chunk.push_str(&format!("+new {number} {extra}\n"));
            }
            before.push(format!("line {number}"));
            if *keep {
                after.push(format!("line {number}"));
                chunk.push_str(&format!(" line {number}\n"));
            } else {
                chunk.push_str(&format!("-line {number}\n"));
            }
        }
        // The last line stays, so that both versions end alike.
        before.push("end".to_owned());
        after.push("end".to_owned());
        chunk.push_str(" end\n");
        let file = |lines: &[String]| {
            let tail = if final_newline { ending } else { "" };
            format!("{}{tail}", lines.join(ending)).into_bytes()
        };
        prop_assert_eq!(update(&file(&before), &chunk).unwrap(), file(&after));
    }

    /// Placing by counting ways agrees with trying every assignment.
    #[test]
    fn placing_agrees_with_trying_every_assignment(
        file in "[abc]{1,7}",
        chunks in proptest::collection::vec("[abc]{1,2}", 1..4),
    ) {
        let before: String = file.chars().map(|c| format!("{c}\n")).collect();
        let mut text = String::new();
        for (number, chunk) in chunks.iter().enumerate() {
            let removed: String = chunk.chars().map(|c| format!("-{c}\n")).collect();
            text.push_str(&format!("@@\n{removed}+{number}\n"));
        }
        let places: Vec<Vec<usize>> = chunks
            .iter()
            .map(|chunk| (0..file.len()).filter(|at| file[*at..].starts_with(chunk.as_str())).collect())
            .collect();
        let ways = assignments(&places, &chunks);
        let ordered: Vec<&Vec<usize>> = ways.iter().filter(|way| way.is_sorted()).collect();
        match update(before.as_bytes(), &text) {
            Ok(after) => {
                // Either the only one in order, or, where none is in order, the only one.
                let way = match ordered.as_slice() {
                    [only] => (*only).clone(),
                    _ => {
                        prop_assert!(ordered.is_empty() && ways.len() == 1, "{:?}", ways);
                        ways[0].clone()
                    }
                };
                let mut expected = String::new();
                let mut at = 0;
                while at < file.len() {
                    match way.iter().position(|place| *place == at) {
                        Some(number) => {
                            expected.push_str(&format!("{number}\n"));
                            at += chunks[number].len();
                        }
                        None => {
                            expected.push_str(&format!("{}\n", &file[at..=at]));
                            at += 1;
                        }
                    }
                }
                prop_assert_eq!(String::from_utf8(after).unwrap(), expected);
            }
            Err(error) => {
                prop_assert_ne!(ordered.len(), 1, "{} {:?}", error, ways);
                let certain = places.iter().all(|places| places.len() == 1) && ways.len() == 1;
                prop_assert!(!certain, "{} {:?}", error, ways);
            }
        }
    }
}

/// Every way to give each chunk a place so that no two overlap.
fn assignments(places: &[Vec<usize>], chunks: &[String]) -> Vec<Vec<usize>> {
    let mut ways: Vec<Vec<usize>> = vec![Vec::new()];
    for (index, places) in places.iter().enumerate() {
        let mut longer = Vec::new();
        for way in &ways {
            for place in places {
                let end = place + chunks[index].len();
                let free = way
                    .iter()
                    .zip(chunks)
                    .all(|(other, chunk)| end <= *other || other + chunk.len() <= *place);
                if free {
                    longer.push(way.iter().copied().chain([*place]).collect());
                }
            }
        }
        ways = longer;
    }
    ways
}
