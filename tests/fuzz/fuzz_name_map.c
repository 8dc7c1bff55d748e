/* Maps of names: what is accepted turns any name into one that ends within its size, and layouts
 * into numbers that can be worked with; what follows the last line of a ; is names to turn. */
#include "base/memory.h"
#include "format/foreign/name_map.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const qn_map_rule *rule) {
    if (!rule->from || !*rule->from || !rule->to || rule->line < 1)
        abort();
    if (rule->layout == QN_LAYOUT_PART &&
        (rule->numbers[0] < 0 || rule->numbers[0] >= rule->numbers[1] || rule->numbers[1] > 64))
        abort();
    for (int i = 0; rule->layout == QN_LAYOUT_IMAGE && i < 3; i++) {
        if (rule->numbers[i] < 1)
            abort();
    }
}

static void apply(const qn_name_map *map, const char *name) {
    char to[QN_MAP_NAME];
    const qn_map_rule *rule;
    memset(to, 'x', sizeof to);
    if (qn_name_map_apply(map, name, to, &rule) != QN_OK)
        return;
    if (!memchr(to, 0, sizeof to) || (!rule && strcmp(to, name) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"layer1.0.conv1.weight",
                                        "features.18.1.running_var",
                                        "a.b.c.d.e.a",
                                        "bert.encoder.layer.11.attention.self.query.weight",
                                        "",
                                        ".",
                                        "aabbcc",
                                        "9.9.9"};
    const uint8_t *mark = size > 0 ? memchr(data, ';', size) : NULL;
    const size_t text = mark ? (size_t)(mark - data) : size;
    qn_name_map map;
    qn_name_map_init(&map, NULL);
    if (text < 1 << 16 && qn_name_map_parse(&map, "map", (const char *)data, text) == QN_OK) {
        for (size_t i = 0; i < map.n_rules; i++)
            check_rule(&map.rules[i]);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            apply(&map, names[i]);
        char *rest = malloc(size - text + 1);
        if (rest && mark) {
            memcpy(rest, mark, size - text);
            rest[size - text] = 0;
            apply(&map, rest + 1);
        }
        free(rest);
    }
    qn_name_map_deinit(&map);
    return 0;
}
