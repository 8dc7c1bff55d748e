/* Lists of class names as programs write them: what is taken are two names or more, each another
 * one, and they come back from a list of quern's own. */
#include "fuzz/input.h"
#include "onnx/properties/class_list.h"

static void write_name(const char *name, char *to, size_t *n) {
    to[(*n)++] = '"';
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            to[(*n)++] = '\\';
        to[(*n)++] = *name;
    }
    to[(*n)++] = '"';
}

static void check_again(const qn_class_list *list, qn_arena *arena) {
    size_t bytes = 3, n = 0;
    for (int i = 0; i < list->n; i++) {
        if (!*list->names[i] || strlen(list->names[i]) > QN_CLASS_NAME_MOST)
            abort();
        bytes += 2 * strlen(list->names[i]) + 4;
        for (int k = 0; k < i && list->n < 100; k++)
            if (strcmp(list->names[i], list->names[k]) == 0)
                abort();
    }
    char *text = malloc(bytes);
    qn_class_list again;
    if (!text)
        return;
    text[n++] = '[';
    for (int i = 0; i < list->n; i++) {
        if (i > 0)
            text[n++] = ',';
        write_name(list->names[i], text, &n);
    }
    text[n++] = ']';
    if (qn_class_list_read(text, n, arena, &again) == QN_OK && !qn_class_list_equal(list, &again))
        abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    char *text = malloc(size + 1); /* of its own size, so that a read behind it is seen */
    qn_class_list list;
    qn_arena arena;
    if (!text)
        return 0;
    memcpy(text, data, size);
    qn_arena_init(&arena, qn_allocator_default());
    if (qn_class_list_read(text, size, &arena, &list) != QN_OK || list.n == 1)
        abort();
    if (list.n > 0)
        check_again(&list, &arena);
    qn_arena_deinit(&arena);
    qn_arena_init(&arena, &allocator);
    (void)qn_class_list_read(text, size, &arena, &list);
    qn_arena_deinit(&arena);
    input_check_memory(&f);
    free(text);
    return 0;
}
