/* A source of power under test: opened below a folder, read at moments of the test's own, what it
 * says kept. Include device_files.h's folder for the files. */
#ifndef QN_TESTS_POWER_SOURCE_H
#define QN_TESTS_POWER_SOURCE_H

#include "base/memory.h"
#include "meter/sources/sources.h"
#include "os/heap.h"

#include "check.h"
#include "device_files.h"
#include "failing.h"

enum { MOST_CHANNELS = 32, MOST_LINES = 16 };

typedef struct power_source {
    const qn_source_kind *kind;
    void *source;
    int n;
    const qn_channel *channels; /* (n) */
    qn_reading readings[MOST_CHANNELS];
    int n_lines; /* that differ */
    char lines[MOST_LINES][400];
} power_source;

static inline void power_source_hear(void *user, const char *source, const char *text) {
    power_source *s = user;
    char line[400];
    snprintf(line, sizeof line, "%s: %s", source, text);
    for (int i = 0; i < s->n_lines; i++) {
        if (strcmp(s->lines[i], line) == 0)
            return;
    }
    if (s->n_lines < MOST_LINES)
        memcpy(s->lines[s->n_lines++], line, sizeof line);
}

/* Opens; options' root, say and user are filled in. */
static inline qn_status power_source_open(power_source *s, const qn_source_kind *kind,
                                          const char *root, qn_source_options options) {
    *s = (power_source){.kind = kind};
    options.root = root;
    options.user = s;
    options.say = power_source_hear;
    options.allocator = qn_allocator_or_default(options.allocator);
    const qn_status status = kind->open(&options, &s->source);
    if (status == QN_OK && s->source)
        s->channels = kind->channels(s->source, &s->n);
    return status;
}

static inline void power_source_close(power_source *s) {
    if (s->source)
        s->kind->close(s->source);
    s->source = NULL;
}

static inline void power_source_read(power_source *s, double ms) {
    memset(s->readings, 0, sizeof s->readings);
    s->kind->read(s->source, 1000000000 + (int64_t)(ms * 1e6), s->readings);
}

static inline int power_source_find(const power_source *s, const char *name) {
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->channels[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* A channel's watts at the last look; NaN where it gave none. */
static inline double power_source_watts(const power_source *s, const char *name) {
    const int i = power_source_find(s, name);
    return i >= 0 && s->readings[i].end_ns != 0 ? s->readings[i].value : NAN;
}

static inline bool power_source_said(const power_source *s, const char *text) {
    for (int i = 0; i < s->n_lines; i++) {
        if (strstr(s->lines[i], text))
            return true;
    }
    return false;
}

static inline bool is_near(double value, double wanted) {
    return fabs(value - wanted) <= 1e-9 * fmax(1, fabs(wanted));
}

/* A source whose n-th allocation fails, for every n: it fails for that and nothing else, and holds
 * nothing then. */
static inline void check_failing_memory(const qn_source_kind *kind, const char *root,
                                        qn_source_options options) {
    enum { MOST = 400 };
    for (int n = 0; n < MOST; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        power_source s;
        options.allocator = &allocator;
        const qn_status status = power_source_open(&s, kind, root, options);
        power_source_close(&s);
        CHECK(f.held_bytes == 0);
        CHECK(status == QN_OK || (status == QN_ERROR_MEMORY && !s.source));
        if (status == QN_OK)
            return;
    }
    CHECK(false);
}

#endif
