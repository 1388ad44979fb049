//! Bytes on their way to the socket: frame heads and small bodies run together in one buffer, large body pieces
//! stay the slices they were.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;

use super::stream::Stream;
use crate::protocol::frame::{Frame, HeaderForm};
use crate::protocol::{Chunks, Error};

/// A body piece below this length is copied behind its head; a slice of its own would cost more.
const COPY_BELOW: usize = 4096;
/// Pieces handed to one vectored write.
const SLICES: usize = 64;
/// A buffer that grew beyond this is given back when it is empty.
const KEEP_CAPACITY: usize = 64 * 1024;

/// What waits for the socket, in order: `queue`, then `tail`.
#[derive(Debug, Default)]
pub(super) struct Output {
    queue: VecDeque<Bytes>,
    tail: BytesMut,
    unsent: usize,
    /// The stream took bytes that it may hold still; TLS does.
    unflushed: bool,
}

impl Output {
    /// Bytes not yet taken by the socket.
    pub(super) fn unsent(&self) -> usize {
        self.unsent
    }

    /// Appends a frame. When it cannot be encoded nothing is appended.
    pub(super) fn push(&mut self, head: &Frame, body: Chunks) -> Result<(), Error> {
        let body_length = body.iter().map(Bytes::len).sum();
        let before = self.tail.len();
        head.encode_head(HeaderForm::Json, body_length, &mut self.tail)?;
        self.unsent += self.tail.len() - before;
        self.push_body(body);
        Ok(())
    }

    /// Appends an encoded head and its body.
    pub(super) fn push_encoded(&mut self, head: &[u8], body: Chunks) {
        self.tail.extend_from_slice(head);
        self.unsent += head.len();
        self.push_body(body);
    }

    fn push_body(&mut self, body: Chunks) {
        for chunk in body {
            self.unsent += chunk.len();
            if chunk.len() < COPY_BELOW {
                self.tail.extend_from_slice(&chunk);
            } else {
                if !self.tail.is_empty() {
                    self.queue.push_back(self.tail.split().freeze());
                }
                self.queue.push_back(chunk);
            }
        }
    }

    /// Writes until everything is gone (`Ready`) or the socket is full. The number of bytes written is added to
    /// `written` in either case.
    pub(super) fn poll_write(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        while self.unsent > 0 {
            let stream = Pin::new(&mut *stream);
            let poll = if self.queue.is_empty() {
                stream.poll_write(cx, &self.tail)
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let mut used = 0;
                let pieces = self.queue.iter().map(|b| &b[..]).chain([&self.tail[..]]);
                for (slot, piece) in slices.iter_mut().zip(pieces.filter(|p| !p.is_empty())) {
                    *slot = IoSlice::new(piece);
                    used += 1;
                }
                stream.poll_write_vectored(cx, &slices[..used])
            };
            match poll {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    *written += n;
                    self.unflushed = true;
                    self.advance(n);
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.unflushed {
            match Pin::new(stream).poll_flush(cx) {
                Poll::Ready(flushed) => flushed?,
                Poll::Pending => return Poll::Pending,
            }
            self.unflushed = false;
        }
        if self.tail.capacity() > KEEP_CAPACITY {
            self.tail = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut n: usize) {
        self.unsent -= n;
        while let Some(front) = self.queue.front_mut() {
            if n < front.len() {
                front.advance(n);
                return;
            }
            n -= front.len();
            self.queue.pop_front();
        }
        self.tail.advance(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(out: &Output) -> Vec<u8> {
        let mut all = Vec::new();
        out.queue.iter().for_each(|b| all.extend_from_slice(b));
        all.extend_from_slice(&out.tail);
        all
    }

    #[test]
    fn pieces_keep_their_order_and_large_ones_are_not_copied() {
        let large = Bytes::from(vec![b'L'; COPY_BELOW]);
        let mut out = Output::default();
        out.push_encoded(b"head1", vec![Bytes::from_static(b"small")]);
        out.push_encoded(b"head2", vec![large.clone(), Bytes::from_static(b"end")]);
        out.push_encoded(b"head3", Vec::new());
        assert_eq!(out.queue.len(), 2);
        assert_eq!(out.queue[1].as_ptr(), large.as_ptr());
        let expected = [b"head1smallhead2", &large[..], b"endhead3"].concat();
        assert_eq!(written(&out), expected);
        assert_eq!(out.unsent(), expected.len());
        // A partial write may end anywhere.
        for cut in [0, 5, 15, 16, 15 + COPY_BELOW, expected.len()] {
            let mut part = Output::default();
            part.push_encoded(&expected[..15], vec![large.clone()]);
            part.push_encoded(b"endhead3", Vec::new());
            part.advance(cut);
            assert_eq!(written(&part), &expected[cut..]);
            assert_eq!(part.unsent(), expected.len() - cut);
        }
    }
}
