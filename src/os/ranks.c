/* See ranks.h. Handles of Open MPI are addresses of structs that its library exports; its functions
 * are named here with those types as void. */
#include "os/ranks.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/library.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GATHER_TAG 30000 /* above every tag of the callers */

enum { FUNNELED = 1, POLLS_AWAKE = 200 };

/* How long a wait goes on once this process was asked to stop: a step that is nearly done gets
 * done. mpirun kills a second after it has asked. */
static const int64_t grace_ns = 200000000;

typedef struct functions {
    int (*init)(int *n, char ***texts, int wanted, int *provided);
    int (*finalize)(void);
    int (*rank)(void *comm, int *rank);
    int (*size)(void *comm, int *size);
    int (*set_errors)(void *comm, void *handler);
    int (*send)(const void *data, int n, void *type, int to, int tag, void *comm, void **request);
    int (*receive)(void *data, int n, void *type, int from, int tag, void *comm, void **request);
    int (*test_all)(int n, void **requests, int *is_done, void *statuses);
} functions;

struct qn_ranks {
    const qn_allocator *allocator;
    functions f;
    void *world, *byte;
    int n, own, n_here; /* n_here: on this machine */
    size_t n_requests, capacity;
    void **requests; /* (n_requests of capacity) */
    qn_ranks_use use;
};

static int number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoi(text) : 0;
}

bool qn_ranks_are_given(void) {
    return number_of("OMPI_COMM_WORLD_SIZE") > 1;
}

static qn_status find_all(qn_library *library, qn_ranks *r) {
    void *errors;
    const struct {
        const char *name;
        void *to;
    } wanted[] = {{"MPI_Init_thread", &r->f.init},
                  {"MPI_Finalize", &r->f.finalize},
                  {"MPI_Comm_rank", &r->f.rank},
                  {"MPI_Comm_size", &r->f.size},
                  {"MPI_Comm_set_errhandler", &r->f.set_errors},
                  {"MPI_Isend", &r->f.send},
                  {"MPI_Irecv", &r->f.receive},
                  {"MPI_Testall", &r->f.test_all},
                  {"ompi_mpi_comm_world", &r->world},
                  {"ompi_mpi_byte", &r->byte},
                  {"ompi_mpi_errors_return", &errors}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!qn_library_find(library, wanted[i].name, wanted[i].to))
            return qn_fail(QN_ERROR_UNSUPPORTED, "libmpi.so.40 has no %s; install Open MPI 4",
                           wanted[i].name);
    }
    int provided = 0;
    if (r->f.init(NULL, NULL, FUNNELED, &provided) != 0 || r->f.rank(r->world, &r->own) != 0 ||
        r->f.size(r->world, &r->n) != 0 || r->f.set_errors(r->world, errors) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "MPI cannot start; see mpirun's messages");
    return QN_OK;
}

/* The library stays loaded: it has threads and handlers of its own. */
static qn_status join(qn_ranks *r) {
    qn_library *library;
    const qn_status status = qn_library_open("libmpi.so.40", &library);
    if (status != QN_OK)
        return qn_fail(status,
                       "mpirun has started %d processes, but %s; install Open MPI (Debian: "
                       "openmpi-bin), or start quern without mpirun",
                       number_of("OMPI_COMM_WORLD_SIZE"), qn_error_message());
    QN_TRY(find_all(library, r));
    const int n_here = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    r->n_here = n_here > 0 ? n_here : r->n;
    return qn_ranks_reserve(r, (size_t)r->n);
}

qn_status qn_ranks_open(const qn_allocator *allocator, qn_ranks **ranks) {
    qn_ranks *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->allocator = allocator;
    const qn_status status = join(r);
    if (status != QN_OK) {
        qn_ranks_close(r);
        return status;
    }
    *ranks = r;
    return QN_OK;
}

qn_status qn_ranks_reserve(qn_ranks *r, size_t n_messages) {
    const size_t capacity = 2 * n_messages;
    void **requests;
    if (capacity <= r->capacity)
        return QN_OK;
    if (r->n_requests > 0)
        return qn_fail(QN_ERROR_ARGUMENT, "messages are still on their way");
    QN_TRY(qn_allocate(r->allocator, capacity, sizeof *requests, &requests));
    qn_release(r->allocator, r->requests, r->capacity, sizeof *r->requests);
    r->requests = requests;
    r->capacity = capacity;
    return QN_OK;
}

void qn_ranks_finish(qn_ranks *r) {
    r->f.finalize();
}

void qn_ranks_close(qn_ranks *r) {
    if (!r)
        return;
    qn_release(r->allocator, r->requests, r->capacity, sizeof *r->requests);
    qn_release(r->allocator, r, 1, sizeof *r);
}

int qn_ranks_count(const qn_ranks *r) {
    return r ? r->n : 1;
}

int qn_ranks_own(const qn_ranks *r) {
    return r ? r->own : 0;
}

/* mpirun may have given each rank processors of its own already. */
int qn_ranks_threads(const qn_ranks *r) {
    const int n_given = qn_cpu_count();
    const int n_shared = (int)sysconf(_SC_NPROCESSORS_ONLN) / r->n_here;
    const int n = n_shared < n_given ? n_shared : n_given;
    return n < 1 ? 1 : n;
}

qn_ranks_use qn_ranks_get_use(const qn_ranks *r) {
    return r->use;
}

static qn_status check_room(const qn_ranks *r, size_t bytes) {
    if (bytes > QN_RANKS_MOST_BYTES || r->n_requests == r->capacity)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a message between ranks of %zu bytes, number %zu",
                       bytes, r->n_requests + 1);
    return QN_OK;
}

static qn_status check_code(int code) {
    return code == 0 ? QN_OK
                     : qn_fail(QN_ERROR_IO,
                               "MPI failed with code %d: another rank has ended, or "
                               "the network has failed",
                               code);
}

qn_status qn_ranks_send(qn_ranks *r, int to, int tag, const void *data, size_t bytes) {
    QN_TRY(check_room(r, bytes));
    QN_TRY(check_code(
        r->f.send(data, (int)bytes, r->byte, to, tag, r->world, &r->requests[r->n_requests])));
    r->n_requests++;
    r->use.sent_bytes += (int64_t)bytes;
    return QN_OK;
}

qn_status qn_ranks_receive(qn_ranks *r, int from, int tag, void *data, size_t bytes) {
    QN_TRY(check_room(r, bytes));
    QN_TRY(check_code(
        r->f.receive(data, (int)bytes, r->byte, from, tag, r->world, &r->requests[r->n_requests])));
    r->n_requests++;
    r->use.received_bytes += (int64_t)bytes;
    return QN_OK;
}

/* Whether all are through; then none is queued any more. */
static qn_status test(qn_ranks *r, int *is_done) {
    *is_done = 1;
    if (r->n_requests == 0)
        return QN_OK;
    QN_TRY(check_code(r->f.test_all((int)r->n_requests, r->requests, is_done, NULL)));
    if (*is_done)
        r->n_requests = 0;
    return QN_OK;
}

/* A failure comes again in the wait. */
void qn_ranks_poll(qn_ranks *r) {
    int is_done;
    if (r->n_requests > 0)
        r->f.test_all((int)r->n_requests, r->requests, &is_done, NULL);
}

/* The other ranks may need this processor. */
static void pause_briefly(int n_polls) {
    if (n_polls < POLLS_AWAKE)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

qn_status qn_ranks_wait(qn_ranks *r) {
    const int64_t begin_ns = qn_clock_ns();
    int64_t asked_ns = 0;
    int is_done = 0;
    for (int n_polls = 0; !is_done; n_polls += n_polls < POLLS_AWAKE) {
        QN_TRY(test(r, &is_done));
        if (is_done)
            break;
        if (asked_ns == 0 && qn_was_interrupted())
            asked_ns = qn_clock_ns();
        if (asked_ns > 0 && qn_clock_ns() - asked_ns > grace_ns)
            return qn_fail(QN_ERROR_INTERRUPTED,
                           "asked to stop while waiting for another rank, which may have ended");
        pause_briefly(n_polls);
    }
    r->use.wait_ns += qn_clock_ns() - begin_ns;
    return QN_OK;
}

qn_status qn_ranks_gather(qn_ranks *r, const void *own, size_t bytes, void *all) {
    for (int i = 0; i < r->n; i++) {
        char *to = (char *)all + (size_t)i * bytes;
        if (i == r->own) {
            memcpy(to, own, bytes);
            continue;
        }
        QN_TRY(qn_ranks_receive(r, i, GATHER_TAG, to, bytes));
        QN_TRY(qn_ranks_send(r, i, GATHER_TAG, own, bytes));
    }
    return qn_ranks_wait(r);
}
