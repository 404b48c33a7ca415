/* A few hundred samples, and not much else. */
int main(void)
{
    volatile int sum = 0;
    for (int i = 0; i < 20000; i++)
        sum += i;
    return 0;
}
