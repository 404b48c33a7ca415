/* Shortens names that are longer than their column. */
#ifndef CLI_SHORTEN_H
#define CLI_SHORTEN_H

/* Columns on a terminal: bytes that do not continue a UTF-8 sequence. */
unsigned text_width(const char *text);

/*
 * The text in at most `width` columns, to be freed. What distinguishes names stays: parameters of a
 * C++ function are dropped first, then template arguments, and only then the end; the number in a
 * place in a file (file.c:12, file+0x1f0) stays.
 */
char *text_shortened(const char *text, unsigned width);

#endif
