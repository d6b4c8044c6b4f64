//! Faults in files people wrote: what is wrong, where exactly, and what to do about it.

use std::fmt;

/// A place in a file; 1-based, columns count characters. Line 0 means the file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct At {
    pub line: u32,
    pub column: u32,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub file: String,
    pub at: At,
    /// What is wrong, naming the offending text.
    pub text: String,
    /// What to write instead; empty where there is nothing to add.
    pub hint: String,
}

impl fmt::Display for Fault {
    /// `file:line:column: text` and, on a second line, the hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at.line == 0 {
            write!(f, "{}: {}", self.file, self.text)?;
        } else {
            write!(f, "{}:{}:{}: {}", self.file, self.at.line, self.at.column, self.text)?;
        }
        if self.hint.is_empty() {
            return Ok(());
        }
        write!(f, "\n  hint: {}", self.hint)
    }
}

/// Collects every fault of one file, so that a person sees all of them at once.
#[derive(Debug, Clone)]
pub struct Faults {
    pub file: String,
    pub list: Vec<Fault>,
}

impl Faults {
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), list: Vec::new() }
    }

    pub fn add(&mut self, at: At, text: impl Into<String>, hint: impl Into<String>) {
        self.list.push(Fault { file: self.file.clone(), at, text: text.into(), hint: hint.into() });
    }

    /// The value if nothing was wrong, else all faults in the order of the file.
    pub fn finish<T>(mut self, value: T) -> Result<T, Vec<Fault>> {
        if self.list.is_empty() {
            return Ok(value);
        }
        self.list.sort_by_key(|fault| fault.at);
        Err(self.list)
    }
}

/// The candidate that a mistyped `name` most likely meant, for "did you mean" hints.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edit distance with neighbours swapped counting as one edit (optimal string alignment), `-` and
/// `_` taken as equal and case ignored.
fn distance(a: &str, b: &str) -> usize {
    let fold = |text: &str| -> Vec<char> {
        text.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let (a, b) = (fold(a), fold(b));
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let differs = usize::from(a[i - 1] != b[j - 1]);
                let mut least =
                    (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + differs);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typos_and_not_strangers() {
        let keys = ["version", "name", "policy", "max_changed_files"];
        assert_eq!(nearest("polcy", keys), Some("policy"));
        assert_eq!(nearest("nmae", keys), Some("name"));
        assert_eq!(nearest("max-changed-files", keys), Some("max_changed_files"));
        assert_eq!(nearest("zzz", keys), None);
    }

    #[test]
    fn a_fault_names_its_place() {
        let mut faults = Faults::new("task.yaml");
        faults.add(At { line: 3, column: 5 }, "unknown key \"polcy\"", "did you mean \"policy\"?");
        let list = faults.finish(()).unwrap_err();
        assert_eq!(
            list[0].to_string(),
            "task.yaml:3:5: unknown key \"polcy\"\n  hint: did you mean \"policy\"?"
        );
    }
}
