/* quern label undo, export: taking a correction back, and the labels that are known by now. */
#include "base/memory.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "cli/terminal.h"
#include "os/heap.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

static qn_status before_of(const char *path, char before[PATH_BYTES]) {
    if (snprintf(before, PATH_BYTES, "%s.before", path) < PATH_BYTES)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
}

qn_status label_save_correction(const qn_labeller *labeller, const char *path) {
    char before[PATH_BYTES];
    QN_TRY(before_of(path, before));
    QN_TRY(qn_file_copy(path, before));
    return qn_labeller_save(labeller, path);
}

/* ---- undo ---- */

/* The labeller before the last correction, if no sample was labelled since. */
static qn_status check_before(const qn_labeller *labeller, const char *before) {
    qn_labeller *old;
    if (!qn_path_is_file(before))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not there: nothing was corrected", before);
    QN_TRY(qn_labeller_load(qn_allocator_default(), before, &old));
    const int64_t n_since = qn_labeller_samples(labeller) - qn_labeller_samples(old);
    qn_labeller_destroy(old);
    if (n_since == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%" PRId64 " samples were labelled after the last correction, and would be lost "
                   "with it; correct it by another (name, merge, tell)",
                   n_since);
}

static qn_status swap(const char *path, const char *before) {
    char kept[PATH_BYTES];
    if (snprintf(kept, sizeof kept, "%s.undone", path) >= PATH_BYTES)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    QN_TRY(qn_file_copy(path, kept));
    qn_status status = qn_file_copy(before, path);
    if (status == QN_OK)
        status = qn_file_copy(kept, before);
    qn_file_remove(kept);
    return status;
}

int label_undo(const arguments *a, const qn_labeller *labeller) {
    char before[PATH_BYTES];
    const char *path = a->words[1];
    qn_status status = a->n_words == 2
                           ? QN_OK
                           : qn_fail(QN_ERROR_ARGUMENT, "quern label undo FILE has no more words");
    if (status == QN_OK)
        status = before_of(path, before);
    if (status == QN_OK)
        status = check_before(labeller, before);
    if (status == QN_OK)
        status = swap(path, before);
    if (status != QN_OK)
        return report_failure(status);
    if (!arguments_flag(a, "json"))
        puts("the last correction is undone; undo again to have it back");
    return EXIT_DONE;
}

/* ---- export ---- */

static qn_status write_labels(void *context, qn_writer *writer) {
    const qn_labeller *l = context;
    char line[LABEL_LINE];
    QN_TRY(qn_writer_put(writer, label_header, strlen(label_header)));
    for (int64_t age = qn_labeller_kept(l) - 1; age >= 0; age--) {
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(l, age, NULL, &answer));
        label_print_line(l, qn_labeller_samples(l) - age, &answer, line);
        QN_TRY(qn_writer_put(writer, line, strlen(line)));
    }
    return QN_OK;
}

int label_export(const arguments *a, const qn_labeller *labeller) {
    const char *out = arguments_get(a, "out");
    qn_status status =
        a->n_words == 2
            ? QN_OK
            : qn_fail(QN_ERROR_ARGUMENT, "quern label export FILE --out LABELS has no more words");
    if (status == QN_OK)
        status = qn_file_write(out ? out : "-", write_labels, (void *)(uintptr_t)labeller);
    if (status != QN_OK)
        return report_failure(status);
    if (out && !arguments_flag(a, "json"))
        printf("%" PRId64 " samples are kept; their labels are in %s\n", qn_labeller_kept(labeller),
               terminal_name(out));
    return EXIT_DONE;
}
