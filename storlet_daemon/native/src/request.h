/* request.c for objects.c and listing.c: the fields of a request, its answer and its failure. */
#ifndef STORLET_REQUEST_H
#define STORLET_REQUEST_H

#include "services.h"

/* Give a failure to the storlet, whose structure may be an older one. Returns -1. */
int give_failure(struct storlet_error *error, const struct storlet_error *failure);
/* Returns false. */
bool explain_no_memory(struct storlet_error *failure);

/* The fields of a request are a JSON object; with a wrong argument they become a text that says so,
 * and without memory NULL. */
void fields_refuse(json_t **fields, const char *key, const char *what);
/* Add a value, which is given away. */
void fields_put(json_t **fields, const char *key, json_t *value);
void fields_put_text(json_t **fields, const char *key, const char *text);
/* A text that must have a character: the store ends a run whose requests are not valid. */
void fields_put_name(json_t **fields, const char *key, const char *text);
/* A text that is left out if it has no character. */
void fields_put_if_any(json_t **fields, const char *key, const char *text);
void fields_put_texts(json_t **fields, const char *key, const struct storlet_field *given,
                      size_t count);

/* As services_ask, with fields that may be a fault, and with the data of a call. */
bool store_ask(struct request *request, const char *operation, json_t *fields,
               struct storlet_error *failure);
/* A request whose answer is that it was performed. Returns 0 or -1. */
int store_perform(struct storlet_run *run, const char *operation, json_t *fields,
                  struct storlet_error *error);

/* listing.c: the function of storlet.h */
int list_container(struct storlet_run *run, const char *container,
                   const struct storlet_query *query,
                   int (*each)(void *context, const struct storlet_entry *entry), void *context,
                   struct storlet_error *error);

#endif
