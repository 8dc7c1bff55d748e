/* Reading and printing numbers: equal to those of the C library in the C locale, digit for digit
 * and bit for bit, also halfway between two doubles; the same under the locale that the environment
 * names (tests/cli/test_locale.py). */
#include "base/decimal.h"
#include "base/print.h"
#include "base/text.h"
#include "check.h"

#include <locale.h>
#include <stdlib.h>

enum { DRAWS = 20000, TEXT = 2400 };

static uint64_t drawn;

static uint64_t draw(void) {
    drawn += 0x9E3779B97F4A7C15u;
    uint64_t x = drawn;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* All kinds: any bits, subnormal ones, few decimals, floats, small binary fractions. */
static double draw_number(int i) {
    uint64_t bits = draw();
    if (i % 5 == 1)
        return (double)(int64_t)(bits % 2000001) / 1000 - 1000;
    if (i % 5 == 2)
        return (float)((double)(bits >> 40) * 0x1p-24);
    if (i % 5 == 3)
        return (double)(bits % 1000) / 8;
    bits &= i % 25 == 4 ? 0x800FFFFFFFFFFFFFu : UINT64_MAX;
    double value;
    memcpy(&value, &bits, sizeof value);
    return isfinite(value) ? value : 0;
}

/* ---- against the C library ---- */

#define CHECK_PRINTS(...)                                                                          \
    do {                                                                                           \
        static char theirs[TEXT], own[TEXT];                                                       \
        const int length = snprintf(theirs, TEXT, __VA_ARGS__);                                    \
        CHECK(qn_print(own, TEXT, __VA_ARGS__) == length && strcmp(own, theirs) == 0);             \
    } while (0)

static void check_reads(const char *text) {
    char *end, *own_end;
    const double wanted = strtod(text, &end), value = qn_decimal_read(text, &own_end);
    const bool is_same = memcmp(&wanted, &value, sizeof value) == 0 && end == own_end;
    CHECK(is_same);
    if (!is_same)
        printf("%s is %a, not %a\n", text, wanted, value);
}

static void check_prints(double x) {
    const int precision = (int)(draw() % 22), width = (int)(draw() % 30);
    CHECK_PRINTS("%g %.17g", x, x);
    CHECK_PRINTS("%.*f", precision, x);
    CHECK_PRINTS("%.*e", precision, x);
    CHECK_PRINTS("%.*g", precision, x);
    CHECK_PRINTS("%+*.*f|%-*.*E|%0*.*G", width, precision, x, width, precision, x, width, precision,
                 x);
    CHECK_PRINTS("% .1f %#.0f %#.0e %.0f", x, x, x, x);
}

/* With few digits, with all, in the middle to the next double and beside it. */
static void check_number(double x) {
    static char text[TEXT];
    snprintf(text, sizeof text, "%.*e", (int)(draw() % 20), x);
    check_reads(text);
    snprintf(text, sizeof text, "%.800g", x);
    check_reads(text);
    snprintf(text, sizeof text, "%llu%llue%d", (unsigned long long)draw(),
             (unsigned long long)draw(), (int)(draw() % 700) - 370);
    check_reads(text);
    const double size = fabs(x), next = nextafter(size, (double)INFINITY);
    const long double middle = ((long double)size + (long double)next) / 2;
    if (!isfinite(next) || sizeof middle == sizeof size)
        return;
    snprintf(text, sizeof text, "%.1100Lg", middle);
    check_reads(text);
    const size_t n = strlen(text);
    if (!strchr(text, 'e') && strchr(text, '.') && n < TEXT - 40) {
        strcpy(text + n, "00000000000000000000000000000001");
        check_reads(text);
    }
}

static void test_against_libc(void) {
    const int n_draws = getenv("QUERN_ALL") ? 100 * DRAWS : DRAWS;
    for (int i = 0; i < n_draws; i++) {
        const double x = draw_number(i);
        check_prints(x);
        check_number(x);
    }
}

static void test_edges(void) {
    static const char *const texts[] = {"",
                                        "-",
                                        "e5",
                                        ".",
                                        "-.",
                                        "1.",
                                        "-.5",
                                        "1e",
                                        "1e+",
                                        "1e5x",
                                        "inf",
                                        "-Infinity",
                                        "INFx",
                                        "infin",
                                        " \n12",
                                        "1e400",
                                        "1e-400",
                                        "4.9e-324",
                                        "2.4703282292062327e-324",
                                        "2.4703282292062328e-324",
                                        "1.7976931348623158e308",
                                        "1.7976931348623159e308",
                                        "0e99999",
                                        "1e99999999999",
                                        "9007199254740993",
                                        "9007199254740992.9999999999999999999999999999999",
                                        "--1",
                                        "1..2",
                                        "1,5"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_reads(texts[i]);
    static const char *const bad[] = {"", "x", "1x", "--1", ".", "e5", "nan", "inf", "0x10", "1 2"};
    double value;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!qn_decimal_parse(bad[i], &value));
    CHECK(qn_decimal_parse(" 3.25\t", &value) && value == 3.25);
    CHECK(isnan(qn_decimal_read("nan", NULL)) && qn_decimal_read("0x10", NULL) == 0);
    const double inf = (double)INFINITY;
    CHECK_PRINTS("%g %f %e %G %5g|%05g|%+g", inf, -inf, inf, inf, inf, -inf, inf);
    CHECK_PRINTS("%g %.0f %e %#g", 0.0, -0.0, 0.0, 0.0);
    CHECK_PRINTS("%.1000f|%.1f", 0.1, 1e308);
}

static void test_other_conversions(void) {
    char few[8];
    for (int i = 0; i < 2000; i++) {
        const long long k = (long long)draw() >> draw() % 64;
        CHECK_PRINTS("%lld|%d|%5d|%-8d|%08x|%#x|%zu|%+d|%.3d|%*d|%X|%o|%llu", k, (int)k, (int)k,
                     (int)k, (unsigned)k, (unsigned)k, (size_t)k, (int)k, (int)k, (int)(k % 17),
                     (int)k, (unsigned)k, (unsigned)k, (unsigned long long)k);
    }
    CHECK_PRINTS("%s|%.3s|%-9s|%9s|%.*s|%c|%3c|100 %%", "hello", "hello", "hello", "hello", 2,
                 "hello", 'x', 'y');
    CHECK_PRINTS("%p|%.0d|%hhd|%hu|%ld|%jd|%td", (void *)few, 0, 7, (unsigned short)9, -3L,
                 (intmax_t)-4, (ptrdiff_t)5);
    CHECK(qn_print(few, sizeof few, "%s", "too long for it") == 15 && strcmp(few, "too lon") == 0);
    CHECK(qn_print(NULL, 0, "%d%g", 12, 0.5) == 5);
}

static void test_letters(void) {
    CHECK(qn_text_is_same("DIGITS.Zip", "digits.zIP") && !qn_text_is_same("a", "ab") &&
          !qn_text_is_same("ab", "a") && qn_text_is_same("", ""));
    CHECK(qn_text_holds("Mali-GPU-thermal", "gpu") && !qn_text_holds("gp", "gpu") &&
          qn_text_holds("x86_pkg_TEMP", "x86_PKG"));
    CHECK(qn_text_is_letter('I') && !qn_text_is_letter('\xE4') && !qn_text_is_space('\xA0'));
}

/* Under the locale that the environment names, which writes a comma, numbers have a point. */
static void test_locale(void) {
    char theirs[16], own[16];
    const bool is_set = setlocale(LC_ALL, "") != NULL;
    snprintf(theirs, sizeof theirs, "%g", 0.5);
    if (!getenv("QUERN_LOCALE_HAS_COMMA"))
        return;
    CHECK(is_set && strcmp(theirs, "0,5") == 0);
    qn_print(own, sizeof own, "%g", 0.5);
    CHECK(strcmp(own, "0.5") == 0 && qn_decimal_read("0.5", NULL) == 0.5);
    char *end;
    CHECK(qn_decimal_read("1,5", &end) == 1 && *end == ',');
    test_letters();
}

int main(void) {
    test_against_libc();
    test_edges();
    test_other_conversions();
    test_letters();
    test_locale();
    return checks_finish();
}
