/* See gpu_devices.h. Without QN_WITH_OPENCL or QN_WITH_CUDA there are none of that kind. */
#include "cli/meter/gpu_devices.h"

#include "base/print.h"
#include "cli/json.h"

#include "base/status.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

#if defined QN_WITH_OPENCL || defined QN_WITH_CUDA

#include "report/words.h"

static void print_speed(const qn_roofline *r, const char *device, const char *name,
                        void (*print)(const char *label, const char *text)) {
    char flops[QN_WORDS_NUMBER], rate[QN_WORDS_NUMBER], in[QN_WORDS_NUMBER], out[QN_WORDS_NUMBER];
    const qn_roofline_gpu *g = qn_roofline_find_gpu(r, device, name);
    char text[256];
    if (!g)
        return;
    qn_print(text, sizeof text,
             "measured: %s in f32, memory %s; copies %s there, %s back; %.0f us for a kernel",
             qn_words_scaled(g->flops, "FLOP/s", flops), qn_words_scaled(g->bandwidth, "B/s", rate),
             qn_words_scaled(g->in_bandwidth, "B/s", in),
             qn_words_scaled(g->out_bandwidth, "B/s", out), g->launch_ns * 1e-3);
    print("", text);
}

/* Null where it was not measured. */
static void json_speed(const qn_roofline *r, const char *device, const char *name) {
    const qn_roofline_gpu *g = qn_roofline_find_gpu(r, device, name);
    const double none = NAN;
    json_number("flops", g ? g->flops : none);
    json_number("bandwidth", g ? g->bandwidth : none);
    json_number("copy_in_bandwidth", g ? g->in_bandwidth : none);
    json_number("copy_out_bandwidth", g ? g->out_bandwidth : none);
    json_number("launch_us", g ? g->launch_ns * 1e-3 : none);
}

#endif

#ifdef QN_WITH_OPENCL

#include "device/opencl/platforms.h"

void opencl_devices_print(const qn_roofline *roofline,
                          void (*print)(const char *label, const char *text)) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    char label[24], text[512], memory[QN_SIZE_TEXT];
    int n;
    if (qn_opencl_find_devices(devices, &n) != QN_OK) {
        print("OpenCL", qn_error_message());
        return;
    }
    print("OpenCL", n == 1 ? "1 device" : "several devices");
    for (int i = 0; i < n; i++) {
        const qn_opencl_device *d = &devices[i];
        snprintf(label, sizeof label, "  opencl:%d", i);
        snprintf(text, sizeof text, "%s, %s, %u compute unit%s, %s of memory %s; %s", d->name,
                 qn_opencl_type_name(d), d->n_units, d->n_units == 1 ? "" : "s",
                 qn_text_print_size(d->memory_bytes, memory),
                 d->is_unified ? "shared with the host" : "of its own", d->driver);
        print(label, text);
        print_speed(roofline, label + 2, d->name, print);
    }
}

void opencl_devices_json(const qn_roofline *roofline) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    char device[24];
    int n;
    const qn_status status = qn_opencl_find_devices(devices, &n);
    json_open_list("opencl");
    for (int i = 0; i < n; i++) {
        snprintf(device, sizeof device, "opencl:%d", i);
        json_begin_item();
        json_text("device", device);
        json_text("name", devices[i].name);
        json_text("type", qn_opencl_type_name(&devices[i]));
        json_text("driver", devices[i].driver);
        json_text("version", devices[i].version);
        json_count("compute_units", devices[i].n_units);
        json_count("memory_bytes", (int64_t)devices[i].memory_bytes);
        json_count("largest_buffer_bytes", (int64_t)devices[i].most_allocation_bytes);
        json_flag("shared_with_host", devices[i].is_unified);
        json_speed(roofline, device, devices[i].name);
        json_end_item();
    }
    json_close_list();
    if (status != QN_OK)
        json_text("opencl_missing", qn_error_message());
    else
        json_null("opencl_missing");
}

#else

static const char why[] = "left out of this build (QUERN_WITH_OPENCL)";

void opencl_devices_print(const qn_roofline *roofline,
                          void (*print)(const char *label, const char *text)) {
    (void)roofline;
    print("OpenCL", why);
}

void opencl_devices_json(const qn_roofline *roofline) {
    (void)roofline;
    json_open_list("opencl");
    json_close_list();
    json_text("opencl_missing", why);
}

#endif

#ifdef QN_WITH_CUDA

#include "device/cuda/devices.h"

void cuda_devices_print(const qn_roofline *roofline,
                        void (*print)(const char *label, const char *text)) {
    qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
    char label[24], text[512], memory[QN_SIZE_TEXT];
    int n;
    if (qn_cuda_find_devices(devices, &n) != QN_OK) {
        print("CUDA", qn_error_message());
        return;
    }
    print("CUDA", n == 1 ? "1 device" : "several devices");
    for (int i = 0; i < n; i++) {
        const qn_cuda_device *d = &devices[i];
        snprintf(label, sizeof label, "  cuda:%d", i);
        snprintf(text, sizeof text,
                 "%s, %d multiprocessor%s of architecture %d.%d, %s of memory %s; driver of CUDA "
                 "%d.%d",
                 d->name, d->n_units, d->n_units == 1 ? "" : "s", d->architecture / 10,
                 d->architecture % 10, qn_text_print_size(d->memory_bytes, memory),
                 d->is_unified ? "shared with the host" : "of its own", d->driver / 1000,
                 d->driver % 1000 / 10);
        print(label, text);
        print_speed(roofline, label + 2, d->name, print);
    }
}

void cuda_devices_json(const qn_roofline *roofline) {
    qn_cuda_device devices[QN_CUDA_MOST_DEVICES];
    char device[24];
    int n;
    const qn_status status = qn_cuda_find_devices(devices, &n);
    json_open_list("cuda");
    for (int i = 0; i < n; i++) {
        snprintf(device, sizeof device, "cuda:%d", i);
        json_begin_item();
        json_text("device", device);
        json_text("name", devices[i].name);
        json_count("architecture", devices[i].architecture);
        json_count("driver", devices[i].driver);
        json_count("compute_units", devices[i].n_units);
        json_count("memory_bytes", (int64_t)devices[i].memory_bytes);
        json_flag("shared_with_host", devices[i].is_unified);
        json_speed(roofline, device, devices[i].name);
        json_end_item();
    }
    json_close_list();
    if (status != QN_OK)
        json_text("cuda_missing", qn_error_message());
    else
        json_null("cuda_missing");
}

#else

void cuda_devices_print(const qn_roofline *roofline,
                        void (*print)(const char *label, const char *text)) {
    (void)roofline;
    print("CUDA", "left out of this build (QUERN_WITH_CUDA)");
}

void cuda_devices_json(const qn_roofline *roofline) {
    (void)roofline;
    json_open_list("cuda");
    json_close_list();
    json_text("cuda_missing", "left out of this build (QUERN_WITH_CUDA)");
}

#endif
