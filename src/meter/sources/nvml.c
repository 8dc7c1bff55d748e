/* NVIDIA GPUs through their management library (NVML), opened at run time: energy counter, or else
 * power; utilisation, memory, clock, temperature. Quantities that a GPU does not support have no
 * channel. Recorded trees do not contain this source. */
#include "meter/sources/rails.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/library.h"

#include <stdio.h>
#include <string.h>

static const char source_name[] = "nvml";

/* Of nvml.h, whose interface is kept stable: handles are pointers, 0 is success. */
typedef void *nvml_device;
typedef struct nvml_utilisation {
    unsigned gpu, memory; /* percent */
} nvml_utilisation;
typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;
enum { NVML_SM_CLOCK = 1, NVML_GPU_TEMPERATURE = 0 };

typedef struct nvml_api {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int);
    int (*count)(unsigned *);
    int (*device)(unsigned, nvml_device *);
    int (*energy)(nvml_device, unsigned long long *); /* mJ */
    int (*power)(nvml_device, unsigned *);            /* mW */
    int (*utilisation)(nvml_device, nvml_utilisation *);
    int (*memory)(nvml_device, nvml_memory *);
    int (*clock)(nvml_device, unsigned, unsigned *); /* MHz */
    int (*temperature)(nvml_device, unsigned, unsigned *);
} nvml_api;

/* A number that a GPU gives. Utilisation is of the time before, how far back the driver decides. */
typedef struct meter {
    nvml_device device;
    bool (*read)(const nvml_api *api, nvml_device device, double *value);
    bool is_lost;
    qn_power_gauge gauge;
    qn_energy energy;
} meter;

typedef struct nvml {
    const qn_allocator *allocator;
    qn_speaker speaker;
    qn_library *library;
    nvml_api api;
    bool is_begun;
    int n;
    size_t capacity;
    qn_channel *channels; /* (n) of capacity */
    meter *meters;        /* (n) of capacity */
} nvml;

/* ---- numbers ---- */

static bool read_energy(const nvml_api *api, nvml_device device, double *value) {
    unsigned long long mj;
    if (!api->energy || api->energy(device, &mj) != 0)
        return false;
    *value = (double)mj;
    return true;
}

static bool read_power(const nvml_api *api, nvml_device device, double *value) {
    unsigned mw;
    if (!api->power || api->power(device, &mw) != 0)
        return false;
    *value = (double)mw * 1e-3;
    return true;
}

static bool read_utilisation(const nvml_api *api, nvml_device device, double *value) {
    nvml_utilisation percent;
    if (!api->utilisation || api->utilisation(device, &percent) != 0 || percent.gpu > 100)
        return false;
    *value = (double)percent.gpu / 100;
    return true;
}

static bool read_memory(const nvml_api *api, nvml_device device, double *value) {
    nvml_memory bytes;
    if (!api->memory || api->memory(device, &bytes) != 0)
        return false;
    *value = (double)bytes.used;
    return true;
}

static bool read_clock(const nvml_api *api, nvml_device device, double *value) {
    unsigned mhz;
    if (!api->clock || api->clock(device, NVML_SM_CLOCK, &mhz) != 0)
        return false;
    *value = (double)mhz * 1e6;
    return true;
}

static bool read_temperature(const nvml_api *api, nvml_device device, double *value) {
    unsigned celsius;
    if (!api->temperature || api->temperature(device, NVML_GPU_TEMPERATURE, &celsius) != 0)
        return false;
    *value = celsius;
    return true;
}

/* ---- finding ---- */

/* Whether the library can be used; why not is said, unless there is none. */
static bool begin(nvml *s) {
    nvml_api *a = &s->api;
    if (qn_library_open("libnvidia-ml.so.1", &s->library) != QN_OK)
        return false;
    const bool has_all = qn_library_find(s->library, "nvmlInit_v2", &a->init) &&
                         qn_library_find(s->library, "nvmlShutdown", &a->shutdown) &&
                         qn_library_find(s->library, "nvmlErrorString", &a->error) &&
                         qn_library_find(s->library, "nvmlDeviceGetCount_v2", &a->count) &&
                         qn_library_find(s->library, "nvmlDeviceGetHandleByIndex_v2", &a->device);
    if (!has_all) {
        qn_speaker_say(&s->speaker, "libnvidia-ml.so.1 is too old: update NVIDIA's driver");
        return false;
    }
    qn_library_find(s->library, "nvmlDeviceGetTotalEnergyConsumption", &a->energy);
    qn_library_find(s->library, "nvmlDeviceGetPowerUsage", &a->power);
    qn_library_find(s->library, "nvmlDeviceGetUtilizationRates", &a->utilisation);
    qn_library_find(s->library, "nvmlDeviceGetMemoryInfo", &a->memory);
    qn_library_find(s->library, "nvmlDeviceGetClockInfo", &a->clock);
    qn_library_find(s->library, "nvmlDeviceGetTemperature", &a->temperature);
    const int result = a->init();
    s->is_begun = result == 0;
    if (!s->is_begun)
        qn_speaker_say(&s->speaker,
                       "NVIDIA's library says: %s; check with nvidia-smi that its driver runs",
                       a->error(result));
    return s->is_begun;
}

/* Adds a channel if the GPU gives the number now. */
static bool add(nvml *s, int index, qn_quantity quantity, nvml_device gpu,
                bool (*read)(const nvml_api *api, nvml_device device, double *value)) {
    double value;
    if (!read(&s->api, gpu, &value))
        return false;
    qn_channel *channel = &s->channels[s->n];
    s->meters[s->n++] =
        (meter){.device = gpu, .read = read, .energy = {.unit_j = 1e-3, .is_coarse = true}};
    *channel = (qn_channel){.source = source_name,
                            .quantity = quantity,
                            .part = QN_PART_GPU,
                            .index = index,
                            .inside = -1};
    snprintf(channel->name, sizeof channel->name, "gpu%d", index);
    return true;
}

static qn_status add_gpus(nvml *s) {
    enum { MOST_GPUS = 64, CHANNELS = 5 };
    unsigned count = 0;
    if (s->api.count(&count) != 0 || count > MOST_GPUS)
        return QN_OK;
    s->capacity = (size_t)count * CHANNELS;
    QN_TRY(qn_allocate(s->allocator, s->capacity, sizeof *s->channels, &s->channels));
    QN_TRY(qn_allocate(s->allocator, s->capacity, sizeof *s->meters, &s->meters));
    for (unsigned i = 0; i < count; i++) {
        nvml_device gpu;
        const int result = s->api.device(i, &gpu);
        if (result != 0) {
            qn_speaker_say(&s->speaker, "GPU %u cannot be queried: %s", i, s->api.error(result));
            continue;
        }
        if (!add(s, (int)i, QN_QUANTITY_POWER, gpu, read_energy) &&
            !add(s, (int)i, QN_QUANTITY_POWER, gpu, read_power))
            qn_speaker_say(&s->speaker, "GPU %u does not report its power", i);
        add(s, (int)i, QN_QUANTITY_UTILISATION, gpu, read_utilisation);
        add(s, (int)i, QN_QUANTITY_MEMORY, gpu, read_memory);
        add(s, (int)i, QN_QUANTITY_FREQUENCY, gpu, read_clock);
        add(s, (int)i, QN_QUANTITY_TEMPERATURE, gpu, read_temperature);
    }
    return QN_OK;
}

/* ---- reading ---- */

/* Of utilisation and frequency, which are means, as of power: over the time since the last look. */
static void tell(meter *m, qn_quantity quantity, int64_t now_ns, double value,
                 qn_reading *reading) {
    if (m->read == read_energy) {
        qn_energy_add(&m->energy, now_ns, (int64_t)value, reading);
    } else if (m->read == read_power) {
        qn_power_gauge_add(&m->gauge, now_ns, value, reading);
    } else if (quantity == QN_QUANTITY_MEMORY || quantity == QN_QUANTITY_TEMPERATURE) {
        *reading = (qn_reading){now_ns, now_ns, value};
    } else {
        if (m->gauge.is_known && now_ns - m->gauge.ns <= QN_GAUGE_GAP_NS)
            *reading = (qn_reading){m->gauge.ns, now_ns, value};
        m->gauge = (qn_power_gauge){.is_known = true, .ns = now_ns};
    }
}

static void nvml_read(void *source, int64_t now_ns, qn_reading *readings) {
    nvml *s = source;
    for (int i = 0; i < s->n; i++) {
        meter *m = &s->meters[i];
        double value;
        if (m->read(&s->api, m->device, &value)) {
            tell(m, s->channels[i].quantity, now_ns, value, &readings[i]);
            continue;
        }
        if (!m->is_lost)
            qn_speaker_say(&s->speaker,
                           "%s: cannot be read any more; its missing values are left out",
                           s->channels[i].name);
        m->is_lost = true;
        m->gauge.is_known = m->energy.is_known = false;
    }
}

static void nvml_close(void *source) {
    nvml *s = source;
    if (s->is_begun)
        s->api.shutdown();
    qn_library_close(s->library);
    qn_release(s->allocator, s->channels, s->capacity, sizeof *s->channels);
    qn_release(s->allocator, s->meters, s->capacity, sizeof *s->meters);
    qn_release(s->allocator, s, 1, sizeof *s);
}

static qn_status nvml_open(const qn_source_options *options, void **source) {
    nvml *s;
    *source = NULL;
    if (options->is_recorded)
        return QN_OK;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *s, &s));
    s->allocator = options->allocator;
    s->speaker = qn_speaker_of(options, source_name);
    const qn_status status = begin(s) ? add_gpus(s) : QN_OK;
    if (status != QN_OK || s->n == 0) {
        nvml_close(s);
        return status;
    }
    *source = s;
    return QN_OK;
}

static const qn_channel *nvml_channels(const void *source, int *n) {
    const nvml *s = source;
    *n = s->n;
    return s->channels;
}

const qn_source_kind qn_source_nvml = {
    .name = source_name,
    .about = "NVIDIA GPUs by libnvidia-ml.so.1",
    .period_ns = 20000000,
    .is_slow = true,
    .open = nvml_open,
    .channels = nvml_channels,
    .read = nvml_read,
    .close = nvml_close,
};
