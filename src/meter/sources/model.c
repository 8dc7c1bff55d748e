/* Estimated power for devices without a sensor: from the load of each core (utilisation and
 * frequency, of the sources "cores" and "frequency") and coefficients of the device. There is no
 * estimate if the system's or the processor's power is measured. Every channel is marked as
 * estimated. */
#include "meter/sources/coefficients.h"
#include "meter/sources/sensor.h"
#include "meter/sources/sources.h"

#include "base/memory.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const char source_name[] = "model";

/* Another source that this one reads. */
typedef struct child {
    const qn_source_kind *kind;
    void *source;
    const qn_channel *channels; /* (n) */
    int n;
    qn_reading *readings; /* (n) */
} child;

/* One channel for each core, then the package's and the rest's where they have one. */
typedef struct model {
    const qn_allocator *allocator;
    qn_processor *processor;
    qn_coefficients coefficients;
    child cores, frequency;
    const qn_reading *followed; /* (cores.n) read by the sampler; null: cores is read here */
    int n;
    qn_channel *channels;          /* (cores.n + 2), of which n */
    double *hz;                    /* (cores.n) last seen; 0: not yet */
    double constant_w[2];          /* of the channels behind the cores' */
    int64_t last_ns, frequency_ns; /* 0: not yet read */
} model;

/* ---- others' channels ---- */

static void child_close(const qn_allocator *allocator, child *c) {
    qn_release(allocator, c->readings, (size_t)c->n, sizeof *c->readings);
    if (c->source)
        c->kind->close(c->source);
    c->source = NULL;
    c->readings = NULL;
}

/* Opens a source by name, in silence: what it says it says where it is open for itself. */
static qn_status child_open(const qn_source_options *options, const char *name, child *c) {
    qn_source_options silent = *options;
    silent.say = NULL;
    *c = (child){.n = 0};
    for (int i = 0; qn_source_kinds[i] && !c->kind; i++) {
        if (strcmp(qn_source_kinds[i]->name, name) == 0)
            c->kind = qn_source_kinds[i];
    }
    if (!c->kind)
        return QN_OK;
    QN_TRY(c->kind->open(&silent, &c->source));
    if (!c->source)
        return QN_OK;
    c->channels = c->kind->channels(c->source, &c->n);
    const qn_status status =
        qn_allocate(options->allocator, (size_t)c->n, sizeof *c->readings, &c->readings);
    if (status != QN_OK)
        child_close(options->allocator, c);
    return status;
}

static void child_read(child *c, int64_t now_ns) {
    if (!c->source)
        return;
    memset(c->readings, 0, sizeof *c->readings * (size_t)c->n);
    c->kind->read(c->source, now_ns, c->readings);
}

/* Whether a sensor measures the whole or the processor. */
static qn_status is_measured(const qn_source_options *options, bool *measured) {
    static const char *const sensors[] = {"replay", "ina3221", "rapl", "battery", "hwmon"};
    *measured = false;
    for (size_t i = 0; i < sizeof sensors / sizeof sensors[0] && !*measured; i++) {
        child c;
        QN_TRY(child_open(options, sensors[i], &c));
        for (int k = 0; k < c.n; k++) {
            const qn_part part = c.channels[k].part;
            *measured = *measured || part == QN_PART_SYSTEM || part == QN_PART_CPU;
        }
        child_close(options->allocator, &c);
    }
    return QN_OK;
}

/* ---- opening ---- */

static int kind_of(const model *m, int core) {
    for (int i = 0; i < m->processor->n_cores; i++) {
        if (m->processor->cores[i].number == core && m->processor->cores[i].kind >= 0)
            return m->processor->cores[i].kind;
    }
    return 0;
}

static qn_channel *add_channel(model *m, const char *name, qn_part part, int index) {
    qn_channel *channel = &m->channels[m->n++];
    *channel = (qn_channel){.source = source_name,
                            .quantity = QN_QUANTITY_POWER,
                            .part = part,
                            .index = index,
                            .inside = -1,
                            .is_estimated = true};
    snprintf(channel->name, sizeof channel->name, "%s", name);
    return channel;
}

static qn_status make_channels(model *m) {
    QN_TRY(qn_allocate(m->allocator, (size_t)m->cores.n + 2, sizeof *m->channels, &m->channels));
    QN_TRY(qn_allocate(m->allocator, (size_t)m->cores.n, sizeof *m->hz, &m->hz));
    for (int i = 0; i < m->cores.n; i++)
        add_channel(m, m->cores.channels[i].name, QN_PART_CPU, m->cores.channels[i].index);
    const struct {
        const char *name;
        qn_part part;
        double watts;
    } constants[] = {{"package", QN_PART_CPU, m->coefficients.package_w},
                     {"rest", QN_PART_OTHER, m->coefficients.rest_w}};
    for (int i = 0; i < 2; i++) {
        if (constants[i].watts <= 0)
            continue;
        m->constant_w[m->n - m->cores.n] = constants[i].watts;
        add_channel(m, constants[i].name, constants[i].part, 0);
    }
    return QN_OK;
}

static qn_status fill(model *m, const qn_source_options *options) {
    QN_TRY(qn_processor_create(m->allocator, options->root, &m->processor));
    qn_coefficients_guess(m->processor, &m->coefficients);
    if (options->description)
        QN_TRY(qn_coefficients_read(m->allocator, options->description, m->processor,
                                    &m->coefficients));
    bool measured;
    QN_TRY(is_measured(options, &measured));
    if (measured) {
        const qn_speaker speaker = qn_speaker_of(options, source_name);
        if (options->description)
            qn_speaker_say(&speaker, "%s is ignored: this device measures its power",
                           options->description);
        return QN_OK;
    }
    QN_TRY(child_open(options, "cores", &m->cores));
    QN_TRY(child_open(options, "frequency", &m->frequency));
    return m->cores.n > 0 ? make_channels(m) : QN_OK;
}

static void model_close(void *source) {
    model *m = source;
    qn_release(m->allocator, m->channels, (size_t)m->cores.n + 2, sizeof *m->channels);
    qn_release(m->allocator, m->hz, (size_t)m->cores.n, sizeof *m->hz);
    child_close(m->allocator, &m->cores);
    child_close(m->allocator, &m->frequency);
    qn_processor_destroy(m->processor);
    qn_release(m->allocator, m, 1, sizeof *m);
}

static qn_status model_open(const qn_source_options *options, void **source) {
    model *m;
    *source = NULL;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *m, &m));
    m->allocator = options->allocator;
    const qn_status status = fill(m, options);
    if (status != QN_OK || m->n == 0) {
        model_close(m);
        return status;
    }
    *source = m;
    return QN_OK;
}

static const qn_channel *model_channels(const void *source, int *n) {
    const model *m = source;
    *n = m->n;
    return m->channels;
}

/* ---- reading ---- */

static void take_frequencies(model *m) {
    for (int i = 0; i < m->frequency.n; i++) {
        const qn_channel *channel = &m->frequency.channels[i];
        const qn_reading *reading = &m->frequency.readings[i];
        if (channel->part != QN_PART_CORE || channel->quantity != QN_QUANTITY_FREQUENCY ||
            reading->end_ns == 0)
            continue;
        for (int k = 0; k < m->cores.n; k++) {
            if (m->cores.channels[k].index == channel->index)
                m->hz[k] = reading->value;
        }
    }
}

static void model_follow(void *source, const qn_reading *readings) {
    model *m = source;
    m->followed = readings;
}

static void model_read(void *source, int64_t now_ns, qn_reading *readings) {
    enum { FREQUENCY_PERIOD_NS = 100000000 };
    model *m = source;
    if (!m->followed)
        child_read(&m->cores, now_ns);
    if (now_ns - m->frequency_ns >= FREQUENCY_PERIOD_NS || m->frequency_ns == 0) {
        child_read(&m->frequency, now_ns);
        take_frequencies(m);
        m->frequency_ns = now_ns;
    }
    for (int i = 0; i < m->cores.n; i++) {
        const qn_reading *use = &(m->followed ? m->followed : m->cores.readings)[i];
        if (use->end_ns == 0)
            continue;
        const qn_core_watts *watts = &m->coefficients.kinds[kind_of(m, m->cores.channels[i].index)];
        readings[i] =
            (qn_reading){use->begin_ns, use->end_ns, qn_core_power(watts, use->value, m->hz[i])};
    }
    for (int i = m->cores.n; i < m->n && m->last_ns > 0 && now_ns > m->last_ns; i++)
        readings[i] = (qn_reading){m->last_ns, now_ns, m->constant_w[i - m->cores.n]};
    m->last_ns = now_ns;
}

const qn_source_kind qn_source_model = {
    .name = source_name,
    .about = "power estimated from the load of cores if no sensor measures it",
    .period_ns = 20000000,
    .open = model_open,
    .channels = model_channels,
    .read = model_read,
    .follows = "cores",
    .follow = model_follow,
    .close = model_close,
};
