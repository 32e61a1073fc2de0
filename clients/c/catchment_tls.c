/* TLS for front-ends in C, with OpenSSL 1.1.1 or newer: a program that connects to catchment://HOST
 * sets `tls` of its options to &catchment_tls, and is compiled with this file beside catchment.c,
 * and -lssl -lcrypto. It is TLS 1.3 alone, as docs/spec/session.md asks for.
 *
 * Nothing here waits: sockets do not, and what they cannot take or give now is said. They are read
 * and written by functions of our own, since OpenSSL's raise SIGPIPE. A connection belongs to the
 * thread that serves the session. Its buffers are taken when it is opened; OpenSSL takes a few
 * small blocks for a record of up to 16 KiB, and gives them back.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "catchment.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* then the socket has SO_NOSIGPIPE */
#endif

struct trusted {
    SSL_CTX *context;
    BIO_METHOD *socket;
    char host[256];
};

struct connection {
    SSL *ssl;
    int fd, error, is_ended, is_broken;
};

/* --- The socket, as OpenSSL sees it. ---------------------------------------------------------- */

static int socket_result(BIO *bio, ssize_t result, int retry) {
    struct connection *of = BIO_get_data(bio);
    int is_later = result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    BIO_clear_retry_flags(bio);
    if (is_later) BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else if (result < 0) of->error = errno;
    return (int)result;
}

static int socket_write(BIO *bio, const char *bytes, int count) {
    const struct connection *of = BIO_get_data(bio);
    ssize_t taken;
    do taken = send(of->fd, bytes, (size_t)count, MSG_NOSIGNAL);
    while (taken < 0 && errno == EINTR);
    return socket_result(bio, taken, BIO_FLAGS_WRITE);
}

static int socket_read(BIO *bio, char *bytes, int room) {
    struct connection *of = BIO_get_data(bio);
    ssize_t count;
    do count = recv(of->fd, bytes, (size_t)room, 0);
    while (count < 0 && errno == EINTR);
    if (count == 0) of->is_ended = 1;
    return socket_result(bio, count, BIO_FLAGS_READ);
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH; /* nothing waits here */
}

/* --- What is trusted. ------------------------------------------------------------------------- */

static void distrust(void *given) {
    struct trusted *trusted = given;
    SSL_CTX_free(trusted->context);
    BIO_meth_free(trusted->socket);
    free(trusted);
}

/* Reads the certificates of a file, which are authorities' or a recorder's own. */
static int read_certificates(SSL_CTX *context, const char *path, char *why) {
    FILE *file = fopen(path, "r");
    const char *message = file ? NULL : strerror(errno);
    if (file) fclose(file);
    if (file && SSL_CTX_load_verify_locations(context, path, NULL)) return 1;
    if (!message) message = ERR_reason_error_string(ERR_peek_error());
    snprintf(why, CATCHMENT_WHY_BYTES, "%.100s: expected certificates in PEM: %.100s", path,
             message ? message : "there are none");
    return 0;
}

static void *trust(const char *certificate, const char *host, char *why) {
    static const unsigned char ALPN[] = "\013catchment/1";
    struct trusted *trusted = calloc(1, sizeof *trusted);
    uint64_t flags = 0;
#ifdef OPENSSL_INIT_NO_ATEXIT
    flags = OPENSSL_INIT_NO_ATEXIT; /* a program may exit while its session is open */
#endif
    ERR_clear_error();
    snprintf(why, CATCHMENT_WHY_BYTES, "OpenSSL cannot be used");
    if (!trusted || !OPENSSL_init_ssl(flags, NULL)) return free(trusted), NULL;
    snprintf(trusted->host, sizeof trusted->host, "%s", host);
    trusted->context = SSL_CTX_new(TLS_client_method());
    trusted->socket = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "catchment");
    if (!trusted->context || !trusted->socket
        || !SSL_CTX_set_min_proto_version(trusted->context, TLS1_3_VERSION)
        || SSL_CTX_set_alpn_protos(trusted->context, ALPN, sizeof ALPN - 1)
        || !BIO_meth_set_write(trusted->socket, socket_write)
        || !BIO_meth_set_read(trusted->socket, socket_read)
        || !BIO_meth_set_ctrl(trusted->socket, socket_control)
        || !read_certificates(trusted->context, certificate, why)) {
        ERR_clear_error();
        return distrust(trusted), NULL;
    }
    SSL_CTX_set_mode(trusted->context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(trusted->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(trusted->context, SSL_SESS_CACHE_OFF);
    /* A recorder's own certificate is trusted also where an authority has signed it. */
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(trusted->context), X509_V_FLAG_PARTIAL_CHAIN);
    return trusted;
}

/* --- A connection. ---------------------------------------------------------------------------- */

static void close_connection(void *given) {
    struct connection *of = given;
    ERR_clear_error();
    if (!of->is_broken) (void)SSL_shutdown(of->ssl); /* as far as the socket takes it */
    ERR_clear_error();
    SSL_free(of->ssl);
    free(of);
}

/* The certificate has to name the host: an address as an address, a name as a name. */
static int set_host(SSL *ssl, const char *host) {
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
                                                | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host)) return 1;
    return X509_VERIFY_PARAM_set1_host(wanted, host, 0) && SSL_set_tlsext_host_name(ssl, host);
}

static void *open_connection(const void *given, int fd) {
    const struct trusted *trusted = given;
    struct connection *made = calloc(1, sizeof *made);
    SSL *ssl = SSL_new(trusted->context);
    BIO *bio = BIO_new(trusted->socket);
    int is_made = made && ssl && bio && set_host(ssl, trusted->host);
    ERR_clear_error();
    if (!is_made) {
        SSL_free(ssl);
        BIO_free(bio);
        free(made);
        return NULL;
    }
    made->ssl = ssl;
    made->fd = fd;
    BIO_set_data(bio, made);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_connect_state(ssl);
    return made;
}

/* Why a connection broke. */
static void explain(const struct connection *of, char *why) {
    unsigned long error = ERR_peek_error();
    int number = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    const char *reason = ERR_reason_error_string(error);
    long verified = SSL_get_verify_result(of->ssl);
    if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(why, CATCHMENT_WHY_BYTES, "the certificate does not name this host");
    else if (verified != X509_V_OK)
        snprintf(why, CATCHMENT_WHY_BYTES, "the certificate is not trusted: %s",
                 X509_verify_cert_error_string(verified));
    else if (!SSL_is_init_finished(of->ssl) && (of->is_ended || of->error))
        snprintf(why, CATCHMENT_WHY_BYTES, "the connection ended in the handshake of TLS; a "
                 "recorder without TLS is catchment+tcp://");
    else if (of->is_ended)
        snprintf(why, CATCHMENT_WHY_BYTES, "it was closed");
    else if (of->error)
        snprintf(why, CATCHMENT_WHY_BYTES, "%s", strerror(of->error));
    else if (number == SSL_R_WRONG_VERSION_NUMBER)
        snprintf(why, CATCHMENT_WHY_BYTES, "what answers there does not speak TLS");
    else
        snprintf(why, CATCHMENT_WHY_BYTES, "TLS: %s", reason ? reason : "an error without a name");
}

/* What a call of OpenSSL means. A connection that is cut off ends as one that is closed: what runs
 * over it says where it ends. */
static int64_t outcome(struct connection *of, int result, char *why) {
    if (result > 0) return result;
    switch (SSL_get_error(of->ssl, result)) {
    case SSL_ERROR_WANT_READ: return CATCHMENT_TLS_READ;
    case SSL_ERROR_WANT_WRITE: return CATCHMENT_TLS_WRITE;
    case SSL_ERROR_ZERO_RETURN: return snprintf(why, CATCHMENT_WHY_BYTES, "it was closed"), 0;
    default: break;
    }
    explain(of, why);
    of->is_broken = 1;
    return of->is_ended && SSL_is_init_finished(of->ssl) ? 0 : CATCHMENT_TLS_BROKEN;
}

static int64_t shake(void *given, char *why) {
    struct connection *of = given;
    ERR_clear_error();
    return outcome(of, SSL_do_handshake(of->ssl), why);
}

static int64_t read_bytes(void *given, void *bytes, size_t room, char *why) {
    struct connection *of = given;
    ERR_clear_error();
    return outcome(of, SSL_read(of->ssl, bytes, (int)room), why);
}

static int64_t write_bytes(void *given, const void *bytes, size_t count, char *why) {
    struct connection *of = given;
    ERR_clear_error();
    return outcome(of, SSL_write(of->ssl, bytes, (int)count), why);
}

const struct catchment_tls catchment_tls = {
    .trust = trust, .distrust = distrust, .open = open_connection, .shake = shake,
    .read = read_bytes, .write = write_bytes, .close = close_connection,
};
