/* See split_server.h. */
#include "federate/split_server.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/network/socket.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

/* Connections beside those of accepted devices that may be about to say what they want. */
enum { MOST_PENDING = 16, MOST_SESSIONS = QN_SPLIT_MOST_DEVICES + MOST_PENDING };

struct server;

/* A connection and its thread. All fields but the thread are the monitor's. */
typedef struct session {
    struct server *server;
    qn_thread *thread; /* null: the place is free */
    int connection;    /* -1: closed */
    int64_t since_ns;
    bool is_accepted, has_ended;
    char run[QN_RUN_NAME]; /* of an accepted device */
} session;

typedef struct server {
    const qn_split_server_options *o;
    int listener;
    qn_monitor *monitor;
    int n_accepted;
    uint64_t next_turn, turn; /* tickets: the one that is given next, and the one that computes */
    int64_t quiet_until_ns;   /* failed connections are reported from then on */
    bool is_over;             /* once, and a device has ended */
    qn_status status;         /* of that device, and why */
    char why[256];
    int64_t n_steps;
    session sessions[MOST_SESSIONS];
} server;

/* ---- turns ---- */

static void enter(void *user) {
    server *s = ((session *)user)->server;
    qn_monitor_lock(s->monitor);
    const uint64_t ticket = s->next_turn++;
    while (s->turn != ticket)
        qn_monitor_wait(s->monitor);
    qn_monitor_unlock(s->monitor);
}

static void leave(void *user) {
    server *s = ((session *)user)->server;
    qn_monitor_lock(s->monitor);
    s->turn++;
    qn_monitor_notify(s->monitor);
    qn_monitor_unlock(s->monitor);
}

/* ---- a session ---- */

/* The session of a run, or null. */
static session *find_run(server *s, const char *run) {
    for (int i = 0; i < MOST_SESSIONS; i++) {
        session *c = &s->sessions[i];
        if (c->thread && c->is_accepted && !c->has_ended && strcmp(c->run, run) == 0)
            return c;
    }
    return NULL;
}

/* A device that comes again takes its run over: its connection before was lost, even where this
 * side has not noticed yet. */
static qn_status claim_locked(session *c, const qn_halves_options *o) {
    server *s = c->server;
    const session *before;
    while ((before = find_run(s, o->run)) != NULL) {
        qn_socket_end(before->connection);
        qn_monitor_wait(s->monitor);
    }
    if (s->n_accepted == s->o->n_devices)
        return qn_fail(QN_ERROR_IO, "the peer serves %d device%s already (--devices)",
                       s->n_accepted, s->n_accepted == 1 ? "" : "s");
    memcpy(c->run, o->run, sizeof c->run);
    c->is_accepted = true;
    s->n_accepted++;
    return QN_OK;
}

static qn_status claim(void *user, const qn_halves_options *o) {
    session *c = user;
    qn_monitor_lock(c->server->monitor);
    const qn_status status = claim_locked(c, o);
    qn_monitor_unlock(c->server->monitor);
    return status;
}

static void report_began(void *user, const qn_halves_options *o, int64_t step) {
    server *s = ((session *)user)->server;
    qn_monitor_lock(s->monitor);
    if (s->o->began)
        s->o->began(s->o->user, o, step);
    qn_monitor_unlock(s->monitor);
}

/* Strangers who knock all the time do not fill a log. */
static bool is_reported(server *s, const session *c, qn_status status) {
    const int64_t now = qn_clock_ns();
    if (c->is_accepted)
        return true;
    if (status == QN_OK || now < s->quiet_until_ns)
        return false;
    s->quiet_until_ns = now + 1000000000;
    return true;
}

static void end_session(session *c, qn_status status, int64_t n_steps) {
    server *s = c->server;
    qn_monitor_lock(s->monitor);
    qn_socket_close(c->connection);
    c->connection = -1;
    if (c->is_accepted)
        s->n_accepted--;
    if (c->is_accepted && s->o->once && !s->is_over) {
        s->is_over = true;
        s->status = status;
        snprintf(s->why, sizeof s->why, "%s", status == QN_OK ? "" : qn_error_message());
        s->n_steps = n_steps;
        qn_socket_end(s->listener); /* whose accept then ends */
    } else if (s->o->ended && is_reported(s, c, status))
        s->o->ended(s->o->user, status, c->is_accepted, n_steps);
    c->has_ended = true;
    qn_monitor_notify(s->monitor);
    qn_monitor_unlock(s->monitor);
}

static void serve_session(void *user) {
    session *c = user;
    qn_peer_options how = c->server->o->peer;
    int64_t n_steps = 0;
    how.user = c;
    how.claim = claim;
    how.began = report_began;
    how.enter = enter;
    how.leave = leave;
    const qn_status status = qn_peer_half_serve(&how, c->connection, &n_steps);
    end_session(c, status, n_steps);
}

/* ---- places ---- */

static void join(server *s, session *c) {
    qn_thread *thread = c->thread;
    qn_monitor_unlock(s->monitor);
    qn_thread_join(thread);
    qn_monitor_lock(s->monitor);
    *c = (session){.connection = -1};
}

/* A free place, after ended sessions have given back theirs; null: none is free. */
static session *find_free(server *s) {
    session *found = NULL;
    for (int i = 0; i < s->o->n_devices + MOST_PENDING; i++) {
        session *c = &s->sessions[i];
        if (c->thread && c->has_ended)
            join(s, c);
        found = c->thread ? found : c;
    }
    return found;
}

/* Of the connections whose device was not accepted, the one that has had most time. */
static session *find_oldest(server *s) {
    session *oldest = NULL;
    for (int i = 0; i < MOST_SESSIONS; i++) {
        session *c = &s->sessions[i];
        if (c->thread && !c->is_accepted && !c->has_ended && c->connection >= 0 &&
            (!oldest || c->since_ns < oldest->since_ns))
            oldest = c;
    }
    return oldest;
}

/* A place for the next connection. There are more than accepted devices can take. */
static session *take_place(server *s) {
    session *place;
    while (!(place = find_free(s))) {
        const session *oldest = find_oldest(s);
        if (oldest)
            qn_socket_end(oldest->connection);
        qn_monitor_wait(s->monitor);
    }
    return place;
}

static void begin_session(server *s, int connection) {
    qn_monitor_lock(s->monitor);
    session *c = take_place(s);
    *c = (session){.server = s, .connection = connection, .since_ns = qn_clock_ns()};
    const qn_status status = qn_thread_start(NULL, serve_session, c, &c->thread);
    if (status != QN_OK) { /* the device sees a closed connection, and tries again */
        qn_socket_close(connection);
        *c = (session){.connection = -1};
    }
    qn_monitor_unlock(s->monitor);
}

/* ---- all ---- */

static void end_all(server *s) {
    qn_monitor_lock(s->monitor);
    for (int i = 0; i < MOST_SESSIONS; i++) {
        session *c = &s->sessions[i];
        if (c->thread && s->is_over && c->connection >= 0)
            qn_socket_end(c->connection); /* a signal ends the others by itself */
        if (c->thread)
            join(s, c);
    }
    qn_monitor_unlock(s->monitor);
}

static bool is_over(server *s) {
    qn_monitor_lock(s->monitor);
    const bool over = s->is_over;
    qn_monitor_unlock(s->monitor);
    return over;
}

static qn_status accept_all(server *s) {
    for (;;) {
        int connection;
        const qn_status status = qn_socket_accept(s->listener, &connection);
        if (is_over(s)) {
            if (status == QN_OK)
                qn_socket_close(connection);
            return s->status == QN_OK ? QN_OK : qn_fail(s->status, "%s", s->why);
        }
        if (status == QN_ERROR_INTERRUPTED)
            return QN_OK;
        QN_TRY(status);
        begin_session(s, connection);
    }
}

qn_status qn_split_serve(const qn_split_server_options *o, int listener, int64_t *n_steps) {
    server *s;
    QN_TRY(qn_allocate(qn_allocator_default(), 1, sizeof *s, &s));
    *s = (server){.o = o, .listener = listener};
    qn_status status = qn_monitor_create(NULL, &s->monitor);
    if (status == QN_OK) {
        status = accept_all(s);
        end_all(s);
        *n_steps = s->n_steps;
    }
    qn_monitor_destroy(s->monitor);
    qn_release(qn_allocator_default(), s, 1, sizeof *s);
    return status;
}
