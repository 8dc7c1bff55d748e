/* Conversations to learn from: JSON Lines, a conversation a line, in the forms that are usual:
 *
 *     {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}
 *     {"prompt": "...", "completion": "..."}
 *     {"text": "..."}
 *
 * Other members of a line are passed over. A line in none of the forms, or in two, is refused. */
#ifndef QN_DATA_CHATS_CHATS_H
#define QN_DATA_CHATS_CHATS_H

#include "base/memory.h"

struct cJSON;

/* One of the three: messages, text, or prompt and completion, which are the tree's. */
typedef struct qn_chat {
    struct cJSON *tree;
    const struct cJSON *messages; /* or null */
    const char *text;             /* or null */
    const char *prompt, *completion;
} qn_chat;

/* Reads a line; place and number name it in messages. The caller ends it with qn_chat_deinit. */
qn_status qn_chat_parse(const char *line, size_t bytes, const char *place, int64_t number,
                        qn_chat *chat);
void qn_chat_deinit(qn_chat *chat);

/* Conversations of a file, which is mapped. visit is called with each, of the n that there are in
 * lines that are not blank. */
typedef qn_status qn_chat_visit(void *user, const qn_chat *chat, int64_t index, int64_t n);
qn_status qn_chats_read(const qn_allocator *allocator, const char *path, qn_chat_visit *visit,
                        void *user);

#endif
