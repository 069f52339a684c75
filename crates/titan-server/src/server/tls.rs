//! The files of TLS.

use std::fs;
use std::path::Path;

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::error::{Error, Result};
use crate::options::TlsFiles;

/// Reads the files.
///
/// # Errors
/// `Io`; `Tls` for one that is no PEM file.
pub(super) fn config(files: &TlsFiles) -> Result<ServerTlsConfig> {
    let read = |file: &Path| {
        let text = fs::read(file).map_err(Error::io(format!("read {}", file.display())))?;
        let is_pem = text.windows(11).any(|bytes| bytes == b"-----BEGIN ");
        match is_pem {
            true => Ok(text),
            false => Err(Error::tls(format!("{} is no PEM file", file.display()))),
        }
    };
    let identity = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    let mut config = ServerTlsConfig::new().identity(identity);
    if let Some(authority) = &files.client_authority {
        config = config.client_ca_root(Certificate::from_pem(read(authority)?));
    }
    Ok(config)
}
