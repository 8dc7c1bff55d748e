/* See own_file.h. */
#define _GNU_SOURCE /* memmem */
#include "format/own/own_file.h"

#include "base/status.h"
#include "format/safetensors.h"
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
         bytes > 2 && head[0] == 8 && holds(head, bytes < 64 ? bytes : 64, "quern")},
        {QN_OWN_PAGE, begins(head, bytes, "<!doctype html>") &&
                          holds(head, bytes, "<meta name=\"generator\" content=\"quern\">")},
        {QN_OWN_TRACE, holds(head, bytes < 128 ? bytes : 128, "\"producer\":\"quern\"")},
        {QN_OWN_TIMES, begins(head, bytes, "type,name,device,calls,total_ms,")},
        {QN_OWN_CONFUSION,
         begins(head, bytes, "class,taken for,samples\n") || is_matrix(head, bytes)},
        {QN_OWN_BUFFERS, is_buffers(head, bytes)},
        {QN_OWN_LABELS, begins(head, bytes, "sample,label,confidence\n")},
        {QN_OWN_METRICS, begins(head, bytes, "{\"quern\":\"")},
        {QN_OWN_PLAN, begins(head, bytes, "{\"format\":\"quern plan ")},
        {QN_OWN_PICTURE, is_picture(head, bytes)},
    };
    unsigned kinds = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        kinds |= rows[i].is_so ? rows[i].kind : 0u;
    return kinds;
}

/* Other programs' files have neither: a checkpoint says its step, other files their format. */
static bool says_quern(const qn_safetensors *file) {
    for (size_t i = 0; i < file->n_pairs; i++) {
        const qn_safetensors_pair *pair = &file->pairs[i];
        if (strcmp(pair->key, "step") == 0 ||
            (strcmp(pair->key, "format") == 0 && strncmp(pair->value, "quern ", 6) == 0))
            return true;
    }
    return false;
}

/* A file that is no safetensors file is none of ours; one that cannot be read may be. */
static qn_status look_at_weights(qn_file *file, bool *is_own) {
    qn_safetensors read;
    qn_safetensors_init(&read, qn_allocator_default());
    const qn_status status = qn_safetensors_read(&read, file);
    *is_own |= status == QN_OK && says_quern(&read);
    qn_safetensors_deinit(&read);
    return status == QN_ERROR_MEMORY || status == QN_ERROR_IO ? status : QN_OK;
}

/* A network of another program with weights of quern's says so near its end. */
static bool is_rewritten(qn_file *file, const char *head, size_t n_head) {
    char tail[QN_OWN_HEAD_BYTES];
    const int64_t all = qn_file_bytes(file);
    const size_t n = all < QN_OWN_HEAD_BYTES ? (size_t)all : sizeof tail;
    return n_head > 2 && head[0] == 8 && qn_file_read(file, all - (int64_t)n, tail, n) == QN_OK &&
           holds(tail, n, "quern.version");
}

static qn_status look(qn_file *file, unsigned kinds, bool *is_own) {
    char head[QN_OWN_HEAD_BYTES];
    const int64_t all = qn_file_bytes(file);
    const size_t n = all < QN_OWN_HEAD_BYTES ? (size_t)all : sizeof head;
    *is_own = all == 0;
    if (*is_own)
        return QN_OK;
    QN_TRY(qn_file_read(file, 0, head, n));
    *is_own = (qn_own_kinds_of_head(head, n) & kinds) ||
              ((kinds & QN_OWN_NETWORK) && is_rewritten(file, head, n));
    return kinds & QN_OWN_WEIGHTS ? look_at_weights(file, is_own) : QN_OK;
}

qn_status qn_own_file_look(const char *path, unsigned kinds, bool *is_own) {
    qn_file *file;
    *is_own = true;
    if (!qn_path_is_file(path))
        return QN_OK;
    QN_TRY(qn_file_open(NULL, path, &file));
    const qn_status status = look(file, kinds, is_own);
    qn_file_close(file);
    return status;
}

const char *qn_own_kind_words(unsigned kinds) {
    static const struct {
        qn_own_kind kind;
        const char *words;
    } rows[] = {
        {QN_OWN_WEIGHTS, "a file of weights"},
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
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (kinds & rows[i].kind)
            return rows[i].words;
    }
    return "a file";
}
