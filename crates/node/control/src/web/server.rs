//! Accepts connections, with or without TLS, and ends them in order.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use catchment_telemetry::{Priority, nice, set_nice};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::routes;
use super::timely::Timely;
use crate::machine;
use crate::security::guard::Peer;
use crate::security::limit::Shares;
use crate::shared::NodeShared;

/// Connections at a time; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 512;
/// Connections at a time from one address: a page needs six, and one address cannot take them all.
const CONNECTIONS_EACH: usize = 64;
/// Descriptors that connections leave for files, besides the reserved ones: for the catalogue, for
/// trends, and for a run that is being read.
const DESCRIPTORS_KEPT: u64 = 12;
/// How long a client may take for its TLS handshake, or for a request's head.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take for 256 KiB of an answer.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// How long answers in progress may take once the server has been told to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    runtime: Option<tokio::runtime::Runtime>,
    accepting: Option<tokio::task::JoinHandle<()>>,
    stop: watch::Sender<bool>,
    address: SocketAddr,
}

/// Binds the socket: an error here occurs before anything has been started.
///
/// # Errors
/// The system's error.
pub(crate) fn bind(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Server {
    /// Serves from now on, on a separate thread.
    ///
    /// # Errors
    /// The system refuses threads.
    pub(crate) fn start(
        shared: &Arc<NodeShared>,
        listener: std::net::TcpListener,
        tls: Option<TlsAcceptor>,
    ) -> std::io::Result<Self> {
        // Threads that read the catalogue and files have normal priority; the answering thread
        // starts them later, so they would inherit its nice value.
        let (first, usual) = (AtomicBool::new(true), nice());
        let begin = move || match first.swap(false, Relaxed) {
            true => Priority::Control.apply(),
            false => set_nice(usual),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(4)
            .thread_name("control-http")
            .on_thread_start(begin)
            .enable_all()
            .build()?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        drop(entered);
        let router = routes::router(Arc::clone(shared), stopped.clone());
        let accepting = runtime.spawn(accept(listener, tls, router, Arc::clone(shared), stopped));
        Ok(Self { runtime: Some(runtime), accepting: Some(accepting), stop, address })
    }

    /// The address on which it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    /// Answers pending requests, ends the streams, and ends its threads.
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let (Some(runtime), Some(accepting)) = (self.runtime.take(), self.accepting.take()) {
            // It ends when the connections have, or when their time is over.
            runtime.block_on(async { tokio::time::timeout(2 * FAREWELL, accepting).await.ok() });
            runtime.shutdown_timeout(FAREWELL);
        }
    }
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    shared: Arc<NodeShared>,
    mut stopped: watch::Receiver<bool>,
) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let shares = Shares::new(CONNECTIONS_EACH);
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(pair) => pair,
            Err(error) => {
                // No descriptors left, or the client disconnected first.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        shared.counts.connections.fetch_add(1, Relaxed);
        let share = match is_affordable(&stream) {
            true => shares.take(peer.ip()),
            false => {
                tracing::warn!("connections are refused: files need the last descriptors");
                None
            }
        };
        let Some(share) = share else {
            shared.counts.refused_connections.fetch_add(1, Relaxed);
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        let watcher = graceful.watcher();
        tokio::spawn(async move {
            let _held = (permit, share);
            // Small answers are sent at once.
            stream.set_nodelay(true).ok();
            match tls {
                None => serve(stream, TAKEN_WITHIN, peer, router, watcher).await,
                Some(tls) => {
                    if let Some(stream) = handshake(tls, stream).await {
                        serve(stream, TAKEN_WITHIN, peer, router, watcher).await;
                    }
                }
            }
        });
    }
    tokio::time::timeout(FAREWELL, graceful.shutdown()).await.ok();
}

/// Whether the process may open enough files besides this connection. The system assigns the lowest
/// free descriptor, so its number is a lower bound for those in use.
fn is_affordable(stream: &TcpStream) -> bool {
    let descriptor = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
    descriptor + DESCRIPTORS_KEPT < machine::open_files_max()
}

async fn handshake(
    tls: TlsAcceptor,
    stream: TcpStream,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        // Port scanners, and browsers that do not know the certificate: not logged.
        Ok(Err(error)) => {
            tracing::debug!(%error, "no TLS");
            None
        }
        Err(_) => None,
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    taken_within: Duration,
    peer: SocketAddr,
    router: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = hyper::service::service_fn(move |request: hyper::Request<_>| {
        let router = router.clone();
        async move {
            let mut request: Request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            let response: Result<Response, Infallible> = router.oneshot(request).await;
            response
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(Timely::new(stream, taken_within)), service);
    // A client that disconnects, or stops reading, is not an error.
    watcher.watch(connection).await.ok();
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use axum::body::Bytes;
    use axum::routing::get;
    use futures_util::stream::unfold;

    use super::*;

    #[tokio::test]
    async fn a_client_that_stops_reading_gives_back_what_its_answer_holds() {
        let held = Arc::new(Semaphore::new(1));
        let taken = Arc::clone(&held);
        let endless = get(move || async move {
            let permit = taken.acquire_owned().await.unwrap();
            Body::from_stream(unfold(permit, |permit| async move {
                Some((Ok::<_, Infallible>(Bytes::from(vec![7; 256 << 10])), permit))
            }))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
        let graceful = GracefulShutdown::new();
        let router = Router::new().route("/", endless);
        let served = serve(stream, Duration::from_millis(50), peer, router, graceful.watcher());
        // The client is there, and reads nothing.
        tokio::time::timeout(Duration::from_secs(300), served).await.expect("it ends");
        assert_eq!(held.available_permits(), 1);
        drop(client);
    }
}
