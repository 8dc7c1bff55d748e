/* See operation_times.h. The text: a first line that says what it is, then "PROGRAM NS NAME" each.
 */
#include "format/operation_times.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "os/files/cache_folder.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char first_line[] = "quern operation times 1";

enum { LINE_BYTES = 1024, MOST_PROGRAMS = 1024 };

/* The next line of *text into line, without its end; false: there is none, or it is too long. */
static bool take_line(const char **text, size_t *bytes, char line[LINE_BYTES]) {
    const char *end = memchr(*text, '\n', *bytes);
    const size_t length = end ? (size_t)(end - *text) : *bytes;
    if (*bytes == 0 || length >= LINE_BYTES || memchr(*text, 0, length))
        return false;
    memcpy(line, *text, length);
    line[length] = 0;
    *text += length + (end != NULL);
    *bytes -= length + (end != NULL);
    return true;
}

static bool parse_line(const char *line, int *program, double *ns, const char **node) {
    char *end;
    const long number = strtol(line, &end, 10);
    if (end == line || *end != ' ' || number < 0 || number >= MOST_PROGRAMS)
        return false;
    const char *at = end + 1;
    *ns = qn_decimal_read(at, &end);
    if (end == at || *end != ' ' || !(*ns >= 0 && *ns < 1e15) || !end[1])
        return false;
    *program = (int)number;
    *node = end + 1;
    return true;
}

qn_status qn_operation_times_parse(const char *text, size_t bytes,
                                   qn_status (*put)(void *context, int program, const char *node,
                                                    double ns),
                                   void *context) {
    char line[LINE_BYTES];
    if (!take_line(&text, &bytes, line) || strcmp(line, first_line) != 0)
        return qn_fail(QN_ERROR_FORMAT, "operation times: line 1 is not \"%s\"", first_line);
    for (int number = 2; bytes > 0; number++) {
        const char *node;
        double ns;
        int program;
        if (!take_line(&text, &bytes, line) || !parse_line(line, &program, &ns, &node))
            return qn_fail(QN_ERROR_FORMAT, "operation times: line %d is not a time", number);
        QN_TRY(put(context, program, node, ns));
    }
    return QN_OK;
}

static qn_status find_path(const qn_engine *engine, char path[PATH_MAX]) {
    char folder[PATH_MAX - 64], machine[256];
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    qn_host_name(machine, sizeof machine);
    snprintf(path, PATH_MAX, "%s/times-%016" PRIx64 "-%016" PRIx64, folder, qn_hash_text(machine),
             qn_engine_hash(engine));
    return QN_OK;
}

typedef struct loading {
    qn_engine *engine;
    int64_t n;
} loading;

static qn_status give(void *context, int program, const char *node, double ns) {
    loading *l = context;
    l->n++;
    return qn_engine_set_time(l->engine, program, node, ns);
}

qn_status qn_operation_times_load(qn_engine *engine, int64_t *n_found) {
    const qn_allocator *a = qn_engine_allocator(engine);
    loading l = {.engine = engine};
    char path[PATH_MAX], *text;
    size_t bytes;
    *n_found = 0;
    if (find_path(engine, path) != QN_OK || !qn_path_is_file(path))
        return QN_OK;
    qn_status status = qn_file_read_whole(a, path, &text, &bytes);
    if (status != QN_OK)
        return status == QN_ERROR_MEMORY ? status : QN_OK;
    status = qn_operation_times_parse(text, bytes, give, &l);
    qn_release(a, text, bytes + 1, 1);
    if (status == QN_ERROR_FORMAT)
        return QN_OK;
    *n_found = l.n;
    return status;
}

static qn_status put_time(void *context, int program, const char *node, double ns) {
    char line[LINE_BYTES];
    const int length = qn_print(line, sizeof line, "%d %.0f %s\n", program, ns, node);
    return length < LINE_BYTES ? qn_writer_put(context, line, (size_t)length) : QN_OK;
}

static qn_status write_times(void *context, qn_writer *writer) {
    QN_TRY(qn_writer_put(writer, first_line, sizeof first_line - 1));
    QN_TRY(qn_writer_put(writer, "\n", 1));
    return qn_engine_visit_times(context, put_time, writer);
}

qn_status qn_operation_times_save(const qn_engine *engine) {
    char path[PATH_MAX];
    QN_TRY(find_path(engine, path));
    return qn_cache_replace(path, write_times, (void *)(uintptr_t)engine);
}
