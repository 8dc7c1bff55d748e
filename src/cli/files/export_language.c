/* See export_language.h. */
#include "cli/files/export_language.h"

#include "base/status.h"
#include "cli/model.h"
#include "format/pretrained/gguf_write.h"
#include "format/safetensors.h"
#include "models/language/model.h"
#include "os/heap.h"
#include "tasks/tasks.h"

#include <string.h>

/* A checkpoint that is read. */
typedef struct source {
    qn_file *file;
    qn_safetensors tensors;
    const void *memory;
    qn_arena texts;
    qn_pretrained_tensor *list; /* (n) */
    size_t n;
} source;

static bool is_state(const char *name) {
    return strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "task.", 5) == 0;
}

/* "blk.0.attn_q.lora_a.weight" becomes "blk.0.attn_q.weight.lora_a". */
static qn_status add_tensor(source *s, const qn_safetensor *t) {
    const char *mark = strstr(t->name, ".lora_");
    const bool is_adapter =
        mark && (strcmp(mark, ".lora_a.weight") == 0 || strcmp(mark, ".lora_b.weight") == 0);
    if (is_state(t->name))
        return QN_OK;
    if (!is_adapter || t->dtype != QN_F32)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s trained %s too, which is no adapter of f32: a GGUF file of adapters "
                       "cannot hold it",
                       qn_file_path(s->file), t->name);
    const char *name =
        qn_arena_format(&s->texts, "%.*s.weight.lora_%c", (int)(mark - t->name), t->name, mark[6]);
    if (!name)
        return QN_ERROR_MEMORY;
    s->list[s->n++] = (qn_pretrained_tensor){.name = name,
                                             .shape = t->shape,
                                             .data = (const uint8_t *)s->memory +
                                                     s->tensors.data_offset + t->begin};
    return QN_OK;
}

static qn_status write_adapter(const qn_language_model *m, const qn_metadata *pairs, source *s,
                               const char *out) {
    const qn_tuning tuning = qn_tuning_of(pairs);
    QN_TRY(qn_safetensors_read(&s->tensors, s->file));
    QN_TRY(qn_file_map(s->file, &s->memory));
    s->list = qn_arena_allocate(&s->texts, s->tensors.n_tensors + 1, sizeof *s->list);
    if (!s->list)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < s->tensors.n_tensors; i++)
        QN_TRY(add_tensor(s, &s->tensors.tensors[i]));
    const qn_gguf_entry entries[] = {
        {"general.type", "adapter", 0},
        {"quern.version", qn_version(), 0}, /* by which its own files are known */
        {"general.architecture", m->language.family->gguf, 0},
        {"adapter.type", "lora", 0},
        {"adapter.lora.alpha", NULL,
         (float)(tuning.lora_alpha > 0 ? tuning.lora_alpha : (double)tuning.lora_rank)},
    };
    QN_TRY(qn_gguf_write(out, entries, sizeof entries / sizeof *entries, s->list, s->n));
    return qn_file_map_check(s->memory);
}

static qn_status check(const qn_language_model *m, const qn_metadata *pairs, const char *out) {
    const size_t n = strlen(out);
    if (!pairs || !qn_metadata_get(pairs, "lora"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "of %s, a language model's file, only adapters are exported: give --weights "
                       "of a run with --lora",
                       m->model.name);
    if (n < 6 || strcmp(out + n - 5, ".gguf") != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--out %s: adapters go into a file FILE.gguf", out);
    if (!m->files->is_gguf && m->language.family->traits.has_neighbours)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "in GGUF files of %s, rows of queries and keys lie in another order than in "
                       "%s: train beside the model's GGUF file",
                       m->language.family->name, m->model.name);
    return QN_OK;
}

qn_status export_language(const qn_model *model, const qn_metadata *pairs, const char *weights,
                          const char *out) {
    const qn_language_model *m = qn_language_model_of(model);
    source s = {.file = NULL};
    QN_TRY(check(m, pairs, out));
    QN_TRY(model_check(model, pairs, weights));
    QN_TRY(qn_file_open(NULL, weights, &s.file));
    qn_safetensors_init(&s.tensors, NULL);
    qn_arena_init(&s.texts, qn_allocator_default());
    const qn_status status = write_adapter(m, pairs, &s, out);
    qn_file_unmap(s.memory, s.memory ? (size_t)qn_file_bytes(s.file) : 0);
    qn_arena_deinit(&s.texts);
    qn_safetensors_deinit(&s.tensors);
    qn_file_close(s.file);
    return status;
}
