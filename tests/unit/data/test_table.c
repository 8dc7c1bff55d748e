/* Values of table fields: what is missing, numbers with both decimal marks, truths, dates; and
 * encodings of files. */
#include "check.h"
#include "data/table/encoding.h"
#include "data/table/values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_missing(void) {
    static const char *const missing[] = {"", "NA", "n/a", "NaN", "null", "NULL", "#N/A", "<NA>"};
    static const char *const words[] = {"0", "nah", "nano", "nulls", "-", "a"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        CHECK(qn_value_is_missing(missing[i], false) && qn_value_is_missing(missing[i], true));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK(!qn_value_is_missing(words[i], false));
    CHECK(qn_value_is_missing("None", false) && !qn_value_is_missing("None", true));
    CHECK(qn_value_is_missing("-inf", false) && !qn_value_is_missing("?", true));
}

static void test_numbers(void) {
    static const struct {
        const char *text;
        char decimal;
        double value; /* NaN: none */
        qn_number_marks marks;
    } cases[] = {
        {"1.5", '.', 1.5, QN_MARKS_POINT},
        {"-1,5", ',', -1.5, QN_MARKS_COMMA},
        {"1,5", '.', NAN, QN_MARKS_COMMA},
        {"1.5", ',', NAN, QN_MARKS_POINT},
        {"1,234", '.', 1234, QN_MARKS_COMMA_OR_GROUP},
        {"1,234", ',', 1.234, QN_MARKS_COMMA_OR_GROUP},
        {"1.234", ',', 1234, QN_MARKS_POINT_OR_GROUP},
        {"0,125", ',', 0.125, QN_MARKS_COMMA},
        {"1,234,567", '.', 1234567, QN_MARKS_POINT},
        {"1.234.567,5", ',', 1234567.5, QN_MARKS_COMMA},
        {"1,234.5", '.', 1234.5, QN_MARKS_POINT},
        {"12,34,567", '.', NAN, QN_MARKS_NONE},
        {"1.2.3", '.', NAN, QN_MARKS_NONE},
        {"1e3", ',', 1000, QN_MARKS_NONE},
        {"7", '.', 7, QN_MARKS_NONE},
        {",", ',', NAN, QN_MARKS_NONE},
        {"a,b", '.', NAN, QN_MARKS_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value = NAN;
        const bool is_number = qn_value_number(cases[i].text, cases[i].decimal, &value);
        CHECK(is_number == !isnan(cases[i].value));
        CHECK(!is_number || fabs(value - cases[i].value) < 1e-9);
        CHECK(qn_value_marks(cases[i].text) == cases[i].marks);
    }
}

static void test_truths(void) {
    double value;
    CHECK(qn_value_truth("TRUE", &value) && value == 1);
    CHECK(qn_value_truth("no", &value) && value == 0);
    CHECK(!qn_value_truth("maybe", &value) && !qn_value_truth("1", &value));
}

/* Days since 2000-01-01; below -1e6: no date. */
static double days_of(const char *text, bool day_first) {
    qn_value_day day;
    return qn_value_date(text, day_first, &day) ? day.days : -2e6;
}

static void test_dates(void) {
    qn_value_day day;
    CHECK(days_of("2000-01-01", true) == 0 && days_of("1970/01/01", true) == -10957);
    CHECK(days_of("31.12.1999", true) == -1 && days_of("2024-02-29", true) == 8825);
    CHECK(days_of("2023-02-29", true) < -1e6 && days_of("1900-02-29", true) < -1e6);
    CHECK(days_of("01/02/2024", true) == days_of("2024-02-01", true));
    CHECK(days_of("01/02/2024", false) == days_of("2024-01-02", true));
    CHECK(days_of("2000-01-01T12:00:00Z", true) == 0.5);
    CHECK(days_of("2000-01-01 06:00", true) == 0.25);
    CHECK(days_of("2000-01-01 24:00", true) < -1e6 && days_of("2000-01-01 6", true) < -1e6);
    CHECK(days_of("1.5.24", true) < -1e6 && days_of("2000-1/1", true) < -1e6);
    CHECK(days_of("192.168.0.1", true) < -1e6 && days_of("12-34-5678", true) < -1e6);
    CHECK(qn_value_date("13/02/2024", false, &day) && day.is_day_first && !day.has_either_order);
    CHECK(qn_value_date("02/13/2024", true, &day) && day.is_month_first);
    CHECK(qn_value_date("02/03/2024", true, &day) && day.has_either_order && !day.has_time);
    CHECK(qn_value_date("03/03/2024", true, &day) && !day.has_either_order);
    CHECK(qn_value_date("2024-03-03T10:30:15.25+02:00", true, &day) && day.has_time);
}

/* Writes bytes, and reads them as UTF-8. */
static void check_encoding(const char *bytes, size_t n, qn_encoding wanted, const char *text) {
    char path[] = "/tmp/quern-test-table-XXXXXX", read[64];
    const int descriptor = mkstemp(path);
    qn_encoding found;
    qn_file *file;
    size_t used = 0, n_now = 1;
    CHECK(descriptor >= 0 && write(descriptor, bytes, n) == (ssize_t)n);
    CHECK_OK(qn_file_open(NULL, path, &file));
    CHECK_OK(qn_encoding_find(file, &found));
    CHECK(found == wanted);
    qn_decoder decoder = {file, found, 0};
    while (found != QN_ENCODING_UTF8 && n_now > 0) {
        CHECK_OK(qn_decoder_more(&decoder, read + used, sizeof read - used, &n_now));
        used += n_now;
    }
    CHECK(found == QN_ENCODING_UTF8 || (used == strlen(text) && memcmp(read, text, used) == 0));
    qn_file_close(file);
    close(descriptor);
    unlink(path);
}

static void test_encodings(void) {
    check_encoding("a,gr\xc3\xbc", 6, QN_ENCODING_UTF8, "");
    check_encoding("a,gr\xfc\n", 6, QN_ENCODING_LATIN1, "a,gr\xc3\xbc\n");
    check_encoding("\x80\x93", 2, QN_ENCODING_LATIN1, "\xe2\x82\xac\xe2\x80\x9c");
    check_encoding("abc\xc3", 4, QN_ENCODING_LATIN1, "abc\xc3\x83");
    check_encoding("\xed\xa0\x80", 3, QN_ENCODING_LATIN1, "\xc3\xad\xc2\xa0\xe2\x82\xac");
    check_encoding("\xff\xfe\x61\x00\x3d\xd8\x00\xde", 8, QN_ENCODING_UTF16_LE,
                   "\xef\xbb\xbf\x61\xf0\x9f\x98\x80");
    check_encoding("\x00\x61\x00,\x00\x62\xd8\x3d", 8, QN_ENCODING_UTF16_BE, "a,b\xef\xbf\xbd");
    check_encoding("a\x00,\x00"
                   "b\x00\x31",
                   7, QN_ENCODING_UTF16_LE, "a,b\xef\xbf\xbd");
}

int main(void) {
    test_missing();
    test_numbers();
    test_truths();
    test_dates();
    test_encodings();
    return checks_finish();
}
