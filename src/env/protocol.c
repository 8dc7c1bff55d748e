/* See protocol.h. */
#include "env/protocol.h"

#include "base/decimal.h"
#include "base/status.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { MOST_SIDE = 4096, MOST_NUMBERS = 1 << 22, MOST_ACTIONS = 4096, MOST_FRAMES = 1000 };

static const double most_reward = 1e9;

/* Steps over a word and the space behind it. */
static bool take_word(const char **at, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0 || ((*at)[length] != ' ' && (*at)[length] != 0))
        return false;
    *at += length + ((*at)[length] == ' ');
    return true;
}

/* A whole number within bounds, with no sign and no space before it. */
static bool take_count(const char **at, int64_t least, int64_t most, int64_t *count) {
    int64_t value = 0;
    const char *begin = *at;
    while (**at >= '0' && **at <= '9' && value <= most)
        value = value * 10 + (*(*at)++ - '0');
    *count = value;
    return *at > begin && value >= least && value <= most;
}

static bool take_space(const char **at) {
    const bool has_space = **at == ' ';
    *at += has_space;
    return has_space || !**at;
}

static bool take_shape(const char **at, qn_shape *shape) {
    int64_t n = 1;
    *shape = (qn_shape){.rank = 0};
    do {
        if (shape->rank == 2 || !take_count(at, 1, MOST_NUMBERS, &shape->dims[shape->rank]))
            return false;
        n *= shape->dims[shape->rank++];
    } while (**at == 'x' && (*at)++);
    return n <= MOST_NUMBERS && take_space(at);
}

static bool take_type(const char **at, qn_dtype *dtype) {
    *dtype = take_word(at, "u8") ? QN_U8 : take_word(at, "f32") ? QN_F32 : QN_NONE;
    return *dtype != QN_NONE;
}

static bool take_number_of(const char **at, const char *word, int64_t most, int *number) {
    int64_t count;
    if (!take_word(at, word) || !take_count(at, 1, most, &count) || !take_space(at))
        return false;
    *number = (int)count;
    return true;
}

static bool is_fitting(const qn_env_space *space) {
    return space->dtype == QN_U8 ? space->shape.rank == 2 : space->shape.rank == 1;
}

qn_status qn_env_parse_hello(const char *line, qn_env_space *space) {
    qn_env_space found = {.frames_per_step = 1};
    int64_t version;
    const char *at = line;
    if (!take_word(&at, "quern-environment") || !take_count(&at, 0, MOST_SIDE, &version) ||
        !take_space(&at))
        return qn_fail(
            QN_ERROR_FORMAT,
            "it should begin with \"quern-environment %d observation ...\", not \"%.60s\"",
            QN_ENV_PROTOCOL_VERSION, line);
    if (version != QN_ENV_PROTOCOL_VERSION)
        return qn_fail(QN_ERROR_FORMAT, "it speaks version %lld of the protocol, not %d",
                       (long long)version, QN_ENV_PROTOCOL_VERSION);
    bool is_sound = take_word(&at, "observation") && take_type(&at, &found.dtype) &&
                    take_shape(&at, &found.shape) &&
                    take_number_of(&at, "actions", MOST_ACTIONS, &found.n_actions) &&
                    (!*at || take_number_of(&at, "frames", MOST_FRAMES, &found.frames_per_step));
    if (!is_sound || *at)
        return qn_fail(QN_ERROR_FORMAT,
                       "its greeting should be \"quern-environment 1 observation u8|f32 SHAPE "
                       "actions N [frames N]\"; at \"%.40s\" it is not",
                       at);
    if (!is_fitting(&found))
        return qn_fail(QN_ERROR_FORMAT, "its greeting: u8 is for frames HxW, f32 for N numbers");
    *space = found;
    return QN_OK;
}

static bool take_reward(const char **at, double *reward) {
    char *end;
    if (!take_word(at, "reward") || !**at || !strchr("+-.0123456789", **at))
        return false;
    *reward = qn_decimal_read(*at, &end);
    *at = end;
    return isfinite(*reward) && fabs(*reward) <= most_reward && take_space(at);
}

qn_status qn_env_parse_reply(const char *line, qn_env_outcome *outcome) {
    static const struct {
        const char *word;
        bool is_terminal, is_over;
    } states[] = {{"running", false, false},
                  {"lost", true, false},
                  {"terminal", true, true},
                  {"truncated", false, true}};
    double reward;
    const char *at = line;
    if (take_word(&at, "error"))
        return qn_fail(QN_ERROR_IO, "it says: %.150s", at);
    const bool has_reward = take_reward(&at, &reward);
    for (size_t i = 0; has_reward && i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(at, states[i].word) == 0) {
            *outcome = (qn_env_outcome){reward, states[i].is_terminal, states[i].is_over};
            return QN_OK;
        }
    }
    return qn_fail(QN_ERROR_FORMAT,
                   "it should answer \"reward NUMBER running|lost|terminal|truncated\", not "
                   "\"%.60s\"",
                   line);
}
