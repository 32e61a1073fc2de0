//! Output that has its name only when it is whole, and folders that go when it does not become so.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_console::UsageError;

use super::with_suffix;

/// A file, or several with something behind its name, under way: dropped before its end, it goes.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where to write.
    pub(crate) path: PathBuf,
    output: PathBuf,
}

impl Part {
    /// Output that is to become `output`. What a program that was killed left of it goes.
    ///
    /// # Errors
    /// It is there already: nothing is overwritten.
    pub(crate) fn of(output: &Path) -> anyhow::Result<Self> {
        is_free(output)?;
        let part = Self { path: with_suffix(output, ".part"), output: output.to_owned() };
        part.remove();
        Ok(part)
    }

    /// Gives the files that were written their names.
    ///
    /// # Errors
    /// One of them is there already, or cannot be renamed.
    pub(crate) fn finish(self, written: Vec<PathBuf>) -> anyhow::Result<Vec<PathBuf>> {
        let named: Vec<(PathBuf, PathBuf)> =
            written.into_iter().map(|path| (self.name_of(&path), path)).collect();
        named.iter().try_for_each(|(name, _)| is_free(name))?;
        let rename = |(name, path): (PathBuf, PathBuf)| {
            std::fs::rename(&path, &name)
                .with_context(|| format!("cannot make {}", name.display()))?;
            Ok(name)
        };
        named.into_iter().map(rename).collect()
    }

    /// The name behind which there is what stands behind that of the part.
    fn name_of(&self, path: &Path) -> PathBuf {
        let (path_name, part) = (path.as_os_str().as_encoded_bytes(), self.path.as_os_str());
        let behind = path_name.strip_prefix(part.as_encoded_bytes()).unwrap_or_default();
        with_suffix(&self.output, &String::from_utf8_lossy(behind))
    }

    fn remove(&self) {
        let Some(name) = self.path.file_name().map(|name| name.to_string_lossy().into_owned())
        else {
            return;
        };
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
        for entry in entries.flatten() {
            let other = entry.file_name().to_string_lossy().into_owned();
            let behind = other.strip_prefix(&name);
            if behind.is_some_and(|it| it.is_empty() || it.starts_with('.') && it.ends_with(".npy"))
            {
                std::fs::remove_file(entry.path()).ok();
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A folder that a command makes for what it writes: dropped before it is kept, it goes with all
/// that is in it.
#[derive(Debug)]
pub(crate) struct NewFolder(Option<PathBuf>);

impl NewFolder {
    /// Makes it, and the folders that it is in.
    ///
    /// # Errors
    /// It exists already (a usage error, to protect its contents), or the system refuses.
    pub(crate) fn make(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("cannot make {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(failed)?;
        }
        match std::fs::create_dir(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(UsageError(format!("{} is there already", path.display())).into())
            }
            made => made.with_context(failed).map(|()| Self(Some(path.to_owned()))),
        }
    }

    /// What is in it is whole.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }

    /// What is in it is whole, and gets its name.
    ///
    /// # Errors
    /// The name is there already, or the system refuses.
    pub(crate) fn name(mut self, name: &Path) -> anyhow::Result<()> {
        is_free(name)?;
        if let Some(path) = &self.0 {
            let failed = || format!("cannot make {}", name.display());
            std::fs::rename(path, name).with_context(failed)?;
        }
        self.0 = None;
        let parent = name.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let sync = || std::fs::File::open(parent)?.sync_all();
        sync().with_context(|| format!("cannot sync {}", parent.display()))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error counts for which it goes. What cannot be removed, the next attempt names.
            std::fs::remove_dir_all(path).ok();
        }
    }
}

fn is_free(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.exists(), "cannot make {}: it is there already", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_kept_goes_and_one_that_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("some/where");
        let new = NewFolder::make(&out).unwrap();
        std::fs::write(out.join("half"), "x").unwrap();
        drop(new);
        assert!(!out.exists());
        NewFolder::make(&out).unwrap().keep();
        let error = NewFolder::make(&out).unwrap_err();
        assert!(error.is::<UsageError>() && out.exists());
    }

    #[test]
    fn files_have_their_names_when_all_is_whole_and_otherwise_there_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        std::fs::write(folder.path().join("out.partial"), "somebody's").unwrap();
        let write = |part: &Part| {
            let paths = [".a.npy", ".b.npy"].map(|suffix| with_suffix(&part.path, suffix));
            paths.iter().for_each(|path| std::fs::write(path, "x").unwrap());
            paths.to_vec()
        };
        let part = Part::of(&output).unwrap();
        write(&part);
        assert_eq!(names(), ["out.part.a.npy", "out.part.b.npy", "out.partial"]);
        drop(part);
        assert_eq!(names(), ["out.partial"]);
        let part = Part::of(&output).unwrap();
        let written = write(&part);
        part.finish(written).unwrap();
        assert_eq!(names(), ["out.a.npy", "out.b.npy", "out.partial"]);
        let part = Part::of(&output).unwrap();
        let written = write(&part);
        part.finish(written).unwrap_err();
        assert_eq!(names(), ["out.a.npy", "out.b.npy", "out.partial"]);
    }
}
