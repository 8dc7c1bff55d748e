/* See own_file.h. */
#define _GNU_SOURCE /* memmem */
#include "format/own/own_file.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <string.h>

static bool begins(const char *head, size_t bytes, const char *text) {
    const size_t n = strlen(text);
    return bytes >= n && memcmp(head, text, n) == 0;
}

static bool is_picture(const char *head, size_t bytes) {
    static const char mark[] = "Software\0quern";
    return begins(head, bytes, "\x89PNG\r\n\x1a\n") &&
           memmem(head, bytes, mark, sizeof mark - 1) != NULL;
}

static bool holds(const char *head, size_t bytes, const char *text) {
    return memmem(head, bytes, text, strlen(text)) != NULL;
}

/* A field of a line, up to its comma or end, as it stands. */
static size_t field_bytes(const char *from, const char *end) {
    const char *at = from;
    for (bool is_quoted = false; at < end; at++) {
        is_quoted ^= *at == '"';
        if (!is_quoted && (*at == ',' || *at == '\n' || *at == '\r'))
            break;
    }
    return (size_t)(at - from);
}

/* Rows and columns of a confusion matrix have the same names. */
static bool is_matrix(const char *head, size_t bytes) {
    const char *end = head + bytes, *line = memchr(head, '\n', bytes);
    const char *name = head + strlen("class,");
    if (!begins(head, bytes, "class,") || !line)
        return false;
    const size_t n_column = field_bytes(name, end), n_row = field_bytes(line + 1, end);
    return n_column == n_row && memcmp(name, line + 1, n_row) == 0;
}

/* A first line with all columns of buffers, and their offsets. */
static bool is_buffers(const char *head, size_t bytes) {
    const char *line = memchr(head, '\n', bytes);
    const size_t n = line ? (size_t)(line - head) : bytes;
    return holds(head, n, "lower") && holds(head, n, "upper") && holds(head, n, "size") &&
           holds(head, n, "offset");
}

unsigned qn_own_kinds_of_head(const char *head, size_t bytes) {
    const struct {
        qn_own_kind kind;
        bool is_so;
    } rows[] = {
        {QN_OWN_NETWORK,
         (bytes > 2 && head[0] == 8 && holds(head, bytes < 64 ? bytes : 64, "quern")) ||
             (begins(head, bytes, "GGUF") && holds(head, bytes, "quern.version"))},
        {QN_OWN_PAGE, begins(head, bytes, "<!doctype html>") &&
                          holds(head, bytes, "<meta name=\"generator\" content=\"quern\">")},
        {QN_OWN_TRACE, holds(head, bytes < 128 ? bytes : 128, "\"producer\":\"quern\"")},
        {QN_OWN_TIMES, begins(head, bytes, "type,name,device,calls,total_ms,")},
        {QN_OWN_CONFUSION,
         begins(head, bytes, "class,taken for,samples\n") || is_matrix(head, bytes)},
        {QN_OWN_BUFFERS, is_buffers(head, bytes)},
        {QN_OWN_LABELS, begins(head, bytes, "sample,label,confidence\n")},
        {QN_OWN_MOVES, begins(head, bytes, "moved from,moved to\n")},
        {QN_OWN_METRICS, begins(head, bytes, "{\"quern\":\"")},
        {QN_OWN_PLAN, begins(head, bytes, "{\"format\":\"quern plan ")},
        {QN_OWN_PICTURE, is_picture(head, bytes)},
    };
    unsigned kinds = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        kinds |= rows[i].is_so ? rows[i].kind : 0u;
    return kinds;
}

/* What the header of tensors says of them: other programs' files have no step and no format of
 * quern's. Its pairs come first, and are texts. */
static unsigned kinds_of_header(const char *header, size_t bytes) {
    static const char pairs[] = "{\"__metadata__\":{";
    if (!begins(header, bytes, pairs))
        return 0;
    if (holds(header, bytes, "\"format\":\"quern labeller\""))
        return QN_OWN_LABELLER;
    const bool is_ours =
        holds(header, bytes, "\"format\":\"quern ") || holds(header, bytes, "\"step\":\"");
    return is_ours ? QN_OWN_WEIGHTS : 0;
}

/* In a file of tensors, 8 bytes with the header's length come before it. */
static qn_status find_tensors(qn_file *file, const char *head, size_t n_head, unsigned *kinds) {
    enum { PREFIX = 8, MOST = 1 << 24 };
    const qn_allocator *heap = qn_allocator_default();
    const int64_t left = qn_file_bytes(file) - PREFIX;
    char *header;
    if (n_head <= PREFIX || head[PREFIX] != '{')
        return QN_OK;
    const size_t n = left < MOST ? (size_t)left : MOST;
    uint64_t length = 0;
    for (int i = PREFIX - 1; i >= 0; i--)
        length = length << 8 | (unsigned char)head[i];
    const size_t n_read = length < n ? (size_t)length : n;
    QN_TRY(qn_allocate(heap, n_read + 1, 1, &header));
    const qn_status status = qn_file_read(file, PREFIX, header, n_read);
    if (status == QN_OK)
        *kinds |= kinds_of_header(header, n_read);
    qn_release(heap, header, n_read + 1, 1);
    return status;
}

/* A network of another program with weights of quern's says so near its end. */
static qn_status find_rewritten(qn_file *file, unsigned *kinds) {
    char tail[QN_OWN_HEAD_BYTES];
    const int64_t all = qn_file_bytes(file);
    const size_t n = all < QN_OWN_HEAD_BYTES ? (size_t)all : sizeof tail;
    QN_TRY(qn_file_read(file, all - (int64_t)n, tail, n));
    *kinds |= holds(tail, n, "quern.version") ? QN_OWN_NETWORK : 0;
    return QN_OK;
}

static qn_status find_kinds(qn_file *file, unsigned *kinds) {
    char head[QN_OWN_HEAD_BYTES];
    const int64_t all = qn_file_bytes(file);
    const size_t n = all < QN_OWN_HEAD_BYTES ? (size_t)all : sizeof head;
    QN_TRY(qn_file_read(file, 0, head, n));
    *kinds = qn_own_kinds_of_head(head, n);
    if (n > 2 && head[0] == 8)
        QN_TRY(find_rewritten(file, kinds));
    return *kinds ? QN_OK : find_tensors(file, head, n, kinds);
}

qn_status qn_own_file_check(const char *path, unsigned kinds, bool *is_own) {
    unsigned found = 0;
    qn_file *file;
    *is_own = !qn_path_is_file(path);
    if (*is_own)
        return QN_OK;
    QN_TRY(qn_file_open(NULL, path, &file));
    const bool is_empty = qn_file_bytes(file) == 0;
    const qn_status status = is_empty ? QN_OK : find_kinds(file, &found);
    qn_file_close(file);
    *is_own = is_empty || (found & kinds);
    return status;
}

const char *qn_own_kind_words(unsigned kinds) {
    static const struct {
        qn_own_kind kind;
        const char *words;
    } rows[] = {
        {QN_OWN_WEIGHTS, "a file of weights"},
        {QN_OWN_LABELLER, "a labeller"},
        {QN_OWN_NETWORK, "an exported network"},
        {QN_OWN_PAGE, "a page"},
        {QN_OWN_TRACE, "a trace"},
        {QN_OWN_TIMES, "a table"},
        {QN_OWN_CONFUSION, "a confusion matrix"},
        {QN_OWN_BUFFERS, "a table of buffers"},
        {QN_OWN_LABELS, "a table of labels"},
        {QN_OWN_METRICS, "a file of measurements"},
        {QN_OWN_PLAN, "a plan"},
        {QN_OWN_PICTURE, "a picture"},
        {QN_OWN_MOVES, "a list of moves"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (kinds & rows[i].kind)
            return rows[i].words;
    }
    return "a file";
}
