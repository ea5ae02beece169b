/*
 * Reads nodes into the configuration, by the table of keys. Reading continues after an error, so that one report has all
 * errors. A value that cannot be read keeps its default.
 */
#ifndef FRAMED_CONFIG_READER_H
#define FRAMED_CONFIG_READER_H

#include "config/config.h"
#include "config/keys.h"
#include "config/yaml.h"

enum { READER_WHERE = 128 };

struct reader {
  struct config *config;
  const struct config_vocabulary *vocabulary;
  struct config_errors *errors;
  const char *example;  /* from the hooks */
  const char *pipeline; /* the name of the current pipeline, or NULL */
  const char *model;    /* the name of the current model, or NULL */
  bool sound;           /* the current file is valid YAML, so a missing key is really missing */
  bool saw_pipelines;   /* some file has the key, even if it is empty */
  bool *valid;          /* a flag for each pipeline: it has no error by itself */
};

/* Sets every default. False if there is no memory. */
bool reader_set_defaults(struct reader *reader);
/* Reads a file into the configuration, and overrides values of earlier files. */
void reader_read_file(struct reader *reader, const struct node *root);

/* values.c: reads a value into `target`, the key's place in its structure. */
void value_read(struct reader *reader, const struct config_key *key, const struct node *node, void *target);

/* plain.c: writes "a list", "an empty value" or "'abc'" to `text`. */
const char *value_describe(const struct node *node, char text[READER_WHERE]);
/* Adds the error "'NAME' must be EXPECTED, not ..."; `remedy` may be NULL. */
void value_expect(struct reader *reader, const char *name, const struct node *node, const char *remedy, const char *expected);
/* Whether YAML also treats the node as a text. */
bool value_is_text(const struct node *node);
/* Reads a number of a stage's parameter. False if an error was added. */
bool value_read_number(struct reader *reader, const char *name, const struct node *node, bool whole, double *number);

/* A copy of a node that YAML also treats as a text. NULL if an error was added. */
char *value_read_text(struct reader *reader, const char *name, const struct node *node);
/* A copy of a file's path. A relative path becomes relative to the folder of the node's file. NULL if an error was added. */
char *value_read_path(struct reader *reader, const char *name, const struct node *node);

/* The index of the word in a NULL terminated list. False if an error was added. */
bool value_read_word(struct reader *reader, const char *name, const struct node *node, const char *const *words,
                     const char *remedy, unsigned *index);

/* accounts.c: like value_read(), for keys of these types. */
void value_read_user(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_group(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_users(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_groups(struct reader *reader, const struct config_key *key, const struct node *node, void *target);

/* stages.c: reads the list of stages of a pipeline. */
void stages_read(struct reader *reader, const struct node *list, struct config_pipeline *pipeline);

/* models.c: reads the shapes of a model. */
void models_read_shapes(struct reader *reader, const struct config_key *key, const struct node *node,
                        struct config_model *model);
/* Adds a model of that name (NULL: none), with the defaults of a stage's own model. NULL if an error was added. */
struct config_model *models_add(struct reader *reader, const char *name, struct config_mark at);
/* NULL if there is no model of that name. */
struct config_model *models_find(const struct config *config, const char *name);
/*
 * After the last file: finds the model of each stage that runs one. A stage that names a file adds a model with the defaults.
 */
void models_resolve(struct reader *reader);

/* validate.c: checks combinations of keys in one pipeline; `node` is its mapping. False if an error was added. */
bool validate_pipeline(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline);
/* Checks combinations of pipelines, after the last file. */
void validate_config(struct reader *reader);

#endif
