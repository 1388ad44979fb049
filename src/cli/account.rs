//! The account that signs requests: flag, environment, context, and at last mqadmin's own file. No flag takes a secret.

use std::path::{Path, PathBuf};

use super::context::Context;
use super::exit::Failure;
use super::session::Global;
use crate::client::sign::Credentials;

/// The account in use, if any.
pub fn find(global: &Global, context: &Context) -> Result<Option<Credentials>, Failure> {
    let access_key = global.access_key.clone().or_else(|| context.access_key.clone());
    let secret_file = global
        .secret_key_file
        .as_ref()
        .or(context.secret_key_file.as_ref());
    let token_file = global
        .security_token_file
        .as_ref()
        .or(context.security_token_file.as_ref());
    let Some(access_key) = access_key else {
        if let Some(path) = secret_file.or(token_file) {
            return Err(
                Failure::usage(format!("{} is of no use without an access key", path.display()))
                    .hint("--access-key KEY, or rmq config set CONTEXT access_key KEY"),
            );
        }
        return Ok(from_tools_file());
    };
    let secret_key = match (secret_file, std::env::var("RMQ_SECRET_KEY")) {
        (Some(path), _) => secret(path)?,
        (None, Ok(secret)) if !secret.is_empty() => secret,
        (None, _) => {
            return Err(
                Failure::usage(format!("the secret of access key {access_key} is missing"))
                    .hint("--secret-key-file FILE, or RMQ_SECRET_KEY in the environment"),
            );
        }
    };
    Ok(Some(Credentials {
        access_key,
        secret_key,
        security_token: token_file.map(|path| secret(path)).transpose()?,
    }))
}

/// `~/x` in the user's home.
pub(super) fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

/// The path of a secret file, in the user's home. One that others may read is refused.
pub(super) fn owners_alone(path: &Path) -> Result<PathBuf, Failure> {
    use std::os::unix::fs::MetadataExt as _;

    let path = at_home(path);
    let failed = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let mode = std::fs::metadata(&path).map_err(failed)?.mode();
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "{} is readable by others (mode {:o})",
            path.display(),
            mode & 0o777
        ))
        .hint(format!("chmod 600 {}", path.display())));
    }
    Ok(path)
}

/// The text of a secret file.
fn secret(path: &Path) -> Result<String, Failure> {
    let path = owners_alone(path)?;
    let failed = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let text = text.trim();
    if text.is_empty() {
        return Err(Failure::usage(format!("{} is empty", path.display())));
    }
    Ok(text.to_owned())
}

/// `conf/tools.yml` under `ROCKETMQ_HOME`, where mqadmin has its account.
fn from_tools_file() -> Option<Credentials> {
    let home = std::env::var_os("ROCKETMQ_HOME").filter(|home| !home.is_empty())?;
    let text = std::fs::read_to_string(Path::new(&home).join("conf").join("tools.yml")).ok()?;
    tools_account(&text)
}

/// Two plain lines of a YAML file; anything else in it is not ours.
fn tools_account(text: &str) -> Option<Credentials> {
    let value = |key: &str| {
        text.lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned())
            .filter(|value| !value.is_empty())
    };
    Some(Credentials {
        access_key: value("accessKey")?,
        secret_key: value("secretKey")?,
        security_token: value("securityToken"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_of_mqadmin_is_read() {
        let account =
            tools_account("# accessKey: no\naccessKey: rocketmq2\nsecretKey: \"12345678\"\n").unwrap();
        assert_eq!(
            (account.access_key.as_str(), account.secret_key.as_str()),
            ("rocketmq2", "12345678")
        );
        assert!(tools_account("accessKey: only\n").is_none());
        assert!(tools_account("").is_none());
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "s3cret\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(secret(&path).unwrap_err().what.contains("readable by others"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(secret(&path).unwrap(), "s3cret");
    }
}
