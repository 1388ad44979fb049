//! How an address is reached: directly or through a SOCKS5 proxy, in the clear or with TLS.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{self, CryptoProvider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::listen;
use super::stream::Stream;

/// How the connections of a pool are made. The default dials directly and in the clear.
#[derive(Debug, Clone, Default)]
pub struct Dial {
    /// Speak TLS to every server.
    pub tls: Option<Tls>,
    /// SOCKS5 proxy that dials for us, `host:port`. It resolves the names.
    pub proxy: Option<String>,
}

/// What a TLS connection needs to know; all files are PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities that are believed. `None`: those of this system.
    pub ca: Option<PathBuf>,
    /// Our own certificate chain, for servers that ask for one.
    pub cert: Option<PathBuf>,
    /// Its private key; Java's PKCS 8 files without a password, or PKCS 1, or SEC 1.
    pub key: Option<PathBuf>,
    /// Take any certificate of the server, as Java's clients do unless `tls.client.authServer` is set.
    pub insecure: bool,
}

/// Ready to dial with TLS 1.2 or 1.3.
#[derive(Clone)]
pub struct Tls(TlsConnector);

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of use.
    #[error("{what} {}: {reason}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("a certificate and its private key go together; the {0} is missing")]
    Half(&'static str),
    /// This system has no list of authorities.
    #[error("no certificate authorities are installed on this system; name a file of them")]
    NoAuthorities,
    /// The parts do not fit.
    #[error("{0}")]
    Rejected(#[from] rustls::Error),
}

impl Tls {
    /// Reads the files. Blocking; small.
    pub fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if files.insecure {
            let anyone = Arc::new(Anyone(provider));
            builder.dangerous().with_custom_certificate_verifier(anyone)
        } else {
            builder.with_root_certificates(authorities(files.ca.as_deref())?)
        };
        let config = match (&files.cert, &files.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(_), None) => return Err(TlsError::Half("key")),
            (None, Some(_)) => return Err(TlsError::Half("certificate")),
            (Some(cert), Some(key)) => {
                let chain = certificates("certificate", cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong("private key", key, e))?;
                builder.with_client_auth_cert(chain, key)?
            }
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

fn wrong(what: &'static str, path: &Path, reason: impl fmt::Display) -> TlsError {
    TlsError::File {
        what,
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let list: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|e| wrong(what, path, e))?;
    if list.is_empty() {
        return Err(wrong(what, path, "no certificate in PEM form is in it"));
    }
    Ok(list)
}

fn authorities(ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        for certificate in certificates("certificate authority", path)? {
            let added = roots.add(certificate);
            added.map_err(|e| wrong("certificate authority", path, e))?;
        }
        return Ok(roots);
    }
    // A system's list holds the odd certificate that is malformed or of an unknown kind.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    Ok(roots)
}

/// Connects to `addr`; the stream and the address of its other end, the proxy's where there is one.
pub(super) async fn connect(dial: &Dial, addr: &str) -> io::Result<(Stream, SocketAddr)> {
    let tcp = match &dial.proxy {
        None => TcpStream::connect(addr).await?,
        Some(proxy) => tokio_socks::tcp::Socks5Stream::connect(proxy.as_str(), addr)
            .await
            .map_err(|e| io::Error::other(format!("proxy {proxy}: {e}")))?
            .into_inner(),
    };
    listen::set_options(&tcp);
    let remote = tcp.peer_addr()?;
    let Some(tls) = &dial.tls else {
        return Ok((Stream::Plain(tcp), remote));
    };
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{host} is not a server name"),
        )
    })?;
    let stream = tls.0.connect(name, tcp).await.map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "it hung up at the TLS greeting"),
        kind => io::Error::new(kind, format!("no TLS with it: {e}")),
    })?;
    Ok((Stream::Tls(Box::new(stream)), remote))
}

/// Believes any certificate; signatures are checked all the same.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
