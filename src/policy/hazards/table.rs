//! How a program's words are told apart: options, their values, and the files it reads and writes.
//!
//! A [`Spec`] is data about one program. Clustered letters are taken apart, values may be glued on,
//! abbreviated long options are never guessed at: what the table does not know is a hazard, unless
//! the table says that no option of the program can do harm.

use super::{Access, Examined, FileUse};
use crate::policy::value::{UnknownKind, Value};

/// What is known of one program.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub names: &'static [&'static str],
    /// Letters of options without a value.
    pub flags: &'static str,
    /// Letters of options whose value, if there is one, is glued on.
    pub optional: &'static str,
    /// Long options without a value, or with an optional `=value`; no dashes, blanks between.
    pub long: &'static str,
    /// Options with a value of no consequence, with their dashes.
    pub values: &'static str,
    /// Options whose value is a file that is read.
    pub reads: &'static str,
    pub risks: &'static [Risk],
    /// Options with two values; of the second kind the second one is a file that is read.
    pub pairs: &'static str,
    pub pair_reads: &'static str,
    /// Options end at the first word that is none.
    pub stops: bool,
    /// Every option that is not named here is a harmless one without a value.
    pub lenient: bool,
    pub operands: Operands,
}

/// Options that run, write or reconfigure.
#[derive(Debug, Clone, Copy)]
pub struct Risk {
    /// With their dashes, blanks between.
    pub options: &'static str,
    pub value: RiskValue,
    pub why: &'static str,
}

/// What follows such an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RiskValue {
    None,
    Some,
    /// A file that is written.
    Writes,
}

/// What the words are that are no options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operands {
    /// Texts; no file is touched.
    Texts,
    Read,
    /// The first is a pattern, unless one of these options gave it.
    PatternThenRead(&'static str),
    Write,
    /// Written, and what was there is gone.
    Replace,
    /// The first is read, the second written.
    ReadThenWrite,
    /// The last is written, the others are read.
    ReadThenLastWritten,
    /// All are written, and all but the last appear under another name.
    Move,
}

impl Spec {
    /// A program that reads its operands and whose options do no harm.
    pub const fn reader(names: &'static [&'static str], values: &'static str) -> Self {
        Self {
            names,
            flags: "",
            optional: "",
            long: "",
            values,
            reads: "",
            risks: &[],
            pairs: "",
            pair_reads: "",
            stops: false,
            lenient: true,
            operands: Operands::Read,
        }
    }

    /// A program that touches no file.
    pub const fn texts(names: &'static [&'static str], values: &'static str) -> Self {
        Self { operands: Operands::Texts, ..Self::reader(names, values) }
    }

    /// No word can make the program do anything else than its name says.
    pub fn is_harmless(&self) -> bool {
        self.lenient && self.risks.is_empty()
    }
}

fn has(list: &str, option: &str) -> bool {
    list.split(' ').any(|known| known == option)
}

fn has_letter(list: &str, letter: char) -> bool {
    list.split(' ').any(|known| {
        let mut chars = known.chars();
        chars.next() == Some('-') && chars.next() == Some(letter) && chars.next().is_none()
    })
}

/// Takes the words of a call apart.
pub fn examine(spec: &Spec, argv: &[Value]) -> Examined {
    let mut reading = Reading {
        spec,
        argv,
        at: 1,
        operands: Vec::new(),
        seen: Vec::new(),
        out: Examined { harmless: spec.is_harmless(), ..Examined::default() },
    };
    let mut only_operands = false;
    while let Some(value) = argv.get(reading.at) {
        match value {
            Value::Known(word) if !only_operands && word == "--" => only_operands = true,
            Value::Known(word) if !only_operands && word.starts_with("--") => reading.long(word),
            Value::Known(word) if !only_operands && word.len() > 1 && word.starts_with('-') => {
                reading.cluster(word);
            }
            Value::Unknown(unknown) if !only_operands => {
                let prefix = unknown.prefix.clone();
                reading.unknown(value, &prefix);
            }
            _ => reading.operands.push(value.clone()),
        }
        only_operands |= spec.stops && !reading.operands.is_empty();
        reading.at += 1;
    }
    reading.finish()
}

struct Reading<'a> {
    spec: &'a Spec,
    argv: &'a [Value],
    at: usize,
    operands: Vec<Value>,
    /// Options that were given, for those that take the place of an operand.
    seen: Vec<String>,
    out: Examined,
}

impl Reading<'_> {
    fn risk(&mut self, why: impl Into<String>) {
        self.out.hazard(self.at, why);
    }

    /// The value of an option: glued on, or the next word.
    fn value(&mut self, glued: Option<&str>) -> Option<Value> {
        if let Some(text) = glued {
            return Some(Value::known(text));
        }
        self.at += 1;
        self.argv.get(self.at).cloned()
    }

    fn take_risk(&mut self, risk: &Risk, glued: Option<&str>, shown: &str) {
        self.risk(format!("{shown} {}", risk.why));
        match risk.value {
            RiskValue::None => {}
            RiskValue::Some => {
                self.value(glued);
            }
            RiskValue::Writes => {
                if let Some(value) = self.value(glued) {
                    self.out.files.push(FileUse { access: Access::Write, value });
                }
            }
        }
    }

    fn long(&mut self, word: &str) {
        let (name, glued) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        self.seen.push(name.to_owned());
        let spec = self.spec;
        if has(spec.values, name) {
            self.value(glued);
        } else if has(spec.pairs, name) {
            self.at += 2;
        } else if has(spec.pair_reads, name) {
            self.at += 1;
            if let Some(value) = self.value(None) {
                self.out.files.push(FileUse { access: Access::Read, value });
            }
        } else if has(spec.reads, name) {
            if let Some(value) = self.value(glued) {
                self.out.files.push(FileUse { access: Access::Read, value });
            }
        } else if has(spec.long, name.trim_start_matches('-')) {
            // A flag; an optional value changes nothing.
        } else if let Some(risk) = spec.risks.iter().find(|risk| has(risk.options, name)) {
            self.take_risk(risk, glued, name);
        } else if let Some(risk) = spec.risks.iter().find(|risk| {
            risk.options.split(' ').any(|o| o.starts_with("--") && o.starts_with(name))
        }) {
            self.risk(format!("{name} may be short for an option that {}", risk.why));
        } else if !spec.lenient {
            self.risk(format!("{name} is no option that is known to be harmless"));
        }
    }

    fn cluster(&mut self, word: &str) {
        let letters = word.get(1..).unwrap_or_default();
        let spec = self.spec;
        for (offset, letter) in letters.char_indices() {
            let rest = letters.get(offset + letter.len_utf8()..).unwrap_or_default();
            let glued = (!rest.is_empty()).then_some(rest);
            let name = format!("-{letter}");
            self.seen.push(name.clone());
            if has_letter(spec.values, letter) {
                self.value(glued);
                return;
            }
            if has_letter(spec.reads, letter) {
                if let Some(value) = self.value(glued) {
                    self.out.files.push(FileUse { access: Access::Read, value });
                }
                return;
            }
            if spec.optional.contains(letter) {
                return;
            }
            if spec.flags.contains(letter) {
                continue;
            }
            if let Some(risk) = spec.risks.iter().find(|risk| has_letter(risk.options, letter)) {
                self.take_risk(risk, glued, &name);
                return;
            }
            if !spec.lenient && !letter.is_ascii_digit() {
                self.risk(format!("{name} is no option that is known to be harmless"));
            }
        }
    }

    fn unknown(&mut self, value: &Value, prefix: &str) {
        if !value.may_be_unknown_option() && !prefix.starts_with('-') {
            self.operands.push(value.clone());
            return;
        }
        // `--name=` is known even if the value is not; the value of a harmless option may be anything.
        if let Some((name, _)) = prefix.split_once('=')
            && name.starts_with("--")
            && !has(self.spec.reads, name)
        {
            self.long(prefix);
            return;
        }
        if self.out.harmless {
            self.operands.push(value.clone());
        } else {
            self.risk(format!(
                "{} could become an option; put `--` or `./` in front, or quote it behind known text",
                value.display()
            ));
        }
    }

    fn finish(mut self) -> Examined {
        let operands = std::mem::take(&mut self.operands);
        let mut uses = |access: Access, values: &[Value]| {
            for value in values {
                self.out.files.push(FileUse { access, value: value.clone() });
            }
        };
        match self.spec.operands {
            Operands::Texts => {}
            Operands::Read => uses(Access::Read, &operands),
            Operands::PatternThenRead(instead) => {
                let given = self.seen.iter().any(|option| has(instead, option));
                // One word may be several: then the pattern is the first of them.
                let skip = usize::from(!given && !operands.is_empty());
                uses(Access::Read, operands.get(skip..).unwrap_or_default());
                if !given && operands.first().is_some_and(is_split) {
                    uses(Access::Read, operands.get(..1).unwrap_or_default());
                }
            }
            Operands::Write => uses(Access::Write, &operands),
            Operands::Replace => uses(Access::Replace, &operands),
            Operands::ReadThenWrite => {
                uses(Access::Read, operands.get(..1).unwrap_or_default());
                uses(Access::Write, operands.get(1..).unwrap_or_default());
                if operands.first().is_some_and(Value::is_many) {
                    uses(Access::Write, operands.get(..1).unwrap_or_default());
                }
            }
            Operands::Move => {
                let last = operands.len().saturating_sub(1);
                uses(Access::Read, operands.get(..last).unwrap_or_default());
                uses(Access::Replace, &operands);
            }
            Operands::ReadThenLastWritten => {
                let last = operands.len().saturating_sub(1);
                uses(Access::Read, operands.get(..last).unwrap_or_default());
                uses(Access::Replace, operands.get(last..).unwrap_or_default());
            }
        }
        self.out
    }
}

fn is_split(value: &Value) -> bool {
    matches!(value, Value::Unknown(unknown) if unknown.kind == UnknownKind::Split)
}
