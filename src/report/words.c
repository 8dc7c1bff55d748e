/* See words.h. */
#include "report/words.h"

#include "format/output.h"

#include <math.h>
#include <stdio.h>

static const char *const quantities[QN_QUANTITY_COUNT] = {
    [QN_QUANTITY_UTILISATION] = "utilisation", [QN_QUANTITY_FREQUENCY] = "frequency",
    [QN_QUANTITY_MEMORY] = "memory",           [QN_QUANTITY_POWER] = "power",
    [QN_QUANTITY_TEMPERATURE] = "temperature",
};

static const char *const parts[QN_PART_COUNT] = {
    [QN_PART_SYSTEM] = "system",   [QN_PART_CPU] = "cpu",       [QN_PART_CORE] = "core",
    [QN_PART_GPU] = "gpu",         [QN_PART_MEMORY] = "memory", [QN_PART_SOC] = "soc",
    [QN_PART_PROCESS] = "process", [QN_PART_THREAD] = "thread", [QN_PART_OTHER] = "other",
};

const char *const qn_words_memory[QN_MEMORY_KINDS] = {
    "input", "label", "parameter", "gradient", "state", "feature_map", "workspace"};

const char *qn_words_quantity(qn_quantity quantity) {
    return quantities[quantity];
}

const char *qn_words_part(qn_part part) {
    return parts[part];
}

const char *qn_words_bound(qn_bound bound) {
    static const char *const names[] = {[QN_BOUND_UNKNOWN] = "unknown",
                                        [QN_BOUND_COMPUTE] = "compute",
                                        [QN_BOUND_MEMORY] = "memory"};
    return names[bound];
}

const char *qn_words_unit(const qn_channel *channel, double *scale) {
    static const struct {
        const char *unit;
        double scale;
    } units[QN_QUANTITY_COUNT] = {
        [QN_QUANTITY_UTILISATION] = {"%", 100},
        [QN_QUANTITY_FREQUENCY] = {"MHz", 1e-6},
        [QN_QUANTITY_MEMORY] = {"MiB", 1.0 / (1 << 20)},
        [QN_QUANTITY_POWER] = {"W", 1},
        [QN_QUANTITY_TEMPERATURE] = {"\xc2\xb0"
                                     "C",
                                     1},
    };
    const bool is_many = channel->part == QN_PART_PROCESS || channel->part == QN_PART_THREAD;
    if (channel->quantity == QN_QUANTITY_UTILISATION && is_many) {
        *scale = 1;
        return "cores";
    }
    *scale = units[channel->quantity].scale;
    return units[channel->quantity].unit;
}

const char *qn_words_scaled(double value, const char *unit, char text[QN_WORDS_NUMBER]) {
    static const char *const prefixes[] = {"p", "n", "\xc2\xb5", "m", "", "k", "M", "G", "T", "P"};
    enum { NONE = 4, LAST = 9 };
    char digits[QN_NUMBER_TEXT];
    int prefix = NONE;
    double size = fabs(value);
    /* 999.5 prints as 1.00 of the next. */
    for (; size >= 999.5 && prefix < LAST; prefix++)
        size /= 1000;
    for (; size > 0 && size < 0.9995 && prefix > 0; prefix--)
        size *= 1000;
    const int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : 2;
    qn_print_fixed(copysign(size, value), decimals, digits);
    snprintf(text, QN_WORDS_NUMBER, "%.24s %s%.16s", digits, prefixes[prefix], unit);
    return text;
}
