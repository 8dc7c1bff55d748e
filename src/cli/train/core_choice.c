/* See core_choice.h. */
#include "cli/train/core_choice.h"

#include "base/decimal.h"
#include "base/status.h"
#include "meter/core_power.h"
#include "meter/processor.h"
#include "meter/sources/coefficients.h"
#include "os/affinity.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, MOST_DIGITS = 4 };

typedef struct choice {
    const char *value;
    int numbers[MOST], n;
} choice;

bool core_choice_is_by_hand(const char *value) {
    return strcmp(value, "all") != 0 && strcmp(value, "auto") != 0;
}

bool core_choice_is_auto(const arguments *a) {
    const char *cores = option_find(a->command, "cores") < 0 ? NULL : arguments_get(a, "cores");
    return cores && strcmp(cores, "auto") == 0;
}

qn_cores_choice core_choice_of(const arguments *a) {
    if (core_choice_is_auto(a))
        return QN_CORES_AUTO;
    const bool is_open = option_find(a->command, "cores") >= 0 && !arguments_has(a, "cores") &&
                         !arguments_has(a, "threads");
    return is_open ? QN_CORES_LATER : QN_CORES_ONE_BY_ONE;
}

static qn_status refuse(const char *value) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--cores %.40s: it takes all, auto, big, little, a number of cores, or cores by "
                   "their numbers, as 0-3 or 0,2",
                   value);
}

/* A number of at most four digits at *text, which goes on behind it; -1: there is none. */
static int take_number(const char **text) {
    int number = 0, digits = 0;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (++digits > MOST_DIGITS)
            return -1;
        number = 10 * number + (**text - '0');
    }
    return digits > 0 ? number : -1;
}

static bool has(const choice *c, int number) {
    for (int i = 0; i < c->n; i++) {
        if (c->numbers[i] == number)
            return true;
    }
    return false;
}

static qn_status add(choice *c, int number) {
    if (!qn_core_is_allowed(number))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--cores %.40s: this process may not run on core %d; quern devices lists "
                       "the cores",
                       c->value, number);
    if (!has(c, number) && c->n < MOST)
        c->numbers[c->n++] = number;
    return QN_OK;
}

/* "0-3,6" */
static qn_status take_ranges(choice *c) {
    const char *text = c->value;
    for (;;) {
        const int first = take_number(&text);
        int last = first;
        if (*text == '-') {
            text++;
            last = take_number(&text);
        }
        if (first < 0 || last < first || last >= MOST)
            return refuse(c->value);
        for (int number = first; number <= last; number++)
            QN_TRY(add(c, number));
        if (*text == 0)
            return QN_OK;
        if (*text++ != ',')
            return refuse(c->value);
    }
}

/* Of kinds from one to before another, those that may be used, at most so many. */
static void take_kinds(choice *c, const qn_processor *p, int begin, int end, int most) {
    for (int kind = begin; kind < end; kind++) {
        for (int i = 0; i < p->n_cores && c->n < most; i++) {
            if (p->cores[i].kind == kind && qn_core_is_allowed(p->cores[i].number))
                c->numbers[c->n++] = p->cores[i].number;
        }
    }
}

static qn_status take_by_kind(choice *c, const qn_processor *p) {
    const char *text = c->value;
    const int most = take_number(&text);
    const bool is_big = strcmp(c->value, "big") == 0;
    if (most >= 0 && *text == 0) {
        take_kinds(c, p, 0, p->n_kinds, most < MOST ? most : MOST);
        if (most >= 1 && c->n == most)
            return QN_OK;
        return qn_fail(QN_ERROR_ARGUMENT, "--cores %d: 1 to %d can be used here", most, c->n);
    }
    if (p->n_kinds < 2)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--cores %s: the cores of this machine are all of one kind; give a number",
                       c->value);
    take_kinds(c, p, is_big ? 0 : p->n_kinds - 1, is_big ? p->n_kinds - 1 : p->n_kinds, MOST);
    if (c->n == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--cores %s: this process may not run on any of them",
                       c->value);
    return QN_OK;
}

static qn_status take(choice *c) {
    qn_processor *p;
    const size_t digits = strspn(c->value, "0123456789");
    const bool is_by_kind = strcmp(c->value, "big") == 0 || strcmp(c->value, "little") == 0 ||
                            (digits > 0 && c->value[digits] == 0);
    if (!is_by_kind)
        return take_ranges(c);
    QN_TRY(qn_processor_create(NULL, "", &p));
    const qn_status status = take_by_kind(c, p);
    qn_processor_destroy(p);
    return status;
}

qn_status core_choice_keep(const char *value, int *n) {
    choice c = {.value = value};
    QN_TRY(take(&c));
    *n = c.n;
    if (!qn_thread_keep_to(c.numbers, c.n))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "--cores %.40s: the system does not let this process "
                       "choose its cores",
                       value);
    return QN_OK;
}

/* ---- watts ---- */

/* A core that works takes what one of the strongest kind does that may be used; all cores take what
 * idle ones do, all the time. */
static void add_typical(const qn_processor *p, const qn_coefficients *watts, qn_core_wish *wish) {
    wish->idle_watts = watts->package_w + watts->rest_w;
    for (int i = 0; i < p->n_cores; i++) {
        const qn_core *core = &p->cores[i];
        if (core->kind < 0)
            continue;
        const qn_core_watts *w = &watts->kinds[core->kind];
        const double busy = w->busy_w - w->idle_w;
        wish->idle_watts += w->idle_w;
        if (qn_core_is_allowed(core->number) && busy > wish->core_watts)
            wish->core_watts = busy;
    }
}

static qn_status find_typical(qn_core_wish *wish) {
    qn_coefficients watts;
    qn_processor *p;
    QN_TRY(qn_processor_create(NULL, "", &p));
    qn_coefficients_guess(p, &watts);
    add_typical(p, &watts, wish);
    qn_processor_destroy(p);
    if (wish->core_watts <= 0) /* nothing is known of the cores */
        wish->core_watts = 1;
    return QN_OK;
}

qn_status core_choice_watts(const settings *s, qn_core_wish *wish) {
    const double cpu_watts = settings_number(s, "cpu-watts");
    if (cpu_watts <= 0) {
        const qn_source_options here = {.allocator = qn_allocator_default(), .root = ""};
        return qn_core_power_sense(&here, qn_cpu_count(), wish) ? QN_OK : find_typical(wish);
    }
    wish->core_watts = cpu_watts / qn_cpu_count();
    wish->idle_watts = settings_number(s, "idle-watts");
    return QN_OK;
}

static qn_prefer prefer_of(const settings *s) {
    const char *prefer = settings_get(s, "prefer");
    return prefer && strcmp(prefer, "energy") == 0     ? QN_PREFER_ENERGY
           : prefer && strcmp(prefer, "balanced") == 0 ? QN_PREFER_BALANCED
                                                       : QN_PREFER_TIME;
}

/* --power, where it is a ceiling: of quern profile it is a file. 0: none. */
static double ceiling_of(const arguments *a) {
    const int row = option_find(a->command, "power");
    const bool is_given = row >= 0 && option_at(a->command, row)->kind == OPTION_NUMBER;
    return is_given && a->values[row] ? qn_decimal_read(a->values[row], NULL) : 0;
}

qn_status core_choice_wish(const arguments *a, const settings *s, qn_core_wish *wish) {
    const bool is_auto = core_choice_is_auto(a);
    *wish = (qn_core_wish){.prefer = is_auto ? prefer_of(s) : QN_PREFER_TIME};
    const double most_watts = ceiling_of(a);
    if (!is_auto && most_watts <= 0)
        return QN_OK;
    QN_TRY(core_choice_watts(s, wish));
    wish->most_watts = most_watts;
    return QN_OK;
}
