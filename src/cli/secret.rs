//! Secrets come from a file, the environment or standard input, never from the command line: that is seen by everyone on
//! the machine and kept by shells.

use std::io::Read as _;
use std::path::PathBuf;
use std::str::FromStr;

use super::exit::Failure;

/// Longest secret that is read, bytes.
const MOST: u64 = 4096;

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `env:NAME`
    Env(String),
    /// `file:PATH`
    File(PathBuf),
    /// `-`
    Stdin,
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => Ok(Self::Env(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ if text == "-" => Ok(Self::Stdin),
            _ => {
                Err("a secret is env:NAME, file:PATH or - for standard input; never the secret itself".into())
            }
        }
    }
}

impl Source {
    /// Reads the secret: one line, without its end.
    pub fn read(&self) -> Result<String, Failure> {
        let (text, from) = match self {
            Self::Env(name) => (
                std::env::var(name)
                    .map_err(|_| Failure::usage(format!("{name} is not set in the environment")))?,
                format!("environment variable {name}"),
            ),
            Self::File(path) => {
                let failed =
                    |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
                let file = std::fs::File::open(path).map_err(failed)?;
                refuse_open(path, &file)?;
                (first_line(file).map_err(failed)?, path.display().to_string())
            }
            Self::Stdin => {
                let failed = |e: std::io::Error| Failure::usage(format!("cannot read standard input: {e}"));
                let text = first_line(std::io::stdin().lock()).map_err(failed)?;
                (text, "standard input".into())
            }
        };
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        if text.trim().is_empty() {
            return Err(Failure::usage(format!("{from} has no secret")));
        }
        Ok(text)
    }
}

/// A secret that everyone may read is none.
fn refuse_open(path: &std::path::Path, file: &std::fs::File) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = file
        .metadata()
        .map_err(|e| Failure::usage(format!("cannot look at {}: {e}", path.display())))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "{} can be read by others (mode {:o})",
            path.display(),
            mode & 0o777
        ))
        .hint(format!(
            "chmod 600 {}",
            super::quoted(&path.display().to_string())
        )));
    }
    Ok(())
}

fn first_line(from: impl std::io::Read) -> std::io::Result<String> {
    let mut text = String::new();
    from.take(MOST).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_never_given() {
        assert_eq!("env:PW".parse(), Ok(Source::Env("PW".into())));
        assert_eq!("file:/a:b".parse(), Ok(Source::File("/a:b".into())));
        assert_eq!("-".parse(), Ok(Source::Stdin));
        for bad in ["hunter2", "env:", "file:", "", "pw:x"] {
            assert!(bad.parse::<Source>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_gives_its_first_line_and_must_be_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pw");
        std::fs::write(&path, "s3cret\r\nmore\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Source::File(path.clone()).read().unwrap(), "s3cret");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            Source::File(path.clone())
                .read()
                .unwrap_err()
                .what
                .contains("644")
        );
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "\n").unwrap();
        assert!(Source::File(path).read().is_err());
    }
}
