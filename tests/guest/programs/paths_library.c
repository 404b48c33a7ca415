/* A library that is opened at run time: calls within it go through its table, bound at the first.
 */
void step_library(void (*leaf)(void), void (*enter)(const char *), void (*leave)(void));
void step_inner(void (*leaf)(void), void (*enter)(const char *), void (*leave)(void));

__attribute__((noinline, noclone)) void step_inner(void (*leaf)(void), void (*enter)(const char *),
                                                   void (*leave)(void))
{
    enter("step_inner");
    leaf();
    leave();
}

__attribute__((noinline, noclone)) void
step_library(void (*leaf)(void), void (*enter)(const char *), void (*leave)(void))
{
    enter("step_library");
    step_inner(leaf, enter, leave); /* through the procedure linkage table */
    step_inner(leaf, enter, leave);
    leave();
}
