//! YAML as a tree that knows where everything stands, and readers that collect faults.
//!
//! Spec, policy and scripted-model files are all read through here, so that they share one meaning:
//! YAML 1.2 scalars, duplicate keys, merge keys, tags and several documents refused, sizes bounded.
//! A typed deserializer stops at the first fault; people fix files faster when they see all of them.

use super::fault::{At, Fault, Faults, nearest};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;
use serde_yaml::options::{DuplicateKeyPolicy, MergeKeyPolicy};
use std::fmt;
use std::time::Duration;

/// The largest file that is read at all.
pub const MAX_BYTES: usize = 1024 * 1024;

/// A value with its place. `raw` is the scalar as it stands in the file, without quotes' meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub at: At,
    pub raw: String,
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Seq(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub at: At,
    pub name: String,
}

/// Parses one document. `file` is how messages name it.
pub fn parse(file: &str, source: &str) -> Result<Node, Vec<Fault>> {
    let mut faults = Faults::new(file);
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    if source.len() > MAX_BYTES {
        faults.add(
            At::default(),
            format!("the file has {} bytes; {MAX_BYTES} are read at most", source.len()),
            "move long texts into files of their own (task_file, instructions)",
        );
        return Err(faults.list);
    }
    let options = serde_yaml::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
    };
    match serde_yaml::from_str_with_options::<Spanned<Loose>>(source, options) {
        Ok(root) => {
            let node = build(root, source, &mut faults);
            faults.finish(node)
        }
        Err(error) => {
            let at = error.location().map(|place| at(&place)).unwrap_or_default();
            faults.add(at, format!("not valid YAML: {}", first_line(&error)), "");
            Err(faults.list)
        }
    }
}

/// The parser's own sentence without the place it appends, which stands in front already.
fn first_line(error: &serde_yaml::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    let end = line.rfind(" at line ").unwrap_or(line.len());
    // It may quote the file, and the file may hold what a terminal would obey.
    line[..end].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn at(place: &serde_yaml::Location) -> At {
    let clamp = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    At { line: clamp(place.line()), column: clamp(place.column()) }
}

/// The tree as serde hands it over, before raw texts and duplicate keys are looked at.
enum Loose {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Seq(Vec<Spanned<Loose>>),
    Map(Vec<(Spanned<String>, Spanned<Loose>)>),
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Null)
    }

    fn visit_none<E>(self) -> Result<Loose, E> {
        Ok(Loose::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Loose, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Loose, E> {
        Ok(Loose::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Loose, E> {
        Ok(Loose::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Loose, E> {
        Ok(i64::try_from(value).map_or_else(|_| Loose::Str(value.to_string()), Loose::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Loose, E> {
        Ok(Loose::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Loose, E> {
        Ok(Loose::Str(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Loose, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Loose::Seq(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Loose, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Loose::Map(entries))
    }
}

fn build(loose: Spanned<Loose>, source: &str, faults: &mut Faults) -> Node {
    let place = loose.referenced;
    let kind = match loose.value {
        Loose::Null => Kind::Null,
        Loose::Bool(value) => Kind::Bool(value),
        Loose::Int(value) => Kind::Int(value),
        Loose::Float(value) => Kind::Float(value),
        Loose::Str(value) => Kind::Str(value),
        Loose::Seq(items) => {
            Kind::Seq(items.into_iter().map(|item| build(item, source, faults)).collect())
        }
        Loose::Map(entries) => Kind::Map(build_map(entries, source, faults)),
    };
    Node { at: at(&place), raw: raw(&place, source), kind }
}

fn build_map(
    entries: Vec<(Spanned<String>, Spanned<Loose>)>,
    source: &str,
    faults: &mut Faults,
) -> Vec<(Key, Node)> {
    let mut built: Vec<(Key, Node)> = Vec::with_capacity(entries.len());
    let mut seen = std::collections::HashMap::new();
    for (name, value) in entries {
        let key = Key { at: at(&name.referenced), name: name.value };
        if let Some(first) = seen.insert(key.name.clone(), key.at.line) {
            faults.add(
                key.at,
                format!("duplicate key {}", quoted(&key.name)),
                format!("it stands in line {first} already; keep one of them"),
            );
        }
        let value = build(value, source, faults);
        built.push((key, value));
    }
    built
}

/// The scalar as written; empty for collections and where the parser gives no byte place.
fn raw(place: &serde_yaml::Location, source: &str) -> String {
    let span = place.span();
    let (Some(start), Some(len)) = (span.byte_offset(), span.byte_len()) else {
        return String::new();
    };
    let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) else {
        return String::new();
    };
    source.get(start..start.saturating_add(len)).unwrap_or_default().trim_end().to_owned()
}

impl Node {
    /// What the value is, for messages: `a list`, `the number 7`.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".into(),
            Kind::Bool(value) => format!("the boolean {value}"),
            Kind::Int(value) => format!("the number {value}"),
            Kind::Float(_) => format!("the number {}", self.raw),
            Kind::Str(value) => format!("the text {}", quoted(value)),
            Kind::Seq(_) => "a list".into(),
            Kind::Map(_) => "a mapping".into(),
        }
    }

    pub fn is_null(&self) -> bool {
        self.kind == Kind::Null
    }

    /// A text; a plain number or boolean counts as the text it was written as (`name: 1.10`).
    pub fn string(&self, what: &str, faults: &mut Faults) -> Option<String> {
        match &self.kind {
            Kind::Str(value) => Some(value.clone()),
            Kind::Bool(_) | Kind::Int(_) | Kind::Float(_) if !self.raw.is_empty() => {
                Some(self.raw.clone())
            }
            _ => self.wrong(what, "a text", faults),
        }
    }

    pub fn bool(&self, what: &str, faults: &mut Faults) -> Option<bool> {
        match &self.kind {
            Kind::Bool(value) => Some(*value),
            Kind::Str(value) => {
                let meant = match value.to_ascii_lowercase().as_str() {
                    "on" | "yes" | "y" | "true" => "true",
                    "off" | "no" | "n" | "false" => "false",
                    _ => return self.wrong(what, "true or false", faults),
                };
                faults.add(
                    self.at,
                    format!("\"{what}\" must be true or false, not {}", quoted(value)),
                    format!("write {meant}"),
                );
                None
            }
            _ => self.wrong(what, "true or false", faults),
        }
    }

    /// A whole number of at least `min`.
    pub fn uint(&self, what: &str, min: u64, faults: &mut Faults) -> Option<u64> {
        match self.kind {
            Kind::Int(value) => match u64::try_from(value) {
                Ok(value) if value >= min => Some(value),
                _ => self.wrong(what, &format!("a whole number of at least {min}"), faults),
            },
            _ => self.wrong(what, &format!("a whole number of at least {min}"), faults),
        }
    }

    /// A number of at least 0.
    pub fn number(&self, what: &str, faults: &mut Faults) -> Option<f64> {
        let value = match self.kind {
            #[allow(clippy::cast_precision_loss)]
            Kind::Int(value) => value as f64,
            Kind::Float(value) => value,
            _ => return self.wrong(what, "a number", faults),
        };
        if value.is_finite() && value >= 0.0 {
            Some(value)
        } else {
            self.wrong(what, "a number of at least 0", faults)
        }
    }

    /// A duration with its unit: `500ms`, `10s`, `5m`, `2h`.
    pub fn duration(&self, what: &str, faults: &mut Faults) -> Option<Duration> {
        match &self.kind {
            Kind::Str(value) => match parse_duration(value) {
                Ok(duration) => Some(duration),
                Err(why) => {
                    faults.add(self.at, format!("\"{what}\": {why}"), DURATION_HINT);
                    None
                }
            },
            _ => {
                faults.add(
                    self.at,
                    format!("\"{what}\" must be a duration with its unit, not {}", self.describe()),
                    DURATION_HINT,
                );
                None
            }
        }
    }

    /// A size with its unit: `64KiB`, `1MiB`, `8GiB`, or plain bytes.
    pub fn size(&self, what: &str, faults: &mut Faults) -> Option<u64> {
        let parsed = match &self.kind {
            Kind::Int(value) => {
                u64::try_from(*value).map_err(|_| "must not be negative".to_owned())
            }
            Kind::Str(value) => parse_size(value),
            _ => Err(format!("must be a size, not {}", self.describe())),
        };
        match parsed {
            Ok(size) => Some(size),
            Err(why) => {
                faults.add(
                    self.at,
                    format!("\"{what}\": {why}"),
                    "write 64KiB, 1MiB, 8GiB or a number of bytes",
                );
                None
            }
        }
    }

    /// A list; nothing else.
    pub fn seq(&self, what: &str, faults: &mut Faults) -> Option<&[Node]> {
        match &self.kind {
            Kind::Seq(items) => Some(items),
            _ => self.wrong(what, "a list", faults),
        }
    }

    /// A list of texts.
    pub fn strings(&self, what: &str, faults: &mut Faults) -> Option<Vec<String>> {
        let items = self.seq(what, faults)?;
        Some(items.iter().filter_map(|item| item.string(what, faults)).collect())
    }

    /// One of a closed set of words.
    pub fn choice<T: Copy>(
        &self,
        what: &str,
        choices: &[(&str, T)],
        faults: &mut Faults,
    ) -> Option<T> {
        let text = match &self.kind {
            Kind::Str(value) => value.clone(),
            _ => self.raw.clone(),
        };
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let wanted = match names.as_slice() {
            [only] => format!("\"{only}\""),
            _ => format!("one of {}", names.join(", ")),
        };
        faults.add(
            self.at,
            format!("\"{what}\" must be {wanted}, not {}", self.describe()),
            nearest(&text, names.iter().copied())
                .map(|name| format!("did you mean \"{name}\"?"))
                .unwrap_or_default(),
        );
        None
    }

    /// Adds "must be …" and gives nothing.
    pub fn wrong<T>(&self, what: &str, wanted: &str, faults: &mut Faults) -> Option<T> {
        faults.add(self.at, format!("\"{what}\" must be {wanted}, not {}", self.describe()), "");
        None
    }
}

const DURATION_HINT: &str = "write a number and a unit: 500ms, 10s, 5m, 2h";

/// A mapping being read: keys are taken one by one, and whatever was not taken is a fault.
pub struct Table<'a> {
    at: At,
    entries: &'a [(Key, Node)],
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// `what` names the mapping in messages.
    pub fn new(node: &'a Node, what: &str, faults: &mut Faults) -> Option<Self> {
        match &node.kind {
            Kind::Map(entries) => Some(Self { at: node.at, entries, known: Vec::new() }),
            _ => node.wrong(what, "a mapping", faults),
        }
    }

    pub fn at(&self) -> At {
        self.at
    }

    /// The value of a key, if it is there and not null. Every key asked for is a known one.
    pub fn get(&mut self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// The same with the key's own place.
    pub fn entry(&mut self, key: &'static str) -> Option<(&'a Key, &'a Node)> {
        self.known.push(key);
        let (found, node) = self.entries.iter().find(|(name, _)| name.name == key)?;
        (!node.is_null()).then_some((found, node))
    }

    /// All entries, for mappings whose keys are names that the file chose.
    pub fn all(&self) -> &'a [(Key, Node)] {
        self.entries
    }

    /// Adds a fault for each key that was never asked for.
    pub fn finish(self, what: &str, faults: &mut Faults) {
        for (key, _) in self.entries {
            if self.known.contains(&key.name.as_str()) {
                continue;
            }
            let hint = match nearest(&key.name, self.known.iter().copied()) {
                Some(name) => format!("did you mean \"{name}\"?"),
                None => format!("keys of {what}: {}", self.known.join(", ")),
            };
            let text = format!("unknown key {} in {what}", quoted(&key.name));
            faults.add(key.at, text, hint);
        }
    }
}

/// Text in double quotes, control characters escaped, shortened on a character boundary.
pub fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("{short:?}")
}

/// `500ms`, `10s`, `5m`, `2h`; decimals are allowed (`1.5s`).
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" => return Err(format!("{} has no unit", quoted(text))),
        _ => return Err(format!("{} has no known unit", quoted(text))),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{} is no duration", quoted(text)))?;
    let seconds = number * factor;
    if !(0.001..=30.0 * 86_400.0).contains(&seconds) {
        return Err(format!("{} is out of range (1ms to 720h)", quoted(text)));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `64KiB`, `1MiB`, `8GiB`, `100kB`, `1000`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "kB" => 1_000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "GiB" => 1 << 30,
        _ => return Err(format!("{} has no known unit", quoted(text))),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("{} is no size", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(source: &str) -> Vec<String> {
        parse("f.yaml", source).unwrap_err().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_value_knows_its_place_and_its_text() {
        let node = parse("f", "a: 1.10\nb:\n  - x\n  - 'y'\n").unwrap();
        let mut faults = Faults::new("f");
        let mut table = Table::new(&node, "file", &mut faults).unwrap();
        let a = table.get("a").unwrap();
        assert_eq!(a.at, At { line: 1, column: 4 });
        assert_eq!(a.string("a", &mut faults).unwrap(), "1.10");
        let b = table.get("b").unwrap().seq("b", &mut faults).unwrap();
        assert_eq!(b[1].at, At { line: 4, column: 5 });
        table.finish("file", &mut faults);
        assert!(faults.list.is_empty());
    }

    #[test]
    fn duplicate_keys_are_all_named() {
        let faults = faults_of("a: 1\nb: {x: 1, x: 2}\na: 2\n");
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].starts_with("f.yaml:2:11: duplicate key \"x\""), "{faults:?}");
        assert!(faults[1].starts_with("f.yaml:3:1: duplicate key \"a\""), "{faults:?}");
    }

    #[test]
    fn what_yaml_allows_and_we_do_not() {
        let cases = ["<<: {a: 1}\n", "a: 1\n---\nb: 2\n", "a: \"x\nb: 2\n", "a: [1\n"];
        for case in cases {
            let faults = faults_of(case);
            assert!(faults[0].starts_with("f.yaml:"), "{case:?}: {faults:?}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_content() {
        let node = parse("f", "\u{feff}a: 1\n").unwrap();
        assert!(matches!(node.kind, Kind::Map(_)));
    }

    #[test]
    fn old_booleans_are_refused_with_the_fix() {
        let node = parse("f", "a: yes\n").unwrap();
        let mut faults = Faults::new("f");
        let mut table = Table::new(&node, "file", &mut faults).unwrap();
        assert_eq!(table.get("a").unwrap().bool("a", &mut faults), None);
        assert_eq!(faults.list[0].hint, "write true");
    }

    #[test]
    fn durations_and_sizes() {
        assert_eq!(parse_duration("1.5s").unwrap(), Duration::from_millis(1500));
        assert_eq!(parse_duration("5m").unwrap(), Duration::from_secs(300));
        for bad in ["10", "s", "-1s", "1d", "0s", "1e9h", "..s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_size("1MiB").unwrap(), 1 << 20);
        assert_eq!(parse_size("12").unwrap(), 12);
        for bad in ["1TB", "MiB", "1.5MiB", "99999999999999999999"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bombs_end_quickly() {
        let deep = "[".repeat(200_000);
        assert!(parse("f", &deep).is_err());
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for i in 1..10 {
            let refs = vec![format!("*a{}", i - 1); 10].join(",");
            bomb.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert!(parse("f", &bomb).is_err());
    }
}
