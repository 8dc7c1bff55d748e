/* The table of a run's operations as CSV; see profile.h. What was not measured is an empty field.
 */
#include "format/output.h"
#include "os/os.h"
#include "report/profile.h"
#include "report/words.h"

static void put_text(qn_output *out, const char *text) {
    qn_output_csv(out, text ? text : "");
    qn_output_text(out, ",");
}

static void put_number(qn_output *out, double value) {
    qn_output_number(out, value, 9, "");
    qn_output_text(out, ",");
}

static void put_row(qn_output *out, const qn_operation_row *row) {
    put_text(out, row->type);
    put_text(out, row->name);
    put_text(out, row->device);
    qn_output_count(out, row->calls);
    qn_output_text(out, ",");
    const double times[] = {row->total_ms, row->share, row->mean_us, row->p50_us, row->p95_us};
    for (int i = 0; i < 5; i++)
        put_number(out, times[i]);
    qn_output_number(out, row->flops, 17, "");
    qn_output_text(out, ",");
    qn_output_number(out, row->bytes, 17, "");
    qn_output_text(out, ",");
    put_number(out, row->gflops);
    put_text(out, qn_words_bound(row->bound));
    put_number(out, row->energy_mj);
    put_number(out, row->mean_w);
    qn_output_text(out, row->is_estimated ? "true\n" : "false\n");
}

static qn_status write_rows(void *context, qn_writer *writer) {
    const qn_measurement *m = context;
    qn_output out = qn_output_to_file(writer);
    qn_output_text(&out, "type,name,device,calls,total_ms,share,mean_us,p50_us,p95_us,flops,bytes,"
                         "gflops,bound,energy_mj,mean_w,estimated\n");
    for (int i = 0; i < m->n_nodes; i++)
        put_row(&out, &m->nodes[i]);
    return out.status;
}

qn_status qn_report_csv(const qn_measurement *m, const char *path) {
    return qn_file_write(path, write_rows, (void *)(uintptr_t)m);
}
