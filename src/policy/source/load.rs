//! Follows `use:` from file to file, and merges what it finds.

use super::super::model::{Model, NetworkDefinition};
use super::read::{Place, Use, read};
use super::{PRESETS, check, preset};
use crate::spec::fault::{At, Fault, nearest};
use crate::spec::yaml;
use std::collections::BTreeMap;

/// How deep `use` may go, and how many files one policy may be made of.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 32;

type Loader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// Reads the main file and everything it uses.
pub fn load(file: &str, source: &str, loader: Loader<'_>) -> Result<Model, Vec<Fault>> {
    let mut loading = Loading {
        loader,
        model: Model::default(),
        faults: Vec::new(),
        chain: Vec::new(),
        networks: BTreeMap::new(),
    };
    loading.file(file, source, Place::Main);
    if loading.faults.is_empty() {
        loading.faults.extend(check::check(&loading.model));
    }
    if loading.faults.is_empty() { Ok(loading.model) } else { Err(loading.faults) }
}

struct Loading<'a> {
    loader: Loader<'a>,
    model: Model,
    faults: Vec<Fault>,
    /// The files that are being read right now, outermost first.
    chain: Vec<String>,
    /// Where each network was defined first.
    networks: BTreeMap<String, String>,
}

impl Loading<'_> {
    fn file(&mut self, file: &str, source: &str, place: Place) {
        self.model.sources.push(file.to_owned());
        let node = match yaml::parse(file, source) {
            Ok(node) => node,
            Err(faults) => return self.faults.extend(faults),
        };
        let (part, uses, faults) = read(file, &node, place);
        self.faults.extend(faults);
        self.chain.push(file.to_owned());
        for item in uses {
            self.used(file, &item);
        }
        self.chain.pop();
        self.merge(file, part, place);
    }

    fn used(&mut self, by: &str, item: &Use) {
        let fault =
            |text: String, hint: String| Fault { file: by.to_owned(), at: item.at, text, hint };
        if !is_file_name(&item.name) {
            let label = format!("preset:{}", item.name);
            match preset(&item.name) {
                Some(_) if self.model.sources.contains(&label) => {}
                Some(text) => self.file(&label, text, Place::Preset),
                None => {
                    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                    let hint = match nearest(&item.name, names.iter().copied()) {
                        Some(name) => format!("did you mean \"{name}\"?"),
                        None => format!(
                            "presets: {}; a file is named with its .yaml ending",
                            names.join(", ")
                        ),
                    };
                    self.faults.push(fault(format!("there is no preset \"{}\"", item.name), hint));
                }
            }
            return;
        }
        let path = join(by, &item.name);
        if let Some(start) = self.chain.iter().position(|open| *open == path) {
            let mut chain: Vec<&str> = self.chain.iter().skip(start).map(String::as_str).collect();
            chain.push(&path);
            let text = format!("\"{}\" uses itself: {}", item.name, chain.join(" → "));
            self.faults.push(fault(text, "take one of them out of `use`".into()));
        } else if self.model.sources.contains(&path) {
            // Used twice on different ways; once is enough.
        } else if self.chain.len() >= MAX_DEPTH || self.model.sources.len() >= MAX_FILES {
            let text = format!("\"{}\": too many files use files", item.name);
            let hint = format!("at most {MAX_DEPTH} deep and {MAX_FILES} files in all");
            self.faults.push(fault(text, hint));
        } else {
            match (self.loader)(&path) {
                Ok(text) => self.file(&path, &text, Place::Used),
                Err(why) => {
                    let text = format!("\"{}\" can't be read: {why}", item.name);
                    self.faults.push(fault(text, format!("it was looked for as {path}")));
                }
            }
        }
    }

    fn merge(&mut self, file: &str, part: Model, place: Place) {
        let model = &mut self.model;
        if place == Place::Main {
            model.default = part.default;
            model.on_deny = part.on_deny;
            model.on_ask = part.on_ask;
            model.network = part.network;
            model.sandbox = part.sandbox;
            model.limits = part.limits;
            model.tests = part.tests;
        }
        model.rules.extend(part.rules);
        model.files.says_read |= part.files.says_read;
        model.files.read.extend(part.files.read);
        model.files.write.extend(part.files.write);
        model.files.deny_read.extend(part.files.deny_read);
        model.files.protect.extend(part.files.protect);
        for name in part.env.pass {
            if !model.env.pass.contains(&name) {
                model.env.pass.push(name);
            }
        }
        for (name, value) in part.env.set {
            // Files are merged inside out, so the later one is nearer to the main file and wins.
            model.env.set.retain(|(known, _)| *known != name);
            model.env.set.push((name, value));
        }
        for (name, definition) in part.networks {
            self.network(file, name, definition);
        }
    }

    fn network(&mut self, file: &str, name: String, definition: NetworkDefinition) {
        if let Some(known) = self.model.networks.get(&name)
            && *known != definition
        {
            let first = self.networks.get(&name).cloned().unwrap_or_default();
            self.faults.push(Fault {
                file: file.to_owned(),
                at: At::default(),
                text: format!("the network \"{name}\" is defined differently in {first}"),
                hint: "give one of them another name".into(),
            });
            return;
        }
        self.networks.entry(name.clone()).or_insert_with(|| file.to_owned());
        self.model.networks.insert(name, definition);
    }
}

/// A file is named with a `/` or its ending; anything else is a preset.
fn is_file_name(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// `name` seen from the folder of the file that uses it, by text alone.
fn join(by: &str, name: &str) -> String {
    let folder = match by.rsplit_once('/') {
        Some((folder, _)) if !name.starts_with('/') => folder,
        _ => return tidy(name),
    };
    tidy(&format!("{folder}/{name}"))
}

/// Takes `.` and `x/..` out, so that one file has one name.
fn tidy(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            "" if !parts.is_empty() => {}
            ".." if parts.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}
