/* See tls.h. */
#include "federate/tls.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/files/secret_file.h"
#include "os/heap.h"
#include "os/library.h"
#include "os/network/socket.h"
#include "os/os.h"
#include "os/random.h"

#include <stddef.h>
#include <string.h>

/* ---- the library ---- */

/* As gnutls/gnutls.h (3.6.5 and later) declares them, where ptrdiff_t is ssize_t; pointers to its
 * structures are never looked into. */
typedef struct datum {
    unsigned char *data;
    unsigned int size;
} datum;

enum {
    SERVER = 1,
    CLIENT = 2,
    NO_TICKETS = 1 << 10,
    CREDENTIALS_PSK = 4,
    KEY_RAW = 0,
    E_AGAIN = -28,
    E_INTERRUPTED = -52,
};

typedef int get_key(void *session, const char *name, datum *key);

typedef struct functions {
    int (*init)(void **session, unsigned int flags);
    void (*deinit)(void *session);
    int (*set_priority)(void *session, const char *text, const char **error);
    int (*set_credentials)(void *session, int kind, void *credentials);
    void (*set_transport)(void *session, void *user);
    void (*set_push)(void *session, ptrdiff_t (*push)(void *user, const void *data, size_t bytes));
    void (*set_pull)(void *session, ptrdiff_t (*pull)(void *user, void *data, size_t bytes));
    void (*set_pull_timeout)(void *session, int (*wait)(void *user, unsigned int ms));
    int (*handshake)(void *session);
    ptrdiff_t (*send)(void *session, const void *data, size_t bytes);
    ptrdiff_t (*receive)(void *session, void *data, size_t bytes);
    int (*alert)(void *session, int code);
    const char *(*error)(int code);
    int (*client_create)(void **credentials);
    int (*client_set)(void *credentials, const char *name, const datum *key, int kind);
    void (*client_destroy)(void *credentials);
    int (*server_create)(void **credentials);
    void (*server_set)(void *credentials, get_key *get);
    void (*server_destroy)(void *credentials);
    void *(**allocate)(size_t bytes);
} functions;

/* Once opened, it stays. */
static qn_status open_library(functions *f) {
    qn_library *library;
    const struct {
        const char *name;
        void *function;
    } all[] = {
        {"gnutls_init", &f->init},
        {"gnutls_deinit", &f->deinit},
        {"gnutls_priority_set_direct", &f->set_priority},
        {"gnutls_credentials_set", &f->set_credentials},
        {"gnutls_transport_set_ptr", &f->set_transport},
        {"gnutls_transport_set_push_function", &f->set_push},
        {"gnutls_transport_set_pull_function", &f->set_pull},
        {"gnutls_transport_set_pull_timeout_function", &f->set_pull_timeout},
        {"gnutls_handshake", &f->handshake},
        {"gnutls_record_send", &f->send},
        {"gnutls_record_recv", &f->receive},
        {"gnutls_alert_send_appropriate", &f->alert},
        {"gnutls_strerror", &f->error},
        {"gnutls_psk_allocate_client_credentials", &f->client_create},
        {"gnutls_psk_set_client_credentials", &f->client_set},
        {"gnutls_psk_free_client_credentials", &f->client_destroy},
        {"gnutls_psk_allocate_server_credentials", &f->server_create},
        {"gnutls_psk_set_server_credentials_function", &f->server_set},
        {"gnutls_psk_free_server_credentials", &f->server_destroy},
        {"gnutls_malloc", &f->allocate},
    };
    if (qn_library_open("libgnutls.so.30", &library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "a key needs GnuTLS, which is not installed (Debian: apt-get install "
                       "libgnutls30), or which this static program cannot open");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!qn_library_find(library, all[i].name, all[i].function))
            return qn_fail(QN_ERROR_UNSUPPORTED, "GnuTLS lacks %s", all[i].name);
    }
    return QN_OK;
}

/* ---- keys ---- */

static const char digits[] = "0123456789abcdef";

static int digit_of(char c) {
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

qn_status qn_tls_key_parse(const char *text, qn_tls_key *key) {
    for (int i = 0; i < QN_TLS_KEY_BYTES; i++) {
        const int high = digit_of(text[2 * i]), low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "a key is %d hexadecimal digits; quern split key makes "
                           "one",
                           2 * QN_TLS_KEY_BYTES);
        key->bytes[i] = (uint8_t)(high << 4 | low);
    }
    const char *rest = text + 2 * QN_TLS_KEY_BYTES;
    return !*rest || strcmp(rest, "\n") == 0
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "more than a key of %d digits", 2 * QN_TLS_KEY_BYTES);
}

qn_status qn_tls_key_read(const char *path, qn_tls_key *key) {
    char text[2 * QN_TLS_KEY_BYTES + 8];
    QN_TRY(qn_secret_file_read(path, text, sizeof text));
    const qn_status status = qn_tls_key_parse(text, key);
    explicit_bzero(text, sizeof text);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

qn_status qn_tls_key_create(const char *path) {
    uint8_t bytes[QN_TLS_KEY_BYTES];
    char text[2 * QN_TLS_KEY_BYTES + 1];
    QN_TRY(qn_random_fill(bytes, sizeof bytes));
    for (int i = 0; i < QN_TLS_KEY_BYTES; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * QN_TLS_KEY_BYTES] = '\n';
    const qn_status status = qn_secret_file_create(path, text, sizeof text);
    explicit_bzero(text, sizeof text);
    explicit_bzero(bytes, sizeof bytes);
    return status;
}

/* ---- one end ---- */

/* Every end has the same name: the key alone says who may speak. */
static const char name_of_all[] = "quern";

struct qn_tls {
    functions f;
    qn_tls_key key;
    bool is_server;
    int connection;
    int64_t deadline_ns; /* of the call at hand */
    qn_status status;    /* of the connection, in the call at hand */
    void *session, *credentials;
};

static ptrdiff_t push(void *user, const void *data, size_t bytes) {
    qn_tls *t = user;
    t->status = qn_socket_send(t->connection, data, bytes, t->deadline_ns);
    return t->status == QN_OK ? (ptrdiff_t)bytes : -1;
}

static ptrdiff_t pull(void *user, void *data, size_t bytes) {
    qn_tls *t = user;
    size_t n = 0;
    t->status = qn_socket_receive_some(t->connection, data, bytes, t->deadline_ns, &n);
    return t->status == QN_OK ? (ptrdiff_t)n : -1;
}

/* The deadline is pull's: the library need not wait. */
static int wait_to_pull(void *user, unsigned int ms) {
    (void)user;
    (void)ms;
    return 1;
}

/* The library asks for the key within a handshake, in the thread that called it. */
static _Thread_local qn_tls *in_handshake;

static int give_key(void *session, const char *name, datum *key) {
    const qn_tls *t = in_handshake;
    (void)session;
    if (strcmp(name, name_of_all) != 0)
        return -1;
    key->data = (*t->f.allocate)(QN_TLS_KEY_BYTES);
    if (!key->data)
        return -1;
    memcpy(key->data, t->key.bytes, QN_TLS_KEY_BYTES);
    key->size = QN_TLS_KEY_BYTES;
    return 0;
}

static qn_status fail(const qn_tls *t, const char *what, int code) {
    return qn_fail(QN_ERROR_IO, "cannot %s: %s", what, t->f.error(code));
}

static int set_client_key(qn_tls *t) {
    const datum key = {t->key.bytes, QN_TLS_KEY_BYTES};
    return t->f.client_set(t->credentials, name_of_all, &key, KEY_RAW);
}

/* TLS 1.3 alone, a pre-shared key with ephemeral Diffie-Hellman alone. */
static const char priority[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:+DHE-PSK";

static qn_status begin(qn_tls *t) {
    int code = t->f.init(&t->session, (t->is_server ? SERVER : CLIENT) | NO_TICKETS);
    if (code >= 0)
        code = t->f.set_priority(t->session, priority, NULL);
    if (code >= 0)
        code = (t->is_server ? t->f.server_create : t->f.client_create)(&t->credentials);
    if (code < 0)
        return fail(t, "begin TLS", code);
    if (t->is_server)
        t->f.server_set(t->credentials, give_key);
    else
        code = set_client_key(t);
    if (code >= 0)
        code = t->f.set_credentials(t->session, CREDENTIALS_PSK, t->credentials);
    if (code < 0)
        return fail(t, "begin TLS", code);
    t->f.set_transport(t->session, t);
    t->f.set_push(t->session, push);
    t->f.set_pull(t->session, pull);
    t->f.set_pull_timeout(t->session, wait_to_pull);
    return QN_OK;
}

/* Whether a call has to be made once more. */
static bool is_unfinished(const qn_tls *t, ptrdiff_t code) {
    return (code == E_AGAIN || code == E_INTERRUPTED) && t->status == QN_OK;
}

static qn_status agree(qn_tls *t) {
    int code;
    in_handshake = t;
    do
        code = t->f.handshake(t->session);
    while (is_unfinished(t, code));
    in_handshake = NULL;
    if (t->status != QN_OK) /* whose message stands */
        return t->status;
    if (code >= 0)
        return QN_OK;
    (void)t->f.alert(t->session, code);
    return qn_fail(QN_ERROR_FORMAT, "the other side has another key, or none (%s)",
                   t->f.error(code));
}

qn_status qn_tls_create(const qn_tls_key *key, bool is_server, int connection, int64_t deadline_ns,
                        qn_tls **tls) {
    qn_tls *t;
    QN_TRY(qn_allocate(qn_allocator_default(), 1, sizeof *t, &t));
    *t = (qn_tls){
        .key = *key, .is_server = is_server, .connection = connection, .deadline_ns = deadline_ns};
    qn_status status = open_library(&t->f);
    if (status == QN_OK)
        status = begin(t);
    if (status == QN_OK)
        status = agree(t);
    if (status != QN_OK) {
        t->status = status;
        qn_tls_destroy(t);
        return status;
    }
    *tls = t;
    return QN_OK;
}

void qn_tls_destroy(qn_tls *t) {
    if (!t)
        return;
    if (t->session)
        t->f.deinit(t->session);
    if (t->credentials)
        (t->is_server ? t->f.server_destroy : t->f.client_destroy)(t->credentials);
    explicit_bzero(&t->key, sizeof t->key);
    qn_release(qn_allocator_default(), t, 1, sizeof *t);
}

/* ---- bytes ---- */

qn_status qn_tls_send(qn_tls *t, const void *data, size_t bytes, int64_t deadline_ns) {
    const char *at = data;
    t->deadline_ns = deadline_ns;
    while (bytes > 0) {
        const ptrdiff_t n = t->f.send(t->session, at, bytes);
        if (n < 0 && !is_unfinished(t, n))
            return t->status != QN_OK ? t->status : fail(t, "send to the other side", (int)n);
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}

qn_status qn_tls_receive(qn_tls *t, void *data, size_t bytes, int64_t deadline_ns) {
    char *at = data;
    t->deadline_ns = deadline_ns;
    while (bytes > 0) {
        const ptrdiff_t n = t->f.receive(t->session, at, bytes);
        if (n == 0)
            return t->status = qn_fail(QN_ERROR_IO, "the other side has gone");
        if (n < 0 && !is_unfinished(t, n))
            return t->status != QN_OK ? t->status : fail(t, "receive from the other side", (int)n);
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}
