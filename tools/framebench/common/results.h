/*
 * What was measured, as a table for people while it is measured, or as one JSON document at the end.
 *
 * A document has sections, a section has rows, a row is a JSON object. A section's columns say how people see the
 * members of its rows; members without a column are in the JSON only, but for "note", a sentence that people get below the
 * table. Times are in microseconds, rates of bytes in GB/s (1e9 bytes), sizes in bytes.
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
  COLUMN_RATE,      /* a second */
  COLUMN_RATIO
};

struct column {
  const char *key, *heading;
  enum column_kind kind;
};

struct section {
  const char *name;             /* in the JSON */
  const char *title;            /* for people, over the table */
  const struct column *columns; /* ends with key NULL */
};

struct results;

/* `machine` is taken: an object that describes where this was measured. NULL without memory. */
struct results *results_new(const char *command, bool json, json_t *machine);
struct results *results_free(struct results *results); /* returns NULL */

/* Starts a section; the one before is printed, if people read along. */
void results_section(struct results *results, const struct section *section);
/* How many rows the section last started will have, if that is known and takes long: for who waits for them. */
void results_expect(struct results *results, size_t rows);
/* For what takes longer than a row of its own. */
struct progress *results_progress(struct results *results);
/* Adds a row (taken) to the section last started. */
void results_row(struct results *results, json_t *row);
/* The rows of a section that was started before; borrowed. NULL if there was none of that name. */
const json_t *results_rows(const struct results *results, const char *section);
/* Sets a member of the document beside its sections; `value` is taken. */
void results_set(struct results *results, const char *key, json_t *value);
/* Prints what has not been printed. */
bool results_finish(struct results *results, struct problem *problem);

/* "64 KiB", "4 MiB", "6220800 B". Returns text. */
enum { RESULTS_TEXT = 32 };
const char *results_size(char text[RESULTS_TEXT], size_t bytes);

#endif
