//! Which file a program's name means: resolved once, on a PATH without any folder the Turn may write.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where programs are looked for when the runner's own PATH gives nothing usable.
const FALLBACK: &[&str] =
    &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The PATH of a run's commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanPath {
    folders: Vec<PathBuf>,
    /// Programs are looked up elsewhere: inside a container.
    inside: bool,
}

impl CleanPath {
    /// From the runner's PATH: absolute folders that exist, in order, once each, and that `writable`
    /// does not claim, neither as written nor with links followed.
    pub fn new(path: Option<&str>, writable: &dyn Fn(&Path) -> bool) -> Self {
        let mut folders: Vec<PathBuf> = Vec::new();
        let named = path.unwrap_or_default().split(':').map(PathBuf::from);
        for folder in named.chain(FALLBACK.iter().map(PathBuf::from)) {
            let Ok(resolved) = folder.canonicalize() else { continue };
            let usable = folder.is_absolute()
                && resolved.is_dir()
                && !writable(&folder)
                && !writable(&resolved)
                && folder.to_str().is_some_and(|text| !text.contains(':'));
            if usable && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Self { folders, inside: false }
    }

    /// For a container, whose programs cannot be looked up from here: a plain name stands for itself.
    pub fn inside() -> Self {
        Self { folders: Vec::new(), inside: true }
    }

    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The value of PATH for a command.
    pub fn value(&self) -> String {
        let texts: Vec<&str> = self.folders.iter().filter_map(|folder| folder.to_str()).collect();
        texts.join(":")
    }

    /// The first executable file of this name; a name with a slash is not looked up.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() || name.contains('/') || name == "." || name == ".." {
            return None;
        }
        if self.inside {
            return Some(PathBuf::from(name));
        }
        self.folders.iter().map(|folder| folder.join(name)).find(|file| is_executable(file))
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writable_and_relative_folders_are_left_out() {
        let writable = |path: &Path| path.starts_with("/tmp");
        let path = CleanPath::new(Some("/tmp:bin:.:/usr/bin:/usr/bin:"), &writable);
        assert_eq!(path.folders()[0], Path::new("/usr/bin"));
        assert_eq!(path.folders().iter().filter(|folder| folder.ends_with("usr/bin")).count(), 1);
        assert!(path.folders().iter().all(|folder| folder.is_absolute()));
    }

    #[test]
    fn names_resolve_and_paths_do_not() {
        let path = CleanPath::new(None, &|_| false);
        assert!(path.find("sh").is_some());
        for odd in ["", ".", "..", "./sh", "/bin/sh", "no-such-program-here"] {
            assert_eq!(path.find(odd), None, "{odd}");
        }
    }
}
