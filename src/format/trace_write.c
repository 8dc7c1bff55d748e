/* Writing trace events, one a line, in the order of the calls; see trace.h. Times stay exact: they
 * are microseconds with three decimals, of the same clock as here. */
#include "format/output.h"
#include "format/trace.h"
#include "os/os.h"

#include <math.h>

struct qn_trace {
    qn_output output;
};

/* What qn_file_write calls back with. */
typedef struct writing {
    qn_status (*body)(void *user, qn_trace *trace);
    void *user;
} writing;

static qn_status write_trace(void *context, qn_writer *writer) {
    const writing *w = context;
    qn_trace trace = {qn_output_to_file(writer)};
    qn_output *out = &trace.output;
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "displayTimeUnit", "ms");
    qn_json_open(out, "otherData", '{');
    qn_json_text(out, "producer", "quern");
    qn_json_text(out, "version", qn_version());
    qn_json_text(out, "clock", "CLOCK_MONOTONIC");
    qn_json_close(out, '}');
    qn_json_open(out, "traceEvents", '[');
    qn_status status = w->body(w->user, &trace);
    qn_output_text(out, "\n");
    qn_json_close(out, ']');
    qn_json_close(out, '}');
    qn_output_text(out, "\n");
    return status != QN_OK ? status : out->status;
}

qn_status qn_trace_write(const char *path, qn_status (*body)(void *user, qn_trace *trace),
                         void *user) {
    writing w = {body, user};
    return qn_file_write(path, write_trace, &w);
}

static void put_us(qn_output *out, const char *key, int64_t ns) {
    char digits[32];
    const long long whole = ns / 1000, rest = ns % 1000;
    snprintf(digits, sizeof digits, ",\"%s\":%s%lld.%03lld", key, ns < 0 ? "-" : "",
             whole < 0 ? -whole : whole, rest < 0 ? -rest : rest);
    qn_output_text(out, digits);
}

static void open_event(qn_output *out, const char *phase, int pid, const char *name) {
    if (out->is_within)
        qn_output_text(out, ",");
    qn_output_text(out, "\n");
    out->is_within = false;
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "ph", phase);
    qn_json_count(out, "pid", pid);
    qn_json_text(out, "name", name);
}

static qn_status close_event(qn_output *out) {
    qn_json_close(out, '}');
    return out->status;
}

static void put_name(qn_output *out, const char *name) {
    qn_json_open(out, "args", '{');
    qn_json_text(out, "name", name);
    qn_json_close(out, '}');
}

qn_status qn_trace_process_name(qn_trace *trace, int pid, const char *name) {
    qn_output *out = &trace->output;
    open_event(out, "M", pid, "process_name");
    put_name(out, name);
    return close_event(out);
}

qn_status qn_trace_thread_name(qn_trace *trace, int pid, int tid, const char *name) {
    qn_output *out = &trace->output;
    open_event(out, "M", pid, "thread_name");
    qn_json_count(out, "tid", tid);
    put_name(out, name);
    return close_event(out);
}

qn_status qn_trace_slice(qn_trace *trace, int pid, int tid, const char *name, const char *category,
                         int64_t begin_ns, int64_t end_ns, int n_args, const char *const *names,
                         const double *values) {
    qn_output *out = &trace->output;
    open_event(out, "X", pid, name);
    qn_json_count(out, "tid", tid);
    qn_json_text(out, "cat", category);
    put_us(out, "ts", begin_ns);
    put_us(out, "dur", end_ns - begin_ns);
    qn_json_open(out, "args", '{');
    for (int i = 0; i < n_args; i++) {
        if (isfinite(values[i]))
            qn_json_number(out, names[i], values[i]);
    }
    qn_json_close(out, '}');
    return close_event(out);
}

qn_status qn_trace_counter(qn_trace *trace, int pid, const char *name, const char *unit,
                           int64_t at_ns, double value) {
    qn_output *out = &trace->output;
    if (!isfinite(value))
        return out->status;
    open_event(out, "C", pid, name);
    put_us(out, "ts", at_ns);
    qn_json_open(out, "args", '{');
    qn_json_number(out, unit, value);
    qn_json_close(out, '}');
    return close_event(out);
}
