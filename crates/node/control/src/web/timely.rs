//! A connection that ends when its client stops reading. Answers hold places of which there are few
//! ([`super::stored`]), and memory: a client that takes nothing must not keep them.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes that a client takes within the limit of time, or all that there are.
const PIECE_BYTES: usize = 256 << 10;

/// A stream of which each piece must be taken within a limit of time.
pub(super) struct Timely<S> {
    stream: S,
    limit: Duration,
    /// Runs since the stream first took nothing, until a piece or all that there is has gone.
    timer: Option<Pin<Box<Sleep>>>,
    /// What has gone since then.
    bytes: usize,
}

impl<S> Timely<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, timer: None, bytes: 0 }
    }

    fn took(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= PIECE_BYTES {
            self.took_all();
        }
    }

    fn took_all(&mut self) {
        (self.timer, self.bytes) = (None, 0);
    }

    /// The outcome of a call, or an error if it has none for longer than the limit.
    fn within_limit<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if polled.is_ready() {
            return polled;
        }
        let limit = self.limit;
        let timer = self.timer.get_or_insert_with(|| {
            self.bytes = 0;
            Box::pin(tokio::time::sleep(limit))
        });
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timely<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timely<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.as_mut().poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        if let Poll::Ready(Ok(bytes)) = polled {
            self.took(bytes);
        }
        self.within_limit(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        if polled.is_ready() {
            self.took_all();
        }
        self.within_limit(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within_limit(context, polled)
    }
}
