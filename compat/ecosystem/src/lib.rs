//! What several of the programs in `tests/` need.

/// A certificate for `localhost` that signs itself, and its key.
#[cfg(any(feature = "quinn", feature = "reqwest"))]
pub mod tls {
    use std::sync::Arc;

    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    /// The certificate and key of a server, both in DER.
    pub struct Identity {
        pub certificate: CertificateDer<'static>,
        pub key: PrivateKeyDer<'static>,
    }

    impl Identity {
        pub fn for_localhost() -> Self {
            crate::install_crypto_provider();
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            Self {
                certificate: made.cert.into(),
                key: made.signing_key.into(),
            }
        }

        pub fn server_config(&self, protocols: &[&str]) -> Arc<rustls::ServerConfig> {
            let mut config = rustls::ServerConfig::builder()
                .with_no_client_auth()
                .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
                .unwrap();
            config.alpn_protocols = protocols
                .iter()
                .map(|name| name.as_bytes().into())
                .collect();
            Arc::new(config)
        }

        /// For clients that trust nothing but this certificate.
        pub fn client_config(&self, protocols: &[&str]) -> Arc<rustls::ClientConfig> {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(self.certificate.clone()).unwrap();
            let mut config = rustls::ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth();
            config.alpn_protocols = protocols
                .iter()
                .map(|name| name.as_bytes().into())
                .collect();
            Arc::new(config)
        }
    }
}

/// Chooses the cryptography of rustls, which every client of reqwest needs.
#[cfg(any(
    feature = "actix",
    feature = "quinn",
    feature = "reqwest",
    feature = "warp"
))]
pub fn install_crypto_provider() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let installed = rustls::crypto::ring::default_provider().install_default();
        assert!(installed.is_ok(), "nothing else installs a provider");
    });
}

/// Returns an HTTP client with its own pool of connections.
#[cfg(any(feature = "actix", feature = "reqwest", feature = "warp"))]
pub fn http_client() -> reqwest::Client {
    install_crypto_provider();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// Returns the address of a server that the tests need, from the environment variable
/// `name`, which `cargo xtask ecosystem` sets.
pub fn server(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: `cargo xtask ecosystem` starts the server and sets it")
    })
}
