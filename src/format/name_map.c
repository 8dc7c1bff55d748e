/* See name_map.h. */
#include "format/name_map.h"

#include "base/status.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RULES = 100000, MOST_DIGITS = 9 };

/* What a star of a pattern stood for. */
typedef struct span {
    const char *begin;
    size_t length;
} span;

/* ---- matching ---- */

/* Where a match that failed goes on: the last star takes a character more. No star before it need
 * take more, since the least that it can take leaves the most to those after it; but a dot ends a
 * single star, and then the last ** before it has to. */
typedef struct retry {
    const char *pattern, *name; /* null: none */
    int n;
} retry;

static bool is_double(const char *pattern) {
    return pattern[0] == '*' && pattern[1] == '*';
}

/* Begins a star at *name with its first character; false: there is none that it could take. */
static bool begin_star(const char **pattern, const char **name, span *spans, int *n, retry *single,
                       retry *any) {
    const bool takes_dots = is_double(*pattern);
    if (**name == 0 || (!takes_dots && **name == '.'))
        return false;
    *pattern += 1 + takes_dots;
    spans[*n] = (span){*name, 1};
    ++*n;
    ++*name;
    *(takes_dots ? any : single) = (retry){*pattern, *name, *n};
    if (takes_dots)
        single->pattern = NULL;
    return true;
}

/* Lets the last star that can take a character more. */
static bool go_back(const char **pattern, const char **name, span *spans, int *n, retry *single,
                    retry *any) {
    if (single->pattern && (*single->name == 0 || *single->name == '.'))
        single->pattern = NULL;
    retry *r = single->pattern ? single : any;
    if (!r->pattern || *r->name == 0)
        return false;
    r->name++;
    *n = r->n;
    spans[*n - 1].length = (size_t)(r->name - spans[*n - 1].begin);
    *pattern = r->pattern;
    *name = r->name;
    return true;
}

/* Whether a name has a pattern's form; spans get what its stars stand for. */
static bool match(const char *pattern, const char *name, span spans[QN_MAP_CAPTURES]) {
    retry single = {NULL, NULL, 0}, any = {NULL, NULL, 0};
    int n = 0;
    while (*pattern || *name) {
        if (*pattern == '*' && begin_star(&pattern, &name, spans, &n, &single, &any))
            continue;
        if (*pattern && *pattern != '*' && *pattern == *name) {
            pattern++;
            name++;
            continue;
        }
        if (!go_back(&pattern, &name, spans, &n, &single, &any))
            return false;
    }
    return true;
}

/* ---- making names ---- */

/* A text that is filled up to its size; false: it would be longer. */
static bool put(char to[QN_MAP_NAME], size_t *used, const char *text, size_t length) {
    if (length >= QN_MAP_NAME - *used)
        return false;
    memcpy(to + *used, text, length);
    *used += length;
    to[*used] = 0;
    return true;
}

/* A reference "{2+1}": its star from 0, what is added, and what follows it; false: it is none. */
static bool parse_reference(const char *text, int *star, int *more, const char **end) {
    if (text[0] != '{' || text[1] < '1' || text[1] > '9')
        return false;
    *star = text[1] - '1';
    *more = 0;
    text += 2;
    if ((text[0] == '+' || text[0] == '-') && text[1] >= '0' && text[1] <= '9') {
        *more = (text[0] == '+' ? 1 : -1) * (text[1] - '0');
        text += 2;
    }
    *end = text + 1;
    return *text == '}';
}

/* The number that a span is; false: it is none. */
static bool get_number(span s, int64_t *number) {
    *number = 0;
    for (size_t i = 0; i < s.length; i++) {
        if (s.begin[i] < '0' || s.begin[i] > '9' || i == MOST_DIGITS)
            return false;
        *number = 10 * *number + (s.begin[i] - '0');
    }
    return s.length > 0;
}

typedef enum outcome { MADE, NO_NUMBER, TOO_LONG } outcome;

static outcome make_name(const char *pattern, const span *spans, char to[QN_MAP_NAME]) {
    size_t used = 0;
    to[0] = 0;
    while (*pattern) {
        int star, more;
        const char *end;
        char digits[24];
        int64_t number;
        if (!parse_reference(pattern, &star, &more, &end)) {
            if (!put(to, &used, pattern++, 1))
                return TOO_LONG;
            continue;
        }
        pattern = end;
        span s = spans[star];
        if (more != 0) {
            if (!get_number(s, &number) || number + more < 0)
                return NO_NUMBER;
            snprintf(digits, sizeof digits, "%lld", (long long)(number + more));
            s = (span){digits, strlen(digits)};
        }
        if (!put(to, &used, s.begin, s.length))
            return TOO_LONG;
    }
    return MADE;
}

qn_status qn_name_map_apply(const qn_name_map *map, const char *name, char to[QN_MAP_NAME],
                            const qn_map_rule **rule) {
    char made[QN_MAP_NAME];
    const size_t length = strlen(name);
    *rule = NULL;
    if (length >= QN_MAP_NAME)
        return qn_fail(QN_ERROR_FORMAT, "the name %.60s... is too long", name);
    memcpy(to, name, length + 1);
    for (size_t i = 0; i < map->n_rules; i++) {
        const qn_map_rule *r = &map->rules[i];
        span spans[QN_MAP_CAPTURES];
        if (!match(r->from, to, spans))
            continue;
        const outcome result = make_name(r->to, spans, made);
        if (result == NO_NUMBER)
            continue;
        if (result == TOO_LONG)
            return qn_fail(QN_ERROR_FORMAT,
                           "row %d of the map makes a name of %.60s that is too "
                           "long",
                           r->line, to);
        memcpy(to, made, sizeof made);
        if (!*rule || r->layout != QN_LAYOUT_BY_SHAPE || (*rule)->layout == QN_LAYOUT_BY_SHAPE)
            *rule = r;
        if (!*to)
            break;
    }
    return QN_OK;
}

/* ---- reading ---- */

static int count_stars(const char *pattern) {
    int n = 0;
    for (; *pattern; pattern++) {
        if (*pattern == '*') {
            n++;
            pattern += is_double(pattern);
        }
    }
    return n;
}

/* "{" in to begins a reference to a star that there is; to has no stars. */
static bool are_references_good(const char *to, int n_stars) {
    int star, more;
    const char *end;
    for (; *to; to++) {
        if (*to == '*')
            return false;
        if (*to == '{' && (!parse_reference(to, &star, &more, &end) || star >= n_stars))
            return false;
    }
    return true;
}

static bool parse_layout(const char *text, qn_map_rule *rule) {
    static const struct {
        const char *text;
        qn_map_layout layout;
    } words[] = {{"", QN_LAYOUT_BY_SHAPE},
                 {"same", QN_LAYOUT_SAME},
                 {"swap", QN_LAYOUT_SWAPPED},
                 {"add", QN_LAYOUT_ADDED}};
    qn_shape shape;
    int part, parts, end = 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].text, text) == 0) {
            rule->layout = words[i].layout;
            return true;
        }
    }
    if (qn_shape_parse(text, &shape) && shape.rank == 3) {
        rule->layout = QN_LAYOUT_IMAGE;
        memcpy(rule->numbers, shape.dims, sizeof rule->numbers);
        return true;
    }
    if (strlen(text) > 2 * MOST_DIGITS || sscanf(text, "%9d/%9d%n", &part, &parts, &end) != 2 ||
        text[end])
        return false;
    rule->layout = QN_LAYOUT_PART;
    rule->numbers[0] = part;
    rule->numbers[1] = parts;
    return part >= 0 && part < parts && parts <= 64;
}

/* The fields of a line, blanks around them aside; what is left of it is in the last. */
static int split(char *line, char *fields[4]) {
    int n = 0;
    for (char *at = line; at && n < 4; n++) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = 0;
        at += strspn(at, " \t");
        size_t length = strlen(at);
        while (length > 0 && strchr(" \t\r", at[length - 1]))
            at[--length] = 0;
        fields[n] = at;
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

static qn_status refuse(const char *place, int line, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s:%d: %s", place, line, what);
}

static qn_status add_rule(qn_name_map *map, const char *place, int line, int n, char *fields[4]) {
    qn_map_rule rule = {.from = fields[0], .line = line};
    if (n < 2 || n > 3)
        return refuse(place, line, "a row is from,to or from,to,layout");
    rule.to = fields[1];
    const int n_stars = count_stars(rule.from);
    if (!*rule.from)
        return refuse(place, line, "from is empty");
    if (n_stars > QN_MAP_CAPTURES)
        return refuse(place, line, "more than nine stars");
    if (!are_references_good(rule.to, n_stars))
        return refuse(place, line,
                      "to has no stars, but {1}, {2+1}, for what the stars of from stood for");
    if (!parse_layout(n == 3 ? fields[2] : "", &rule))
        return refuse(place, line, "layout is same, swap, add, CxHxW or i/n (part i of n, from 0)");
    if (map->n_rules == MOST_RULES)
        return refuse(place, line, "too many rows");
    QN_TRY(qn_grow(map->allocator, &map->rules, &map->capacity, map->n_rules + 1, sizeof rule));
    map->rules[map->n_rules++] = rule;
    return QN_OK;
}

static qn_status parse_line(qn_name_map *map, const char *place, int line, char *text) {
    char *fields[4];
    const char *bad = strpbrk(text, "\"\t");
    if (bad && *bad == '"')
        return refuse(place, line, "names are not quoted");
    const int n = split(text, fields);
    const bool is_header = line == 1 && strcmp(fields[0], "from") == 0;
    if (is_header || fields[0][0] == '#' || (n == 1 && !*fields[0]))
        return QN_OK;
    return add_rule(map, place, line, n, fields);
}

void qn_name_map_init(qn_name_map *map, const qn_allocator *allocator) {
    *map = (qn_name_map){.allocator = qn_allocator_or_default(allocator)};
    qn_arena_init(&map->texts, map->allocator);
}

void qn_name_map_deinit(qn_name_map *map) {
    qn_release(map->allocator, map->rules, map->capacity, sizeof *map->rules);
    qn_arena_deinit(&map->texts);
}

qn_status qn_name_map_parse(qn_name_map *map, const char *place, const char *text, size_t bytes) {
    char *copy = qn_arena_allocate(&map->texts, bytes + 1, 1);
    int line = 1;
    if (!copy)
        return QN_ERROR_MEMORY;
    memcpy(copy, text, bytes);
    if (memchr(copy, 0, bytes))
        return refuse(place, 1, "a byte 0: it is no text");
    if (strncmp(copy, "\xef\xbb\xbf", 3) == 0)
        copy += 3;
    for (; *copy; line++) {
        char *end = strchr(copy, '\n');
        if (end)
            *end = 0;
        QN_TRY(parse_line(map, place, line, copy));
        if (!end)
            break;
        copy = end + 1;
    }
    return QN_OK;
}
