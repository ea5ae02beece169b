/*
 * Results of measurements: tables for people while measuring, or one JSON document at the end.
 *
 * A document has sections, a section has rows, and a row is a JSON object. A section's columns define how the tables show the
 * members of its rows. Members without a column appear only in the JSON, except "note", a sentence below the table. Times are
 * in microseconds, rates of bytes in GB/s (1e9 bytes), sizes in bytes.
 */
#ifndef FRAMED_FRAMEBENCH_COMMON_RESULTS_H
#define FRAMED_FRAMEBENCH_COMMON_RESULTS_H

#include "tools/framectl/common/problem.h"
#include "tools/framectl/common/progress.h"

#include <jansson.h>
#include <stddef.h>

enum column_kind {
  COLUMN_TEXT,
  COLUMN_COUNT,     /* a whole number */
  COLUMN_SIZE,      /* bytes: "64 KiB" */
  COLUMN_TIME,      /* microseconds */
  COLUMN_BANDWIDTH, /* GB/s */
  COLUMN_RATE,      /* per second */
  COLUMN_RATIO
};

struct column {
  const char *key, *heading;
  enum column_kind kind;
};

struct section {
  const char *name;             /* in the JSON */
  const char *title;            /* printed over the table */
  const struct column *columns; /* ends with key NULL */
};

struct results;

/* Takes ownership of `machine`, an object that describes the machine. NULL without memory. */
struct results *results_new(const char *command, bool json, json_t *machine);
struct results *results_free(struct results *results); /* returns NULL */

/* Starts a section, and prints the previous one as a table. */
void results_section(struct results *results, const struct section *section);
/* Sets the number of rows that the current section will have, for the progress line of slow sections. */
void results_expect(struct results *results, size_t rows);
/* The progress line, for work that takes longer than one row. */
struct progress *results_progress(struct results *results);
/* Adds `row` to the current section, which becomes its owner. */
void results_row(struct results *results, json_t *row);
/* The rows of an earlier section, which the document owns. NULL if there is no such section. */
const json_t *results_rows(const struct results *results, const char *section);
/* Sets a member of the document beside its sections. Takes ownership of `value`. */
void results_set(struct results *results, const char *key, json_t *value);
/* Prints everything that is not printed yet. */
bool results_finish(struct results *results, struct problem *problem);

/* Writes "64 KiB", "4 MiB", "6220800 B". Returns text. */
enum { RESULTS_TEXT = 32 };
const char *results_size(char text[RESULTS_TEXT], size_t bytes);

#endif
