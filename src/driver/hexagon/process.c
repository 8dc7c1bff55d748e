/* The process that is the DSP: started, asked, and started again. Messages are words in pipes; what
 * they are about lies in the shared memory. Works that it knows already are named by number; where
 * there is no room for all of them, the one that was used last makes room, since training asks for
 * them in a circle. */
#include "base/embed.h"
#include "base/memory.h"
#include "base/status.h"
#include "driver/hexagon/state.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(qn_dsp_control) <= QN_DSP_CONTROL_BYTES, "the control block has room");

QN_EMBED(qn_hexagon_program, QN_HEXAGON_PROGRAM);

/* The program is the second file that it gets, its memory the first. */
static const char command[] = "exec qemu-hexagon /proc/self/fd/4";

static const int64_t patience_ns = INT64_C(120000000000);

enum { MOST_STARTS = 50 }; /* of the process without anything done */

static qn_dsp_control *control_of(const qn_hexagon *h) {
    return (void *)h->shared.memory;
}

static void count(int64_t *counter, int64_t n) {
    (void)__atomic_add_fetch(counter, n, __ATOMIC_RELAXED);
}

qn_status qn_hexagon_check(void) {
    if (qn_program_is_there("qemu-hexagon"))
        return QN_OK;
    return qn_fail(
        QN_ERROR_UNSUPPORTED,
        "the device hexagon:emulated needs qemu-hexagon, which is not installed (Debian: "
        "qemu-user); install it, or train on the cpu");
}

/* ---- starting and ending ---- */

static void set_process(qn_hexagon *h, qn_process *process) {
    qn_monitor_lock(h->guard);
    h->process = process;
    qn_monitor_unlock(h->guard);
}

void qn_hexagon_stop(qn_hexagon *h) {
    qn_process *process = h->process;
    set_process(h, NULL);
    qn_process_close(process);
    h->n_used = 0;
    h->mapped_bytes = 0;
}

void qn_hexagon_kill(void *state) {
    qn_hexagon *h = state;
    qn_monitor_lock(h->guard);
    if (h->process)
        qn_process_kill(h->process);
    qn_monitor_unlock(h->guard);
}

static size_t used_bytes(const qn_hexagon *h) {
    size_t end = QN_DSP_CONTROL_BYTES;
    for (int i = 0; i < QN_HEXAGON_MOST_MEMORIES; i++) {
        const qn_hexagon_region *r = &h->regions[i];
        end = r->bytes > 0 && r->offset + r->bytes > end ? r->offset + r->bytes : end;
    }
    return end + QN_DSP_SLACK_BYTES;
}

static qn_status ask(qn_process *process, uint32_t word) {
    return qn_process_write(process, &word, sizeof word, patience_ns);
}

static qn_status hear(qn_process *process) {
    char word[sizeof(uint32_t)];
    for (size_t n = 0, had = 0; had < sizeof word; had += n)
        QN_TRY(qn_process_read(process, word + had, sizeof word - had, patience_ns, &n));
    return QN_OK;
}

/* An empty message shows that it works. */
static qn_status greet(qn_hexagon *h, qn_process *process) {
    qn_dsp_control *control = control_of(h);
    control->version = QN_DSP_VERSION;
    control->n_commands = 0;
    control->prepare_packets = 0;
    QN_TRY(ask(process, (uint32_t)h->mapped_bytes));
    QN_TRY(ask(process, 0));
    return hear(process);
}

qn_status qn_hexagon_start(qn_hexagon *h) {
    const int files[] = {h->shared.file, h->program.file};
    qn_process *process;
    if (h->process)
        return QN_OK;
    QN_TRY(qn_process_start_with(h->allocator, command, files, 2, &process));
    count(&h->counts.n_starts, 1);
    h->mapped_bytes = used_bytes(h);
    const qn_status status = greet(h, process);
    if (status == QN_OK) {
        set_process(h, process);
        return QN_OK;
    }
    h->mapped_bytes = 0;
    qn_process_close(process);
    return status;
}

qn_status qn_hexagon_try(qn_hexagon *h) {
    qn_status status = QN_ERROR_DEVICE;
    for (int i = 0; i < MOST_STARTS && status != QN_OK; i++)
        status = qn_hexagon_start(h);
    qn_hexagon_stop(h);
    return status;
}

/* ---- what is prepared ---- */

static int find_resident(const qn_hexagon *h, const qn_dsp_work *work) {
    int i = 0;
    while (i < h->n_used && memcmp(&h->resident[i], work, sizeof *work) != 0)
        i++;
    return i < h->n_used ? i : -1;
}

/* The slot of a task, whose work goes into the message unless it is there already. */
static void put_command(qn_hexagon *h, const qn_hexagon_task *task, qn_dsp_command *c) {
    qn_dsp_control *control = control_of(h);
    int slot = find_resident(h, &task->work);
    *c = (qn_dsp_command){.bits = task->bits};
    if (slot < 0) {
        slot = h->n_used < h->n_slots ? h->n_used++ : h->last_slot;
        h->resident[slot] = task->work;
        control->works[control->n_prepared++] = task->work;
        c->prepares = (int32_t)control->n_prepared;
    }
    c->slot = slot;
    h->last_slot = slot;
}

/* ---- asking ---- */

/* One message: how many of its tasks were done. */
static qn_status send(qn_hexagon *h, qn_hexagon_task *tasks, int n, int *done) {
    qn_dsp_control *control = control_of(h);
    control->n_commands = (uint32_t)n;
    control->n_prepared = control->prepare_packets = 0;
    __atomic_store_n(&control->done, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i < n; i++)
        put_command(h, &tasks[i], &control->commands[i]);
    count(&h->counts.n_calls, 1);
    count(&h->counts.n_prepared, control->n_prepared);
    qn_status status = ask(h->process, (uint32_t)n);
    if (status == QN_OK)
        status = hear(h->process);
    *done = (int)__atomic_load_n(&control->done, __ATOMIC_SEQ_CST);
    *done = *done < n ? *done : n;
    count(&h->counts.n_prepare_packets, control->prepare_packets);
    for (int i = 0; i < *done; i++) {
        tasks[i].packets = control->packets[i];
        count(&h->counts.n_packets, tasks[i].packets);
    }
    return status;
}

bool qn_hexagon_is_lost(const void *state) {
    return __atomic_load_n(&((const qn_hexagon *)state)->is_lost, __ATOMIC_SEQ_CST);
}

static bool lose(qn_hexagon *h) {
    snprintf(h->reason, sizeof h->reason, "%.150s", qn_error_message());
    __atomic_store_n(&h->is_lost, true, __ATOMIC_SEQ_CST);
    return false;
}

/* A process that ended is as good as one that never answers: both are replaced. */
static bool do_all(qn_hexagon *h, qn_hexagon_task *tasks, int n) {
    for (int i = 0, n_starts = 0; i < n;) {
        const int most = n - i < QN_DSP_MOST_COMMANDS ? n - i : QN_DSP_MOST_COMMANDS;
        int done = 0;
        qn_status status = qn_hexagon_start(h);
        if (status == QN_OK)
            status = send(h, tasks + i, most, &done);
        i += done;
        n_starts = done > 0 ? 0 : n_starts;
        if (status == QN_OK)
            continue;
        qn_hexagon_stop(h);
        if (++n_starts == MOST_STARTS)
            return lose(h);
    }
    count(&h->counts.n_works, n);
    return true;
}

bool qn_hexagon_do(qn_hexagon *h, qn_hexagon_task *tasks, int n) {
    qn_monitor_lock(h->busy);
    const bool is_done = !qn_hexagon_is_lost(h) && do_all(h, tasks, n);
    qn_monitor_unlock(h->busy);
    return is_done;
}
