/* Chat templates beside what Jinja writes of them (recorded, with blocks trimmed), which bytes are
 * the answers', templates that are refused, and failing allocations. */
#include "check.h"
#include "data/chats/chats.h"
#include "data/chats/jinja.h"
#include "failing.h"
#include "os/heap.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

/* written null: the template refuses the messages. answers: the bytes that are theirs. */
static const struct {
    const char *name, *jinja, *messages;
    bool asks;
    const char *written, *answers;
} rows[] = {
    {"marks around every message, and a first one that is added",
     "{% for m in messages %}{% if loop.first and m.role != 'system' %}[system"
     "]none[end]\n{% endif %}{{ '[' + m['role'] + ']' + m['content'] + '[end]'"
     " }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
     "[{\"role\": \"user\", \"content\": \" one? \"}, {\"role\": \"assistant\""
     ", \"content\": \" 1\\n\"}, {\"role\": \"user\", \"content\": \"two?\"}, "
     "{\"role\": \"assistant\", \"content\": \"2\"}]",
     false,
     "[system]none[end]\n[user] one? [end][assistant] 1\n[end][user]two?[end]["
     "assistant]2[end]",
     " 1\n2"},
    {"marks around every message, and a first one that is added",
     "{% for m in messages %}{% if loop.first and m.role != 'system' %}[system"
     "]none[end]\n{% endif %}{{ '[' + m['role'] + ']' + m['content'] + '[end]'"
     " }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}",
     "[{\"role\": \"system\", \"content\": \"short\"}, {\"role\": \"user\", \""
     "content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]",
     true, "[system]short[end][user]hi[end][assistant]ho[end][assistant]", "ho"},
    {"turns that must alternate, a system text that goes into the first, trimm"
     "ed",
     "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set"
     " before = '<<' ~ messages[0].content ~ '>>' %}{% else %}{% set rest = me"
     "ssages %}{% set before = false %}{% endif %}{% for m in rest %}{% if (m."
     "role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns mu"
     "st alternate') }}{% endif %}{% set text = before + m.content if loop.ind"
     "ex0 == 0 and before != false else m.content %}{% if m.role == 'user' %}{"
     "{ bos_token + '(' + text.strip() + ')' }}{% else %}{{ ' ' + text | trim "
     "+ ' ' + eos_token }}{% endif %}{% endfor %}",
     "[{\"role\": \"user\", \"content\": \" one? \"}, {\"role\": \"assistant\""
     ", \"content\": \" 1\\n\"}, {\"role\": \"user\", \"content\": \"two?\"}, "
     "{\"role\": \"assistant\", \"content\": \"2\"}]",
     false, "<b>(one?) 1 <e><b>(two?) 2 <e>", "12"},
    {"turns that must alternate, a system text that goes into the first, trimm"
     "ed",
     "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set"
     " before = '<<' ~ messages[0].content ~ '>>' %}{% else %}{% set rest = me"
     "ssages %}{% set before = false %}{% endif %}{% for m in rest %}{% if (m."
     "role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns mu"
     "st alternate') }}{% endif %}{% set text = before + m.content if loop.ind"
     "ex0 == 0 and before != false else m.content %}{% if m.role == 'user' %}{"
     "{ bos_token + '(' + text.strip() + ')' }}{% else %}{{ ' ' + text | trim "
     "+ ' ' + eos_token }}{% endif %}{% endfor %}",
     "[{\"role\": \"system\", \"content\": \"short\"}, {\"role\": \"user\", \""
     "content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]",
     false, "<b>(<<short>>hi) ho <e>", "ho"},
    {"turns that must alternate, a system text that goes into the first, trimm"
     "ed",
     "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}{% set"
     " before = '<<' ~ messages[0].content ~ '>>' %}{% else %}{% set rest = me"
     "ssages %}{% set before = false %}{% endif %}{% for m in rest %}{% if (m."
     "role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns mu"
     "st alternate') }}{% endif %}{% set text = before + m.content if loop.ind"
     "ex0 == 0 and before != false else m.content %}{% if m.role == 'user' %}{"
     "{ bos_token + '(' + text.strip() + ')' }}{% else %}{{ ' ' + text | trim "
     "+ ' ' + eos_token }}{% endif %}{% endfor %}",
     "[{\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"c"
     "ontent\": \"y\"}]",
     false, NULL, ""},
    {"white space of tags and lines",
     "{# a note\n of two lines #}\nhead\n  {% for m in messages %}\n  <{{ m.ro"
     "le }}>\n    {%- if m.content %}\n {{- m.content -}}   \n{% endif %}\n  {"
     "%+ if loop.last %}last{% endif +%}\n  {% endfor %}\ntail\n\n",
     "[{\"role\": \"user\", \"content\": \" one? \"}, {\"role\": \"assistant\""
     ", \"content\": \" 1\\n\"}, {\"role\": \"user\", \"content\": \"two?\"}, "
     "{\"role\": \"assistant\", \"content\": \"2\"}]",
     false,
     "head\n  <user> one?   \n  <assistant> 1\n  \n  <user>two?  \n  <assistan"
     "t>2  last\ntail\n",
     " 1\n2"},
    {"a namespace, a loop backwards and parts of texts",
     "{%- set ns = namespace(last=0, n=messages|length) %}{%- for m in message"
     "s[::-1] %}{%- set i = ns.n - 1 - loop.index0 %}{%- if m.role == 'user' a"
     "nd ns.last == 0 and not m.content.startswith('#') %}{%- set ns.last = i "
     "%}{%- endif %}{%- endfor %}{{ ns.last }}:{% for m in messages %}{% set c"
     " = m.content %}{% if '</t>' in c %}{% set c = c.split('</t>')[-1].lstrip"
     "('\\n') %}{% endif %}{{ m.role[0] }}{{ c[-3:] if loop.index0 < ns.last e"
     "lse c }}{{ ';' if not loop.last }}{% endfor %}",
     "[{\"role\": \"user\", \"content\": \"abcdef\"}, {\"role\": \"assistant\""
     ", \"content\": \"<t>why</t>\\n\\nso it is\"}, {\"role\": \"user\", \"con"
     "tent\": \"#x\"}, {\"role\": \"assistant\", \"content\": \"<t></t>fin\"}]",
     false, "0:uabcdef;aso it is;u#x;afin", "so it isfin"},
    {"tests, filters, constants and names that are not there",
     "{{ tools is none }}{{ missing is defined }}{{ missing | default('d') }}{"
     "{ not missing and 1 == 1 or false }}{{ [1, 'a'] | length }}{{ 'x' in {'x"
     "': 2} }}{{ 7 // 2 }}{{ -7 % 3 }}{{ 2 * 3 - 1 }}{{ 'Ab' | upper | lower }"
     "}{{ [1, 2][1] if false else [1, 2][-1] }}{% for k, v in {'p': 1, 'q': 2}"
     ".items() if v > 1 %}{{ k ~ v }}{% else %}none{% endfor %}{% for x in [] "
     "%}{% else %}empty{% endfor %}{{ range(3) | join(',') }}{{ 'a-b'.replace("
     "'-', '+') }}{{ messages[0].get('name', 'nobody') }}{{ none }}{{ missing "
     "}}",
     "[{\"role\": \"system\", \"content\": \"short\"}, {\"role\": \"user\", \""
     "content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]",
     false, "TrueFalsedTrue2True325ab2q2empty0,1,2a+bnobodyNone", ""},
    {"loops have their own names",
     "{% set x = 1 %}{% for m in messages %}{% set x = 2 %}{{ x }}{% endfor %}"
     "{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
     "[{\"role\": \"system\", \"content\": \"short\"}, {\"role\": \"user\", \""
     "content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"ho\"}]",
     false, "22213", ""},
};

static const qn_chat_words words = {"<b>", "<e>"};

static qn_status render(qn_arena *arena, const char *jinja, const char *messages, bool asks,
                        qn_rendered *rendered) {
    cJSON *tree = cJSON_Parse(messages);
    *rendered = (qn_rendered){0};
    const qn_status status = qn_jinja_render(arena, jinja, tree, &words, asks, rendered);
    cJSON_Delete(tree);
    return status;
}

static void test_rows(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_arena arena;
        qn_rendered r;
        size_t n = 0;
        qn_arena_init(&arena, qn_allocator_default());
        const qn_status status = render(&arena, rows[i].jinja, rows[i].messages, rows[i].asks, &r);
        CHECK(status == (rows[i].written ? QN_OK : QN_ERROR_FORMAT));
        const bool is_same = !rows[i].written || (r.bytes == strlen(rows[i].written) &&
                                                  memcmp(r.text, rows[i].written, r.bytes) == 0);
        if (!is_same)
            fprintf(stderr, "%s: %.*s\n", rows[i].name, (int)r.bytes, r.text);
        CHECK(is_same);
        for (size_t k = 0; k < r.bytes; k++) {
            if (r.is_answer[k] && n < strlen(rows[i].answers))
                CHECK(r.text[k] == rows[i].answers[n]);
            n += r.is_answer[k];
        }
        CHECK(!rows[i].written || n == strlen(rows[i].answers));
        qn_arena_deinit(&arena);
    }
}

static void test_refused(void) {
    static const struct {
        const char *jinja, *message;
    } refused[] = {
        {"{% macro a() %}{% endmacro %}", "the statement \"macro\" is not known"},
        {"{{ strftime_now('%Y') }}", "the function strftime_now is not known"},
        {"{{ messages | tojson }}", "the filter tojson is not known"},
        {"{{ messages[0].content.title() }}", "the method title of a text is not known"},
        {"{{ messages }}", "it writes a list, a map or a fraction"},
        {"{{ missing.part }}", "a part of what is not defined"},
        {"{{ 1 / 0 }}", "}} is missing"},
        {"{{ 1 % 0 }}", "cannot be worked out"},
        {"{% if true %}", "an if has no endif"},
        {"a\n{% for m in messages %}", "line 2: a for has no endfor"},
        {"{% endif %}", "endif without a beginning"},
        {"{{ 'open", "a text has no end"},
        {"{# open", "a comment has no end"},
        {"{% for a in range(60000) %}{% for b in range(60000) %}{{ a }}{% endfor %}{% endfor %}",
         "it runs too long"},
        {"{{ ((((((((((((((((((((((((((((((((((((((((((((((((((1", "it is nested too deeply"},
        {"{% set a = [1, 2 %}", "] is missing"},
        {"{{ ''|default('x', boolean=true) }}", "an argument by its name, boolean"},
        {"{{ [messages, 'a']|join }}", "join of lists, maps or fractions"},
        {"{{ messages|string }}", "string of a list"},
        {"{{ 'h\xc3\xa9'[:2] }}", "a part of a text beyond ASCII"},
        {"{{ dict(messages) }}", "dict of a value without a name"},
        {"{% set n = namespace(a=[1, 1], b=[1, 1]) %}{% for i in range(40) %}{% set n.a = [n.a, "
         "n.a] "
         "%}{% set n.b = [n.b, n.b] %}{{ n.a == n.b }}{% endfor %}",
         "it runs too long"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        qn_arena arena;
        qn_rendered r;
        qn_arena_init(&arena, qn_allocator_default());
        CHECK(render(&arena, refused[i].jinja, "[{\"role\": \"user\", \"content\": \"x\"}]", false,
                     &r) != QN_OK);
        if (!strstr(qn_error_message(), refused[i].message))
            fprintf(stderr, "%s: %s\n", refused[i].jinja, qn_error_message());
        CHECK(strstr(qn_error_message(), refused[i].message));
        qn_arena_deinit(&arena);
    }
}

static void test_failures(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 3) {
        qn_status status = QN_ERROR_MEMORY;
        for (int64_t n = 0; status == QN_ERROR_MEMORY || status == QN_ERROR_FORMAT; n++) {
            failing heap = {.left = n};
            const qn_allocator a = {&heap, failing_allocate, failing_release};
            qn_arena arena;
            qn_rendered r;
            qn_arena_init(&arena, &a);
            status = render(&arena, rows[i].jinja, rows[i].messages, rows[i].asks, &r);
            qn_arena_deinit(&arena);
            CHECK(heap.held_bytes == 0);
            CHECK(status != QN_OK || r.bytes == strlen(rows[i].written));
            if (n > 2000)
                break;
        }
        CHECK(status == QN_OK);
    }
}

static void test_lines(void) {
    static const struct {
        const char *line, *message; /* null: it is right */
    } lines[] = {
        {"{\"text\": \"a\", \"id\": 3}", NULL},
        {"{\"prompt\": \"a\", \"completion\": \"b\"} ", NULL},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"b\"}]}", NULL},
        {"[1]", "it is no JSON object"},
        {"{\"text\": \"a\"} {\"text\": \"b\"}", "it is no JSON object"},
        {"{\"text\": \"a\"", "it is no JSON object"},
        {"{\"id\": 3}", "it has none of"},
        {"{\"text\": \"a\", \"messages\": []}", "it has two of"},
        {"{\"prompt\": \"a\"}", "not both there"},
        {"{\"text\": 3}", "\"text\" is no text"},
        {"{\"messages\": {}}", "is no list"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}", "there is no answer"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null}]}",
         "message 1 has no content"},
        {"{\"messages\": [{\"content\": \"b\"}]}", "message 1 has no role"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        qn_chat chat;
        const qn_status status =
            qn_chat_parse(lines[i].line, strlen(lines[i].line), "f.jsonl", 7, &chat);
        CHECK((status == QN_OK) == (lines[i].message == NULL));
        if (lines[i].message)
            CHECK(strstr(qn_error_message(), lines[i].message) &&
                  strstr(qn_error_message(), "f.jsonl, line 7"));
        else
            qn_chat_deinit(&chat);
    }
}

int main(void) {
    test_rows();
    test_refused();
    test_failures();
    test_lines();
    return checks_finish();
}
