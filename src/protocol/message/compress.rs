//! Decompression of message bodies. Output is bounded, whatever the stream promises.

use std::io::Read;

use super::super::Error;
use super::super::model::Compression;

/// Decompresses a body: zlib stream, LZ4 frame or Zstandard frame. More than `limit` bytes is an error.
pub fn decompress(kind: Compression, body: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let bad = |e: std::io::Error| Error::malformed("compressed body", e.to_string());
    match kind {
        Compression::Zlib => read(flate2::read::ZlibDecoder::new(body), body.len(), limit),
        Compression::Lz4 => read(lz4_flex::frame::FrameDecoder::new(body), body.len(), limit),
        Compression::Zstd => {
            let mut stream = zstd::stream::read::Decoder::new(body).map_err(bad)?;
            // 8 MiB, the most that the frames of this protocol can need, instead of 128 MiB.
            stream.window_log_max(23).map_err(bad)?;
            read(stream, body.len(), limit)
        }
        Compression::Unknown => Err(Error::malformed("compressed body", "unknown compression type")),
    }
}

fn read(stream: impl Read, hint: usize, limit: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(hint.saturating_mul(2).min(limit));
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    stream
        .take(most)
        .read_to_end(&mut out)
        .map_err(|e| Error::malformed("compressed body", e.to_string()))?;
    if out.len() > limit {
        return Err(Error::malformed(
            "compressed body",
            format!("longer than {limit} bytes"),
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(kind: Compression, body: &[u8]) -> Vec<u8> {
        match kind {
            Compression::Zlib => {
                let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(5));
                out.write_all(body).unwrap();
                out.finish().unwrap()
            }
            Compression::Lz4 => {
                let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
                out.write_all(body).unwrap();
                out.finish().unwrap()
            }
            _ => zstd::stream::encode_all(body, 3).unwrap(),
        }
    }

    #[test]
    fn each_kind_comes_back_up_to_the_limit_and_no_further() {
        let body = vec![7u8; 100_000];
        for kind in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
            let packed = packed(kind, &body);
            assert_eq!(decompress(kind, &packed, body.len()).unwrap(), body, "{kind:?}");
            assert!(decompress(kind, &packed, body.len() - 1).is_err(), "{kind:?}");
            assert!(
                decompress(kind, &packed[..packed.len() / 2], body.len()).is_err(),
                "{kind:?}"
            );
            assert!(decompress(kind, b"no stream", 100).is_err(), "{kind:?}");
        }
        assert!(decompress(Compression::Unknown, b"", 10).is_err());
    }
}
