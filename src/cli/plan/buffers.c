/* See buffers.h. The best packing found is written however the search ends: because it is good
 * enough, because nothing better exists, by time limit, or by Ctrl-C. */
#include "cli/plan/buffers.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "format/buffers.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <stdio.h>
#include <stdlib.h>

static const option options[] = {
    {.name = "buffers",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "pack the buffers of a CSV file instead: columns id, lower, upper, size"},
    {.name = "capacity",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 9e15,
     .otherwise = "as low as possible",
     .help = "with --buffers: bytes to pack them into"},
    {.name = "seconds",
     .kind = OPTION_NUMBER,
     .argument = "S",
     .most = 1e6,
     .fallback = "10",
     .help = "with --buffers: time to search for a packing"},
    {.name = "out",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_BUFFERS,
     .argument = "FILE",
     .otherwise = "none",
     .help = "with --buffers: CSV file to write, with a column offset"},
};

const option_list plan_buffers_options = {options, sizeof options / sizeof options[0]};

enum { QUIET_NS = 2000000000, LINE_NS = 1000000000 };

typedef struct packing_run {
    const char *path, *out;
    size_t capacity; /* 0: none */
    int64_t begin_ns, shown_ns;
    bool is_json, has_bar;
    qn_buffers buffers;
    qn_packing packing;
} packing_run;

/* ---- while it searches ---- */

static double percent_above(const qn_packing *p) {
    return p->proven_bytes > 0 ? 100 * ((double)p->top_bytes / (double)p->proven_bytes - 1) : 0;
}

static void show_progress(const packing_run *r, const qn_packing *p, int64_t now_ns) {
    char top[32], text[160];
    const double seconds = (double)(now_ns - r->begin_ns) * 1e-9;
    if (r->is_json) {
        json_begin();
        json_text("event", "progress");
        json_number("seconds", seconds);
        json_count("top_bytes", (int64_t)p->top_bytes);
        json_count("proven_bytes", (int64_t)p->proven_bytes);
        json_end();
        return;
    }
    qn_print(text, sizeof text, "%.0f s: %s bytes, %.2f %% above what is proven", seconds,
             grouped((int64_t)p->top_bytes, top), percent_above(p));
    if (r->has_bar)
        terminal_show(text);
    else
        fprintf(stderr, "%s\n", text);
}

static bool go_on(void *user, const qn_packing *so_far) {
    packing_run *r = user;
    const int64_t now_ns = qn_clock_ns();
    if (now_ns - r->begin_ns > QUIET_NS && now_ns - r->shown_ns > LINE_NS) {
        show_progress(r, so_far, now_ns);
        r->shown_ns = now_ns;
    }
    return !qn_was_interrupted();
}

/* ---- the result ---- */

static bool fits(const packing_run *r) {
    return r->capacity == 0 || r->packing.top_bytes <= r->capacity;
}

static void print_json(const packing_run *r, double seconds) {
    const qn_packing *p = &r->packing;
    json_begin();
    json_text("event", "packed");
    json_count("buffers", r->buffers.n);
    json_count("top_bytes", (int64_t)p->top_bytes);
    json_count("lower_bound_bytes", (int64_t)p->lower_bound_bytes);
    json_count("proven_bytes", (int64_t)p->proven_bytes);
    if (r->capacity)
        json_count("capacity_bytes", (int64_t)r->capacity);
    json_flag("fits", fits(r));
    json_flag("proven_optimal", p->is_optimal);
    json_flag("proven_impossible", p->is_impossible);
    json_number("gap_percent", percent_above(p));
    json_count("placements", p->work);
    json_number("seconds", seconds);
    json_flag("interrupted", qn_was_interrupted());
    json_end();
}

static void print_verdict(const packing_run *r) {
    char capacity[32];
    const char *text = grouped((int64_t)r->capacity, capacity);
    if (r->capacity == 0)
        return;
    if (fits(r))
        printf("capacity      %s bytes: it fits\n", text);
    else if (r->packing.is_impossible)
        printf("capacity      %s bytes: it does not fit, proven\n", text);
    else
        printf("capacity      %s bytes: no packing within it was found; none is not proven\n",
               text);
}

static void print_text(const packing_run *r, double seconds) {
    char top[32], bound[32];
    const qn_packing *p = &r->packing;
    printf("buffers       %d\n", r->buffers.n);
    printf("packed into   %s bytes in %.1f s\n", grouped((int64_t)p->top_bytes, top), seconds);
    if (p->is_optimal)
        printf("at least      as much, proven\n");
    else
        printf("at least      %s bytes, proven: %.2f %% less at most\n",
               grouped((int64_t)p->proven_bytes, bound),
               100 * (1 - (double)p->proven_bytes / (double)p->top_bytes));
    print_verdict(r);
    if (r->out)
        printf("written to    %s\n", terminal_name(r->out));
}

/* ---- running ---- */

static qn_status pack(packing_run *r, double seconds) {
    QN_TRY(qn_buffers_read(NULL, r->path, &r->buffers));
    const int64_t left_ns = r->begin_ns + (int64_t)(seconds * 1e9) - qn_clock_ns();
    const qn_packing_options with = {.capacity = r->capacity,
                                     .most_work = left_ns > 0 ? INT64_MAX : 0,
                                     .most_ns = left_ns > 0 ? left_ns : 1,
                                     .go_on = go_on,
                                     .user = r};
    QN_TRY(qn_pack(NULL, r->buffers.boxes, r->buffers.n, &with, &r->packing));
    terminal_clear();
    return r->out ? qn_buffers_write(&r->buffers, r->out) : QN_OK;
}

int plan_buffers(const arguments *a) {
    packing_run r = {.path = arguments_get(a, "buffers"),
                     .out = arguments_get(a, "out"),
                     .begin_ns = qn_clock_ns(),
                     .is_json = arguments_flag(a, "json"),
                     .has_bar = terminal_moves()};
    if (arguments_has(a, "capacity"))
        r.capacity = (size_t)arguments_count(a, "capacity");
    qn_interrupt_watch(EXIT_FAILED);
    const qn_status status = pack(&r, qn_decimal_read(arguments_get(a, "seconds"), NULL));
    const double seconds = (double)(qn_clock_ns() - r.begin_ns) * 1e-9;
    int result = fits(&r) ? EXIT_DONE : EXIT_DOES_NOT_FIT;
    if (status != QN_OK)
        result = report_failed_run();
    else if (r.is_json)
        print_json(&r, seconds);
    else
        print_text(&r, seconds);
    qn_buffers_deinit(&r.buffers);
    return result;
}
