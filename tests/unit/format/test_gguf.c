/* Language models' files when memory is out: each allocation fails in turn, nothing is left, and
 * the files are read afterwards as before. Damaged files are for the fuzz targets. */
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "models/language/description.h"

#include <stdlib.h>

static qn_status open_model(const qn_allocator *allocator, const char *path, size_t *n_problems) {
    qn_pretrained *files;
    qn_language model;
    QN_TRY(qn_pretrained_open(allocator, path, &files));
    const qn_status status = qn_language_describe(files, &model);
    if (status == QN_OK) {
        *n_problems = model.n_problems;
        qn_language_deinit(&model);
    }
    qn_pretrained_close(files);
    return status;
}

static void check_failing(const char *name, size_t n_problems) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", getenv("QUERN_SOURCE"), name);
    for (int64_t i = 0;; i++) {
        failing f = {.left = i};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        size_t found = 0;
        const qn_status status = open_model(&allocator, path, &found);
        CHECK(f.held_bytes == 0);
        if (f.left >= 0) {
            CHECK(status == QN_OK && found == n_problems && i > 4);
            return;
        }
        CHECK(status == QN_ERROR_MEMORY);
    }
}

int main(void) {
    check_failing("llama", 0);
    check_failing("llama-wrong", 3);
    return checks_finish();
}
