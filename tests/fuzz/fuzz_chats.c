/* Lines of conversations, and chat templates. The input is a template, a zero byte, and a line; in
 * place of a line that is refused the template writes a usual conversation. What a template writes
 * has a mark of answers for every byte. */
#include "data/chats/chats.h"
#include "data/chats/jinja.h"
#include "fuzz/input.h"
#include "os/heap.h"

#include <cjson/cJSON.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void render(const qn_allocator *allocator, const char *jinja, const cJSON *messages) {
    const qn_chat_words words = {"<s>", NULL};
    qn_rendered r;
    qn_arena arena;
    qn_arena_init(&arena, allocator);
    for (int asks = 0; asks < 2; asks++) {
        volatile char last = 0; /* every byte is read */
        if (qn_jinja_render(&arena, jinja, messages, &words, asks, &r) != QN_OK)
            continue;
        for (size_t i = 0; i < r.bytes; i++)
            last = (char)(r.text[i] + r.is_answer[i]);
        (void)last;
    }
    qn_arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char usual[] = "{\"messages\": [{\"role\": \"user\", \"content\": \" a \"}, "
                                "{\"role\": \"assistant\", \"content\": \"b\"}]}";
    failing heap = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&heap);
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size;
    char *jinja = malloc(n + 1);
    qn_chat chat;
    if (!jinja || size > 1 << 14) {
        free(jinja);
        return 0;
    }
    if (n > 0)
        memcpy(jinja, data, n);
    jinja[n] = 0;
    const char *line = zero ? (const char *)zero + 1 : usual;
    const size_t bytes = zero ? size - n - 1 : sizeof usual - 1;
    if (qn_chat_parse(line, bytes, "fuzz", 1, &chat) != QN_OK &&
        qn_chat_parse(usual, sizeof usual - 1, "usual", 1, &chat) != QN_OK)
        abort();
    if (chat.messages)
        render(&allocator, jinja, chat.messages);
    qn_chat_deinit(&chat);
    free(jinja);
    input_check_memory(&heap);
    return 0;
}
