//! TLS and a SOCKS5 proxy between the command line and real servers, which stand behind small relays of this test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rmq::remoting::Listener;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::{Cluster, Rmq, items};

/// An authority and the files that it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

impl Authority {
    fn new(dir: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(dir.join("ca.pem"), issuer.pem()).unwrap();
        Self {
            issuer,
            dir: dir.to_owned(),
        }
    }

    fn file(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    /// What terminates TLS for 127.0.0.1; `strict` wants a certificate of the client.
    fn acceptor(&self, strict: bool) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if strict {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = builder.with_single_cert(vec![cert.der().clone()], key).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// A client's certificate and key, as files.
    fn client(&self) -> (String, String) {
        use std::os::unix::fs::PermissionsExt as _;

        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["operator".to_owned()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) = (self.file("client.pem"), self.file("client.key"));
        std::fs::write(&cert_file, cert.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(0o600)).unwrap();
        (cert_file, key_file)
    }
}

/// Speaks TLS outwards and plain to `to`; its address.
async fn relay(acceptor: TlsAcceptor, to: SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outer = acceptor.accept(stream).await.ok()?;
                let mut inner = TcpStream::connect(to).await.ok()?;
                copy_bidirectional(&mut outer, &mut inner).await.ok()
            });
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_believes_its_authorities_and_nobody_else() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let authority = Authority::new(cluster.dir());
    let ca = authority.file("ca.pem");
    for strict in [false, true] {
        let namesrv = relay(authority.acceptor(strict), cluster.addr).await;
        let broker = relay(authority.acceptor(strict), cluster.brokers[0].addr()).await;
        let rmq = Rmq::new(&namesrv, cluster.dir());
        let map = format!("{}={broker}", cluster.brokers[0].addr());
        let (cert, key) = authority.client();
        let own = if strict {
            vec!["--tls-cert", cert.as_str(), "--tls-key", key.as_str()]
        } else {
            Vec::new()
        };
        let run = |args: &[&str]| {
            let args: Vec<String> = args
                .iter()
                .chain(&own)
                .chain(&["--broker-map", &map, "--timeout", "3s"])
                .map(|arg| (*arg).to_owned())
                .collect();
            let rmq = rmq.clone();
            async move {
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                rmq.run(&args).await
            }
        };
        let topic = format!("Over{strict}");
        // The undo line leads to the same servers the same way.
        let made = run(&["topic", "create", &topic, "--yes", "--tls-ca", &ca]).await;
        assert_eq!(made.code, 0, "{made:?}");
        assert!(made.stdout.contains(&format!("--tls-ca {ca}")), "{made:?}");
        // A body of 100 kB is more than one TLS record, both ways.
        let body = cluster.path("body");
        std::fs::write(&body, "0123456789".repeat(10_000)).unwrap();
        let sent = run(&[
            "message",
            "send",
            "--topic",
            &topic,
            "--file",
            &body.display().to_string(),
            "--tls-ca",
            &ca,
        ])
        .await;
        assert_eq!(sent.code, 0, "{sent:?}");
        let status = run(&["topic", "status", &topic, "-o", "json", "--tls-insecure"]).await;
        assert_eq!(status.code, 0, "{status:?}");
        let messages: i64 = items(&status).iter().filter_map(|q| q["max"].as_i64()).sum();
        assert_eq!(messages, 1, "{status:?}");

        // Some other authority, or none.
        let other = tempfile::tempdir().unwrap();
        let stranger = Authority::new(other.path()).file("ca.pem");
        let refused = run(&["topic", "list", "--tls-ca", &stranger]).await;
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.stderr.contains("certificate"), "{refused:?}");
        let clear = run(&["topic", "list"]).await;
        assert_ne!(clear.code, 0, "{clear:?}");
    }
    // A server that asks for a certificate which we do not have.
    let namesrv = relay(authority.acceptor(true), cluster.addr).await;
    let bare = Rmq::new(&namesrv, cluster.dir());
    let refused = bare
        .run(&["topic", "list", "--tls-ca", &ca, "--timeout", "2s"])
        .await;
    assert_eq!(refused.code, 3, "{refused:?}");
    // TLS to a server that does not speak it.
    let plain = cluster.rmq();
    let refused = plain
        .run(&["topic", "list", "--tls-ca", &ca, "--timeout", "2s"])
        .await;
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("TLS"), "{refused:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_holds_the_authority() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let authority = Authority::new(cluster.dir());
    let namesrv = relay(authority.acceptor(false), cluster.addr).await;
    let rmq = Rmq::new(&namesrv, cluster.dir());
    let ca = authority.file("ca.pem");
    for (key, value) in [("namesrv", namesrv.as_str()), ("tls.ca", ca.as_str())] {
        let set = rmq.run(&["config", "set", "prod", key, value]).await;
        assert_eq!(set.code, 0, "{set:?}");
    }
    let told = rmq
        .run(&["config", "test", "--context", "prod", "-o", "json"])
        .await;
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(items(&told)[0]["state"], "up");
    for (key, value) in [("tls.insecure", "yes"), ("tls.cs", "x"), ("via_proxy", "nowhere")] {
        let set = rmq.run(&["config", "set", "prod", key, value]).await;
        assert_eq!(set.code, 2, "{key}: {set:?}");
    }
    cluster.stop().await;
}

/// A SOCKS5 server without accounts (RFC 1928). `names` are dialled as `to`, whatever they are.
async fn socks(name: &'static str, to: SocketAddr, asked: Arc<AtomicUsize>) -> String {
    async fn serve(mut outer: TcpStream, name: &str, to: SocketAddr) -> std::io::Result<()> {
        let mut greeting = [0; 2];
        outer.read_exact(&mut greeting).await?;
        let mut methods = vec![0; usize::from(greeting[1])];
        outer.read_exact(&mut methods).await?;
        outer.write_all(&[5, 0]).await?;
        let mut head = [0; 4];
        outer.read_exact(&mut head).await?;
        assert_eq!(head[..3], [5, 1, 0], "CONNECT is asked");
        let target = match head[3] {
            1 => {
                let mut ip = [0; 4];
                outer.read_exact(&mut ip).await?;
                let port = outer.read_u16().await?;
                SocketAddr::from((ip, port))
            }
            _ => {
                let mut host = vec![0; usize::from(outer.read_u8().await?)];
                outer.read_exact(&mut host).await?;
                outer.read_u16().await?;
                assert_eq!(host, name.as_bytes());
                to
            }
        };
        let mut inner = TcpStream::connect(target).await?;
        outer.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        copy_bidirectional(&mut outer, &mut inner).await?;
        Ok(())
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            asked.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(serve(stream, name, to));
        }
    });
    addr
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_dials_names_that_are_not_known_here() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let proxy = socks("ns.inside.invalid", cluster.addr, Arc::clone(&asked)).await;
    let rmq = Rmq::new("ns.inside.invalid:9876", cluster.dir());
    let list = rmq
        .run(&["broker", "list", "-o", "json", "--via-proxy", &proxy])
        .await;
    assert_eq!(list.code, 0, "{list:?}");
    assert_eq!(items(&list)[0]["state"], "ok");
    assert_eq!(asked.load(Ordering::SeqCst), 2, "the name server and the broker");
    // A proxy that is not there is named.
    let free = Listener::start(([127, 0, 0, 1], 0).into(), Arc::new(rmq::remoting::NoService))
        .await
        .unwrap();
    let gone = free.addr().to_string();
    free.stop(std::time::Duration::ZERO).await;
    let dead = rmq
        .run(&["topic", "list", "--via-proxy", &gone, "--timeout", "2s"])
        .await;
    assert_eq!(dead.code, 3, "{dead:?}");
    assert!(dead.stderr.contains(&format!("proxy {gone}")), "{dead:?}");
    cluster.stop().await;
}
