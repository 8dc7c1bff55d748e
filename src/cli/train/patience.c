/* See patience.h. */
#include "cli/train/patience.h"

#include "cli/terminal.h"
#include "os/os.h"

#include <stdio.h>

static const int64_t first_ns = 2000000000, second_ns = 1000000000;

typedef struct patience {
    qn_monitor *lock;
    bool is_over;
    const char *what;
    qn_thread *thread;
} patience;

static void tell(void *context) {
    patience *p = context;
    const int64_t begin_ns = qn_clock_ns();
    int64_t next_ns = begin_ns + first_ns;
    char line[160];
    qn_monitor_lock(p->lock);
    while (!p->is_over) {
        qn_monitor_wait_until(p->lock, next_ns);
        if (p->is_over || qn_clock_ns() < next_ns)
            continue;
        snprintf(line, sizeof line, "%s: %lld s", p->what,
                 (long long)((next_ns - begin_ns) / second_ns));
        terminal_show(line);
        next_ns += second_ns;
    }
    qn_monitor_unlock(p->lock);
    terminal_clear();
}

static void begin(patience *p, const char *what) {
    *p = (patience){.what = what};
    if (terminal_moves() && qn_monitor_create(NULL, &p->lock) == QN_OK)
        (void)qn_thread_start(NULL, tell, p, &p->thread);
}

static void end(patience *p) {
    if (p->thread) {
        qn_monitor_lock(p->lock);
        p->is_over = true;
        qn_monitor_notify(p->lock);
        qn_monitor_unlock(p->lock);
        qn_thread_join(p->thread);
    }
    qn_monitor_destroy(p->lock);
}

qn_status patience_open(const qn_task_options *options, qn_task **task) {
    patience p;
    if (options->engine.memory_budget_bytes == 0 && options->engine.tune == QN_TUNE_OFF)
        return qn_task_open(options, task);
    begin(&p, options->engine.memory_budget_bytes == 0
                  ? "measuring which tiling of products is fastest"
              : options->engine.tune == QN_TUNE_OFF
                  ? "searching for a plan within the budget, or the minimum"
                  : "searching for a plan within the budget, or the minimum; tuning");
    const qn_status status = qn_task_open(options, task);
    end(&p);
    return status;
}
