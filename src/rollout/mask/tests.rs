use super::*;
use proptest::prelude::*;
use std::sync::Arc;

fn masker(secrets: &[&str]) -> Masker {
    Masker::new(secrets.iter().enumerate().map(|(n, value)| (format!("S{n}"), *value)))
}

fn streamed(masker: &Arc<Masker>, chunks: &[&[u8]]) -> Vec<u8> {
    let mut stream = StreamMasker::new(Arc::clone(masker));
    let mut out: Vec<u8> = chunks.iter().flat_map(|chunk| stream.push(chunk)).collect();
    out.extend(stream.finish());
    out
}

#[test]
fn d79_values_are_masked_wherever_they_stand() {
    let masker = masker(&["sk-live-4f9a", "ghp_0123456789"]);
    let text = "OPENAI_API_KEY=sk-live-4f9a\nGH=ghp_0123456789ghp_0123456789 ok";
    assert_eq!(masker.mask(text), "OPENAI_API_KEY=[masked]\nGH=[masked][masked] ok");
    assert!(matches!(masker.mask("nothing here"), Cow::Borrowed(_)));
    assert!(masker.finds_secret(b"+ key = \"sk-live-4f9a\""));
    assert!(!masker.finds_secret(b"https://u:p@host"));
}

#[test]
fn d79_what_is_too_short_or_common_is_said_and_not_masked() {
    let masker = masker(&["abcd", "true", "password", "token", "12345", "completed", "s3cr3t", ""]);
    let why: Vec<_> = masker.skipped().iter().map(|s| (s.name.as_str(), s.why)).collect();
    assert_eq!(
        why,
        [
            ("S0", "is shorter than 5 characters"),
            ("S1", "is shorter than 5 characters"),
            ("S2", "is a common word"),
            ("S3", "is a common word"),
            ("S4", "is a number of fewer than 6 digits"),
            ("S5", "is a word of this program's own formats"),
            ("S7", "is shorter than 5 characters"),
        ]
    );
    assert_eq!(masker.mask("abcd true password token completed s3cr3t"), {
        "abcd true password token completed [masked]"
    });
}

#[test]
fn d80_multi_line_json_printed_in_pieces() {
    let value = "{\"t\":\"SECRET-1\"\n,\"u\":\"SECRET-2\"}";
    let masker = masker(&[value]);
    for (text, want) in [
        (value, "[masked]"),
        ("{\"t\":\"SECRET-1\"", "[masked]"),
        (",\"u\":\"SECRET-2\"}", "[masked]"),
        ("t is SECRET-1.", "t is [masked]."),
        ("SECRET-2", "[masked]"),
    ] {
        assert_eq!(masker.mask(text), want);
    }
    let line_numbers = format!("1:{}", value.replace('\n', "\n2:"));
    assert_eq!(masker.mask(&line_numbers), "1:[masked]\n2:[masked]");
}

#[test]
fn d80_encoded_forms() {
    let masker = masker(&["p\"ä/ss wörd+x\n=1"]);
    let hidden = [
        // JSON: plain, slash escaped, ASCII only, twice.
        r#"p\"ä/ss wörd+x\n=1"#,
        r#"p\"ä\/ss wörd+x\n=1"#,
        r#"p\"\u00e4/ss w\u00f6rd+x\n=1"#,
        r#"p\\\"ä/ss wörd+x\\n=1"#,
        // URL: strict, lower case, form.
        "p%22%C3%A4%2Fss%20w%C3%B6rd%2Bx%0A%3D1",
        "p%22%c3%a4%2fss%20w%c3%b6rd%2bx%0a%3d1",
        "p%22%C3%A4%2Fss+w%C3%B6rd%2Bx%0A%3D1",
        // Hexadecimal.
        "7022c3a42f73732077c3b672642b780a3d31",
    ];
    for form in hidden {
        assert_eq!(masker.mask(form), "[masked]", "{form}");
    }
}

/// Base64 by the book, to check against.
fn base64(bytes: &[u8]) -> String {
    const A: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |w, n| w << 8 | u32::from(*chunk.get(n).unwrap_or(&0)));
        for n in 0..=chunk.len() {
            out.push(A[(word >> (18 - 6 * n) & 63) as usize] as char);
        }
        out.extend(std::iter::repeat_n('=', 3 - chunk.len()));
    }
    out
}

#[test]
fn d80_base64_at_every_alignment_and_wrapped() {
    let secret = "S3cr3t~?>value";
    let masker = masker(&[secret]);
    for before in 0..7 {
        for after in 0..4 {
            let plain = format!("{}{secret}{}", "x".repeat(before), "y".repeat(after));
            for coded in [
                base64(plain.as_bytes()),
                base64(plain.as_bytes()).replace('+', "-").replace('/', "_"),
            ] {
                let masked = masker.mask(&coded);
                assert!(masked.contains(REPLACEMENT), "{before} {after} {coded}");
                // What stays at the edges is less than one byte's worth on each side.
                let rest = masked.replace(REPLACEMENT, "");
                assert!(rest.len() <= before * 4 / 3 + after * 4 / 3 + 7, "{masked}");
            }
        }
    }
    let long = "k".repeat(40) + "0123456789abcdef" + &"z".repeat(90);
    let masker = self::masker(&[&long]);
    for width in [76, 64] {
        let coded = base64(long.as_bytes());
        let wrapped: Vec<_> = coded.as_bytes().chunks(width).collect();
        let wrapped = String::from_utf8(wrapped.join(&b'\n')).unwrap();
        let masked = masker.mask(&wrapped);
        let left = masked.replace(REPLACEMENT, "").replace('\n', "");
        // Of a last line of very few bytes too little is left to be looked for.
        assert!(left.len() <= 4, "{masked}");
    }
}

#[test]
fn d81_user_part_of_urls() {
    let masker = Masker::none();
    for (text, want) in [
        (
            "origin\thttps://x-access-token:TOK@host/r.git (fetch)",
            "origin\thttps://[masked]@host/r.git (fetch)",
        ),
        ("url = https://TOK@host:8080", "url = https://[masked]@host:8080"),
        (
            "fatal: could not read from 'https://u:p%40x@h/'",
            "fatal: could not read from 'https://[masked]@h/'",
        ),
        ("postgres://me:pw@db/x?y=https://a:b@c", "postgres://[masked]@db/x?y=https://[masked]@c"),
        ("https:\\/\\/u:TOK@host\\/r", "https:\\/\\/[masked]@host\\/r"),
        ("ssh://git@host/r.git git+ssh://git@host/r", "ssh://git@host/r.git git+ssh://git@host/r"),
        ("ssh://git:pw@host", "ssh://[masked]@host"),
        (
            "git@host:r.git, mail me@x.y, https://host/a@b",
            "git@host:r.git, mail me@x.y, https://host/a@b",
        ),
        ("https://u@p@host", "https://[masked]@host"),
        ("https://@host http://", "https://@host http://"),
        ("a://b:c@d://e:f@g", "a://[masked]@d://[masked]@g"),
    ] {
        assert_eq!(masker.mask(text), want);
        assert_eq!(masker.mask(&masker.mask(text)), want, "twice");
    }
}

#[test]
fn d82_one_byte_per_chunk() {
    let masker = Arc::new(masker(&["hunter2-long-secret"]));
    let text = b"pw: hunter2-long-secret, url https://u:TOK@h/x and the rest of it";
    let chunks: Vec<&[u8]> = text.chunks(1).collect();
    let shown = streamed(&masker, &chunks);
    assert_eq!(
        String::from_utf8(shown).unwrap(),
        "pw: [masked], url https://[masked]@h/x and the rest of it"
    );
}

#[test]
fn d82_across_the_truncation_cut() {
    let secret = "hunter2-long-secret";
    let masker = masker(&[secret]);
    let text = format!("before {secret} after");
    for cut in 0..=text.len() {
        for gap in 0..=(text.len() - cut).min(12) {
            let (head, tail) = masker.mask_cut(&text[..cut], &text[cut + gap..]);
            let both = format!("{head}|{tail}");
            for length in super::MIN_PIECE..=secret.len() {
                for piece in [&secret[..length], &secret[secret.len() - length..]] {
                    assert!(!both.contains(piece), "{cut} {gap}: {both}");
                }
            }
        }
    }
    assert_eq!(masker.mask_cut("nothing", "here"), ("nothing".into(), "here".into()));
}

#[test]
fn overlapping_secrets_leave_nothing() {
    let masker = masker(&["abcdefgh", "efghijkl", "ghijklmnop"]);
    assert_eq!(masker.mask("xabcdefghijklmnopx"), "x[masked]x");
}

#[test]
fn json_values_are_masked_decoded_and_stay_json() {
    let masker = masker(&["li\"ne\ntwo", "98765432"]);
    let mut value = serde_json::json!({
        "a": ["li\"ne\ntwo", 98765432, 7], "li\"ne\ntwo": {"x": "q li\"ne\ntwo"}, "b": null,
        "count": 1987654321,
    });
    masker.mask_value(&mut value);
    assert_eq!(
        value,
        serde_json::json!({
            "a": ["[masked]", "[masked]", 7], "[masked]": {"x": "q [masked]"}, "b": null,
            "count": 1987654321,
        })
    );
}

#[test]
fn a_secret_that_is_no_utf8_never_splits_a_character() {
    let masker = Masker::new([("S", b"\xb1\xe9\x98\xb4\xe5".as_slice())]);
    let text = "影阴影阴影";
    let masked = masker.mask(text);
    assert_eq!(masked, "[masked][masked]");
}

proptest! {
    #[test]
    fn streamed_is_the_same_as_whole(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "alpha-secret", "secret-beta", "alpha-", "secret", "-beta", "x", "\n", "://",
                "https", "ssh", ":", "/", "@", "user:pw@", " ", "é", "YWxwaGEtc2VjcmV0",
            ]), 0..40),
        cuts in prop::collection::vec(0usize..9, 1..60),
    ) {
        let masker = Arc::new(masker(&["alpha-secret", "secret-beta"]));
        let text = parts.concat();
        let whole = masker.mask_bytes(text.as_bytes()).into_owned();
        let mut chunks = Vec::new();
        let mut at = 0;
        for cut in cuts {
            let end = (at + cut).min(text.len());
            chunks.push(&text.as_bytes()[at..end]);
            at = end;
        }
        chunks.push(&text.as_bytes()[at..]);
        prop_assert_eq!(
            String::from_utf8_lossy(&streamed(&masker, &chunks)).into_owned(),
            String::from_utf8_lossy(&whole).into_owned()
        );
    }

    #[test]
    fn masked_text_holds_no_secret(secret in "[a-zA-Z0-9_./+ \"\\\\é-]{6,40}", pre in ".{0,20}", post in ".{0,20}") {
        let masker = masker(&[&secret]);
        prop_assume!(masker.skipped().is_empty());
        let text = format!("{pre}{secret}{post}");
        prop_assert!(!masker.mask(&text).contains(secret.trim()) || REPLACEMENT.contains(secret.trim()));
    }
}
