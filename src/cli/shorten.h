/* Names that are longer than their column. */
#ifndef CLI_SHORTEN_H
#define CLI_SHORTEN_H

/* Columns on a terminal: bytes that do not continue a UTF-8 sequence. */
unsigned text_width(const char *text);

/*
 * The text in at most `width` columns, to be freed. What tells names apart stays: parameters of a
 * C++ function go first, then arguments of its templates, and only then what is behind; of a
 * place in a file (file.c:12, file+0x1f0) the number stays.
 */
char *text_shortened(const char *text, unsigned width);

#endif
