/* What is said of the data before training: a few lines, or an event. */
#include "base/status.h"
#include "cli/json.h"
#include "cli/look/facts.h"
#include "cli/look/samples.h"
#include "cli/terminal.h"
#include "cli/train/training.h"
#include "os/ranks.h"
#include "tensor/tensor.h"

#include <string.h>

/* So many bytes of samples are read in less than a second. */
static const int64_t most_bytes = 128 << 20;

static void warn(void *context, const char *text) {
    (void)context;
    terminal_note("warning: %s", text);
}

/* Whether looking costs nothing that the user would notice: under a budget its memory is none that
 * was reckoned with, and made samples have nothing to look at. */
static bool is_worth_it(const training *t, const qn_data_source *source, int64_t sample_bytes) {
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += source->n_samples[split];
    return t->s.how.engine.memory_budget_bytes == 0 && qn_ranks_own(t->s.how.engine.ranks) == 0 &&
           strcmp(source->name, "synthetic") != 0 &&
           (source->read_class || n <= most_bytes / sample_bytes);
}

static void say(const training *t, const qn_data_source *source, const qn_look *look) {
    const char *weights = qn_metadata_get(t->s.pairs, "class-weights");
    const bool are_photos = source->sample.rank == 3 && source->sample.dims[0] == 0;
    if (t->progress.is_json) {
        json_begin();
        json_text("event", "data");
        facts_add_json(source);
        samples_add_json(source, look);
        json_end();
        return;
    }
    samples_print(source, look, true, &look_terminal);
    samples_warn(source, look, (samples_known){weights && strcmp(weights, "none") != 0, are_photos},
                 warn, NULL);
}

qn_status training_print_look(const training *t) {
    const qn_data_source *source = qn_task_get_source(t->s.task);
    const char *input = qn_metadata_get(t->s.pairs, "input");
    qn_look_options how = {.delivered = QN_SHAPE(1)};
    qn_look look;
    if (!source || !source->facts || t->first_step >= t->total_steps ||
        (input && !qn_shape_parse(input, &how.delivered)))
        return QN_OK;
    const bool is_open = source->sample.rank == 3 && source->sample.dims[0] == 0;
    const qn_shape *shape = is_open ? &how.delivered : &source->sample;
    const int64_t bytes = qn_shape_count(*shape) * (int64_t)qn_dtype_bytes(source->dtype);
    if (!is_worth_it(t, source, bytes))
        return QN_OK;
    how.most_compared = most_bytes / bytes;
    QN_TRY(qn_look_at(NULL, source, &how, &look));
    say(t, source, &look);
    qn_look_deinit(&look);
    return QN_OK;
}
