/* See core_choice.h. */
#include "cli/train/core_choice.h"

#include "base/status.h"
#include "meter/processor.h"
#include "os/affinity.h"

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
