/* The lines that an environment's process sends: what is accepted is within its bounds. */
#include "env/protocol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_sound(const qn_env_space *s) {
    int64_t n = 1;
    for (int i = 0; i < s->shape.rank; i++)
        n *= s->shape.dims[i] > 0 ? s->shape.dims[i] : -1;
    return n > 0 && n <= 1 << 22 && s->n_actions > 0 && s->frames_per_step > 0 &&
           s->shape.rank == (s->dtype == QN_U8 ? 2 : 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char line[QN_ENV_LINE];
    qn_env_space space;
    qn_env_outcome outcome;
    const size_t length = size < sizeof line ? size : sizeof line - 1;
    memcpy(line, data, length);
    line[length] = 0;
    if (qn_env_parse_hello(line, &space) == QN_OK && !is_sound(&space))
        abort();
    if (qn_env_parse_reply(line, &outcome) == QN_OK && !isfinite(outcome.reward))
        abort();
    return 0;
}
