//! Themes of the operator's own: `themes/NAME.toml` beside the configuration file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::context;
use super::exit::Failure;
use crate::client::similar;
use crate::tui::app::OwnTheme;
use crate::tui::view::own_theme;
use crate::tui::view::theme::Palette;

/// Longest file that is read, bytes.
const LONGEST: u64 = 64 * 1024;
/// Files that are looked at.
const MOST: usize = 100;

/// Where themes are looked for: beside the configuration in use, and beside the user's own.
fn dirs(config: Option<&Path>) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for file in [context::path(config), context::own_path()] {
        if let Some(dir) = file.parent().map(|dir| dir.join("themes"))
            && !dirs.contains(&dir)
        {
            dirs.push(dir);
        }
    }
    dirs
}

/// Every theme there is, by name; one that cannot be read with the reason.
pub fn load(config: Option<&Path>) -> Vec<OwnTheme> {
    let mut themes: Vec<OwnTheme> = Vec::new();
    for dir in dirs(config) {
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|ending| ending == "toml"));
        files.sort();
        for path in files.into_iter().take(MOST) {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
                continue;
            };
            // The file beside the configuration in use comes first.
            if Palette::from_name(name).is_none() && themes.iter().all(|theme| theme.name != name) {
                themes.push(OwnTheme {
                    name: name.to_owned(),
                    colours: read(&path)
                        .and_then(|text| own_theme::parse(&text))
                        .map_err(|why| format!("{}: {why}", path.display())),
                });
            }
        }
    }
    themes.sort_by(|a, b| a.name.cmp(&b.name));
    themes
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    let read = read.map_err(|e| e.to_string())?;
    if read as u64 > LONGEST {
        return Err(format!("is longer than {LONGEST} bytes"));
    }
    Ok(text)
}

/// The theme of a name, built in or one of `own`.
pub fn named(name: &str, own: &[OwnTheme], config: Option<&Path>) -> Result<Palette, Failure> {
    if let Some(palette) = Palette::from_name(name) {
        return Ok(palette);
    }
    match own.iter().find(|theme| theme.name == name) {
        Some(OwnTheme {
            colours: Ok(colours), ..
        }) => Ok(Palette::Own(*colours)),
        Some(OwnTheme {
            colours: Err(why), ..
        }) => Err(Failure::usage(why.clone())),
        None => {
            let names: Vec<&str> = Palette::ALL
                .iter()
                .map(|palette| palette.name())
                .chain(own.iter().map(|theme| theme.name.as_str()))
                .collect();
            let near = similar(name, names.iter().copied());
            let failure = Failure::usage(format!("there is no theme \"{name}\""));
            Err(failure.because(if near.is_empty() {
                let dirs: Vec<String> = dirs(config).iter().map(|dir| dir.display().to_string()).collect();
                format!(
                    "There are {}; own ones are NAME.toml in {}.",
                    names.join(", "),
                    dirs.join(" or ")
                )
            } else {
                format!("Did you mean {}?", near.join(", "))
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn themes_lie_beside_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.toml");
        let themes = dir.path().join("themes");
        std::fs::create_dir(&themes).unwrap();
        std::fs::write(themes.join("night.toml"), "ok = 46\n").unwrap();
        std::fs::write(themes.join("bad.toml"), "wran = 3\n").unwrap();
        std::fs::write(themes.join("long.toml"), " ".repeat(70_000)).unwrap();
        std::fs::write(themes.join("safe.toml"), "ok = 1\n").unwrap();
        std::fs::write(themes.join("readme.txt"), "").unwrap();
        let own = load(Some(&config));
        let mine = |name: &str| own.iter().any(|theme| theme.name == name);
        assert!(mine("night") && mine("bad") && mine("long") && !mine("safe") && !mine("readme"));
        let get = |name: &str| named(name, &own, Some(&config));
        assert!(matches!(get("night"), Ok(Palette::Own(_))));
        assert_eq!(get("safe").unwrap(), Palette::Safe);
        let why = get("bad").unwrap_err().what;
        assert!(
            why.starts_with(&themes.join("bad.toml").display().to_string()),
            "{why}"
        );
        assert!(why.contains(": wran: there is no such slot"), "{why}");
        assert!(get("long").unwrap_err().what.contains("longer than"));
        assert_eq!(get("nihgt").unwrap_err().why.unwrap(), "Did you mean night?");
        let why = get("nothing").unwrap_err().why.unwrap();
        assert!(
            why.contains("default") && why.contains(&themes.display().to_string()),
            "{why}"
        );
    }
}
