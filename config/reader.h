/*
 * From nodes to the configuration, by the table of keys. Reading goes on behind an error, so that one report holds
 * them all; what a reader function could not read keeps its default.
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
  const char *example;  /* of the hooks */
  const char *pipeline; /* name of the one that is read, or NULL; */
  const char *model;    /* the same of a model */
  bool sound;           /* the file that is read had no error as YAML, so that nothing in it is missing by mistake */
  bool saw_pipelines;   /* some file has the key, if only to say that there are none */
  bool *valid;          /* a flag for each pipeline: no error in it alone */
};

/* Sets every default. False if there is no memory. */
bool reader_set_defaults(struct reader *reader);
/* Reads one file into the configuration, over what earlier files said. */
void reader_read_file(struct reader *reader, const struct node *root);

/* values.c: reads one value into `target`, which is the key's place in its structure. */
void value_read(struct reader *reader, const struct config_key *key, const struct node *node, void *target);

/* plain.c: "a list", "an empty value", "'abc'" in `text`. */
const char *value_describe(const struct node *node, char text[READER_WHERE]);
/* Adds the error "'NAME' must be EXPECTED, not ..."; `remedy` may be NULL. */
void value_expect(struct reader *reader, const char *name, const struct node *node, const char *remedy, const char *expected);
/* A text that YAML takes for a text, too. */
bool value_is_text(const struct node *node);
/* A number of a stage's parameter; false if an error was added. */
bool value_read_number(struct reader *reader, const char *name, const struct node *node, bool whole, double *number);

/* A text that YAML takes for one, copied; NULL if an error was added. */
char *value_read_text(struct reader *reader, const char *name, const struct node *node);
/* The same of a file's path; one that is relative begins at the folder of the file that the node stands in. */
char *value_read_path(struct reader *reader, const char *name, const struct node *node);

/* Index of the word in a NULL terminated list; false if an error was added. */
bool value_read_word(struct reader *reader, const char *name, const struct node *node, const char *const *words,
                     const char *remedy, unsigned *index);

/* accounts.c: as value_read(), for keys of these types. */
void value_read_user(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_group(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_users(struct reader *reader, const struct config_key *key, const struct node *node, void *target);
void value_read_groups(struct reader *reader, const struct config_key *key, const struct node *node, void *target);

/* stages.c: reads the list of stages of a pipeline. */
void stages_read(struct reader *reader, const struct node *list, struct config_pipeline *pipeline);

/* models.c: reads the shapes of a model. */
void models_read_shapes(struct reader *reader, const struct config_key *key, const struct node *node,
                        struct config_model *model);
/* Adds a model of that name (NULL: none) with the defaults of a stage's own; NULL if an error was added. */
struct config_model *models_add(struct reader *reader, const char *name, struct config_mark at);
/* NULL: there is none of that name. */
struct config_model *models_find(const struct config *config, const char *name);
/* After the last file: finds the model of each stage that runs one. Stages that name a file add a model with the defaults. */
void models_resolve(struct reader *reader);

/* validate.c: what keys of one pipeline mean for each other; `node` is its mapping. False if an error was added. */
bool validate_pipeline(struct reader *reader, const struct node *node, const struct config_pipeline *pipeline);
/* What pipelines mean for each other, after the last file. */
void validate_config(struct reader *reader);

#endif
