//! How servers are reached: TLS and a proxy, by flag or by context.

use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::account;
use super::context::Context;
use super::exit::Failure;
use super::quoted;
use crate::client::{Dial, Tls, TlsFiles};

/// Flags of every command that say how servers are reached.
#[derive(Debug, Clone, Default, Args)]
pub struct Reach {
    /// Speak TLS to name servers and brokers; certificates are checked against this system's authorities
    #[arg(long, global = true)]
    pub tls: bool,
    /// TLS with these authorities (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Our own certificate chain (PEM), for servers that ask for one
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key (PEM, no password), readable by its owner alone
    #[arg(long, global = true, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// TLS with any certificate of the server, as Java's clients by default
    #[arg(long, global = true, conflicts_with = "tls_ca")]
    pub tls_insecure: bool,
    /// SOCKS5 proxy that dials name servers and brokers for us, as `ssh -D` is one
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub via_proxy: Option<String>,
}

/// `tls = { … }` of a context; an empty table is TLS with this system's authorities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextTls {
    /// Authorities.
    pub ca: Option<PathBuf>,
    /// Our certificate chain.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Take any certificate.
    pub insecure: bool,
}

impl Reach {
    /// Flags over the context.
    pub(super) fn dial(&self, context: &Context) -> Result<Dial, Failure> {
        let proxy = self.via_proxy.as_ref().or(context.via_proxy.as_ref());
        if let Some(proxy) = proxy.filter(|proxy| !super::context::is_address(proxy)) {
            return Err(Failure::usage(format!(
                "--via-proxy: \"{proxy}\" is not HOST:PORT"
            )));
        }
        Ok(Dial {
            tls: self.files(context)?.map(|files| tls(&files)).transpose()?,
            proxy: proxy.cloned(),
        })
    }

    /// What TLS needs; `None` is no TLS.
    fn files(&self, context: &Context) -> Result<Option<TlsFiles>, Failure> {
        let asked = self.tls
            || self.tls_insecure
            || self.tls_ca.is_some()
            || self.tls_cert.is_some()
            || self.tls_key.is_some();
        if !asked && context.tls.is_none() {
            return Ok(None);
        }
        let set = context.tls.clone().unwrap_or_default();
        let path = |flag: &Option<PathBuf>, kept: Option<PathBuf>| {
            flag.clone().or(kept).map(|path| account::at_home(&path))
        };
        // An authority on the command line ends the context's carelessness, and the other way round.
        let insecure = self.tls_insecure || (set.insecure && self.tls_ca.is_none());
        let key = path(&self.tls_key, set.key)
            .map(|path| account::owners_alone(&path))
            .transpose()?;
        Ok(Some(TlsFiles {
            ca: path(&self.tls_ca, set.ca).filter(|_| !insecure),
            cert: path(&self.tls_cert, set.cert),
            key,
            insecure,
        }))
    }

    /// The flags as they were given.
    pub(super) fn given(&self) -> Vec<String> {
        let flag = |given: bool, name: &str| given.then(|| name.to_owned());
        let file = |path: &Option<PathBuf>, name: &str| {
            path.as_ref()
                .map(|path| format!("{name} {}", quoted(&path.display().to_string())))
        };
        [
            flag(self.tls, "--tls"),
            flag(self.tls_insecure, "--tls-insecure"),
            file(&self.tls_ca, "--tls-ca"),
            file(&self.tls_cert, "--tls-cert"),
            file(&self.tls_key, "--tls-key"),
            self.via_proxy
                .as_ref()
                .map(|proxy| format!("--via-proxy {}", quoted(proxy))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn tls(files: &TlsFiles) -> Result<Tls, Failure> {
    Tls::new(files).map_err(|e| {
        let failure = Failure::usage(format!("TLS: {e}"));
        match &files.ca {
            None if !files.insecure => failure.hint("--tls-ca FILE, or rmq config set CONTEXT tls.ca FILE"),
            _ => failure,
        }
    })
}

/// True for a key of `tls` that names a file.
pub(super) fn names_a_file(key: &str) -> bool {
    matches!(key, "ca" | "cert" | "key")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn context(text: &str) -> Context {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn flags_go_over_the_context() {
        let reach = Reach::default();
        assert_eq!(reach.files(&context("")).unwrap(), None);
        assert_eq!(
            reach.files(&context("tls = {}")).unwrap(),
            Some(TlsFiles::default())
        );
        let careless = context("tls = { insecure = true }");
        assert!(reach.files(&careless).unwrap().unwrap().insecure);
        let strict = Reach {
            tls_ca: Some("/ca.pem".into()),
            ..Reach::default()
        };
        let files = strict.files(&careless).unwrap().unwrap();
        assert_eq!(
            (files.insecure, files.ca.as_deref()),
            (false, Some(Path::new("/ca.pem")))
        );
        let loose = Reach {
            tls_insecure: true,
            ..Reach::default()
        };
        let files = loose.files(&context("tls = { ca = \"/x\" }")).unwrap().unwrap();
        assert_eq!((files.insecure, files.ca), (true, None));
    }

    #[test]
    fn what_cannot_work_is_told_before_anything_is_dialled() {
        let missing = Reach {
            tls_ca: Some("/nowhere/ca.pem".into()),
            ..Reach::default()
        };
        let failure = missing.dial(&Context::default()).unwrap_err();
        assert!(failure.what.contains("/nowhere/ca.pem"), "{failure:?}");
        let proxy = Reach {
            via_proxy: Some("bastion".into()),
            ..Reach::default()
        };
        assert!(
            proxy
                .dial(&Context::default())
                .unwrap_err()
                .what
                .contains("bastion")
        );
    }
}
