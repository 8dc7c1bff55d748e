/* See classes.h. A source whose classes are numbered otherwise than the network's is wrapped in one
 * that reads the number of each sample's class from a list. */
#include "data/classes.h"

#include "base/print.h"
#include "base/status.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct named {
    const char *name;
    int index;
} named;

typedef struct matched {
    const qn_allocator *allocator;
    qn_data_source below;
    qn_arena arena;
    int n;        /* of the data */
    int32_t *to;  /* (n): the network's number of each */
    named *known; /* (n_known), by name */
    int n_known;
    const char **names; /* the network's and, behind them, new ones */
    int n_names;
} matched;

/* ---- reading ---- */

static int32_t map_class(const matched *m, int32_t class) {
    return class >= 0 && class < m->n ? m->to[class] : class;
}

static qn_status read_mapped(void *self, qn_split split, int64_t index, void *x, void *y) {
    const matched *m = self;
    int32_t class;
    QN_TRY(m->below.read(m->below.self, split, index, x, y));
    memcpy(&class, y, sizeof class);
    class = map_class(m, class);
    memcpy(y, &class, sizeof class);
    return QN_OK;
}

static qn_status read_class_mapped(void *self, qn_split split, int64_t index, int32_t *class) {
    const matched *m = self;
    QN_TRY(m->below.read_class(m->below.self, split, index, class));
    *class = map_class(m, *class);
    return QN_OK;
}

static qn_status read_weight_mapped(void *self, qn_split split, int64_t index, float *weight) {
    const matched *m = self;
    return m->below.read_weight(m->below.self, split, index, weight);
}

static qn_status set_size_mapped(void *self, int64_t h, int64_t w, int64_t c) {
    const matched *m = self;
    return m->below.set_size(m->below.self, h, w, c);
}

static void destroy(matched *m) {
    qn_arena_deinit(&m->arena);
    qn_release(m->allocator, m, 1, sizeof *m);
}

static void close_mapped(void *self) {
    matched *m = self;
    if (m->below.close)
        m->below.close(m->below.self);
    destroy(m);
}

static void wrap(matched *m, qn_data_source *source) {
    m->below = *source;
    source->self = m;
    source->close = close_mapped;
    source->read = read_mapped;
    source->read_class = source->read_class ? read_class_mapped : NULL;
    source->read_weight = source->read_weight ? read_weight_mapped : NULL;
    source->set_size = source->set_size ? set_size_mapped : NULL;
    source->preparation.n_classes = m->n_names;
    source->preparation.class_names = m->names;
}

/* ---- names ---- */

static int compare_named(const void *left, const void *right) {
    return strcmp(((const named *)left)->name, ((const named *)right)->name);
}

/* The network's name of class i: in the arena where it is a number. */
static const char *name_at(matched *m, const qn_class_matching *matching, int i) {
    return matching->names ? matching->names[i] : qn_arena_format(&m->arena, "%d", i);
}

static qn_status list_known(matched *m, const qn_class_matching *matching) {
    const size_t n = (size_t)matching->n, n_all = n + (size_t)m->n;
    m->known = qn_arena_allocate(&m->arena, n, sizeof *m->known);
    m->names = qn_arena_allocate(&m->arena, n_all, sizeof *m->names);
    m->to = qn_arena_allocate(&m->arena, (size_t)m->n, sizeof *m->to);
    if (!m->known || !m->names || !m->to)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        m->names[i] = name_at(m, matching, (int)i);
        if (!m->names[i])
            return QN_ERROR_MEMORY;
        m->known[i] = (named){m->names[i], (int)i};
    }
    m->n_known = m->n_names = matching->n;
    qsort(m->known, n, sizeof *m->known, compare_named);
    return QN_OK;
}

static int find_known(const matched *m, const char *name) {
    const named wanted = {name, 0};
    const named *found =
        bsearch(&wanted, m->known, (size_t)m->n_known, sizeof wanted, compare_named);
    return found ? found->index : -1;
}

enum { MOST_COMPOSED = 512 }; /* characters of a name that is compared so */

/* A name in Unicode's composed form (NFC, Unicode Standard Annex 15); false: it has only ASCII's
 * characters, which compose nothing, or is too long, or no UTF-8. */
static bool compose(const char *name, utf8proc_int32_t text[MOST_COMPOSED + 1]) {
    const utf8proc_option_t how = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    bool is_ascii = true;
    for (const char *at = name; *at; at++)
        is_ascii = is_ascii && (unsigned char)*at < 0x80;
    if (is_ascii)
        return false;
    const utf8proc_ssize_t n = utf8proc_decompose(
        (const utf8proc_uint8_t *)name, (utf8proc_ssize_t)strlen(name), text, MOST_COMPOSED, how);
    return n >= 0 && n <= MOST_COMPOSED && utf8proc_reencode(text, n, how) >= 0;
}

/* The class whose name differs in nothing but how accents are written: one system's folders have
 * them as characters of their own. */
static int find_alike(const matched *m, const char *name) {
    utf8proc_int32_t wanted[MOST_COMPOSED + 1], found[MOST_COMPOSED + 1];
    if (!compose(name, wanted))
        return -1;
    for (int k = 0; k < m->n_known; k++) {
        if (compose(m->known[k].name, found) &&
            strcmp((const char *)wanted, (const char *)found) == 0)
            return m->known[k].index;
    }
    return -1;
}

/* ---- matching ---- */

static void tell(const qn_class_matching *matching, const char *text) {
    if (matching->log && matching->log->write)
        matching->log->write(matching->log->user, 0, text);
}

/* Numbers the data's classes; those that are new as far as there are outputs. */
static void number(matched *m, const qn_class_matching *matching, const qn_data_source *source,
                   qn_text_names *new, qn_text_names *unknown, qn_text_names *alike) {
    for (int i = 0; i < m->n; i++) {
        const char *name = source->preparation.class_names[i];
        m->to[i] = find_known(m, name);
        if (m->to[i] >= 0)
            continue;
        m->to[i] = find_alike(m, name);
        if (m->to[i] >= 0) {
            qn_text_names_add(alike, name);
            continue;
        }
        const bool has_room = m->n_names < matching->n_outputs;
        qn_text_names_add(has_room ? new : unknown, name);
        if (has_room) {
            m->to[i] = m->n_names;
            m->names[m->n_names++] = name;
        }
    }
}

static qn_status find_missing(matched *m, qn_text_names *missing) {
    bool *is_there = qn_arena_allocate(&m->arena, (size_t)m->n_names, sizeof *is_there);
    if (!is_there)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < m->n; i++)
        if (m->to[i] >= 0)
            is_there[m->to[i]] = true;
    for (int k = 0; k < m->n_known; k++)
        if (!is_there[k])
            qn_text_names_add(missing, m->names[k]);
    return QN_OK;
}

static qn_status refuse(const qn_class_matching *matching, const qn_data_source *source,
                        qn_text_names *unknown, qn_text_names *missing) {
    return qn_fail(QN_ERROR_FORMAT, "%s: class%s that the network was not trained for: %s%s%s; %s",
                   source->name, unknown->n == 1 ? "" : "es", qn_text_names_finish(unknown),
                   missing->n > 0 ? "; without a sample: " : "", qn_text_names_finish(missing),
                   matching->advice);
}

static qn_status match(matched *m, const qn_class_matching *matching, qn_data_source *source) {
    static const char none[] = "%s: no sample of %s", added[] = "%s: new: %s, beside %d known",
                      same[] = "%s: written in another form of Unicode, and matched: %s";
    qn_text_names new = {.n = 0}, unknown = {.n = 0}, missing = {.n = 0}, alike = {.n = 0};
    char text[2 * QN_TEXT_NAMES];
    QN_TRY(list_known(m, matching));
    number(m, matching, source, &new, &unknown, &alike);
    QN_TRY(find_missing(m, &missing));
    if (unknown.n > 0)
        return refuse(matching, source, &unknown, &missing);
    qn_print(text, sizeof text, same, source->name, qn_text_names_finish(&alike));
    if (alike.n > 0)
        tell(matching, text);
    qn_print(text, sizeof text, none, source->name, qn_text_names_finish(&missing));
    if (missing.n > 0)
        tell(matching, text);
    qn_print(text, sizeof text, added, source->name, qn_text_names_finish(&new), matching->n);
    if (new.n > 0)
        tell(matching, text);
    return QN_OK;
}

/* Data without names count outputs: what that means is said. */
static void tell_numbers(const qn_class_matching *matching, const qn_data_source *source) {
    qn_text_names names = {.n = 0};
    char text[2 * QN_TEXT_NAMES];
    for (int i = 0; matching->names && i < matching->n; i++)
        qn_text_names_add(&names, matching->names[i]);
    qn_print(text, sizeof text,
             "%s: its classes are numbers, and are taken as those of the network's outputs, from "
             "0: %s",
             source->name, qn_text_names_finish(&names));
    if (names.n > 0)
        tell(matching, text);
}

static bool are_same(const qn_class_matching *matching, const qn_preparation *p) {
    bool is_same = p->n_classes == matching->n && matching->names;
    for (int i = 0; is_same && i < matching->n; i++)
        is_same = strcmp(p->class_names[i], matching->names[i]) == 0;
    return is_same;
}

qn_status qn_classes_match(const qn_class_matching *matching, qn_data_source *source) {
    const qn_preparation *p = &source->preparation;
    matched *m;
    if (source->n_targets > 0 || p->n_classes == 0 || matching->n == 0)
        return QN_OK;
    if (!p->class_names) {
        tell_numbers(matching, source);
        return QN_OK;
    }
    if (are_same(matching, p))
        return QN_OK;
    QN_TRY(qn_allocate(matching->allocator, 1, sizeof *m, &m));
    m->allocator = matching->allocator;
    m->n = p->n_classes;
    qn_arena_init(&m->arena, m->allocator);
    const qn_status status = match(m, matching, source);
    if (status == QN_OK)
        wrap(m, source);
    else
        destroy(m);
    return status;
}

int qn_classes_count_known(const qn_class_matching *matching, const qn_data_source *source) {
    const qn_preparation *p = &source->preparation;
    int n = 0;
    for (int i = 0; p->class_names && matching->names && i < p->n_classes; i++) {
        int k = 0;
        while (k < matching->n && strcmp(matching->names[k], p->class_names[i]) != 0)
            k++;
        n += k < matching->n;
    }
    return n;
}
