// Calls of several kinds: recursion, methods through interfaces, closures, deferred ones, a map, sorting.
package main

import (
	"fmt"
	"sort"
	"strings"
)

type shape interface{ area(n int) int }
type square struct{ side int }
type sum struct{ parts []shape }

//go:noinline
func (s square) area(n int) int { return s.side*s.side + n }

//go:noinline
func (s sum) area(n int) int {
	total := 0
	for _, p := range s.parts {
		total += p.area(n)
	}
	return total
}

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func deferred(f func() int) (n int) {
	defer func() { n += f() }()
	return f()
}

func main() {
	shapes := sum{}
	for i := 0; i < 50; i++ {
		shapes.parts = append(shapes.parts, square{i})
	}
	nested := sum{[]shape{shapes, shapes}}
	words, n := map[string]int{}, 0
	for i := 0; i < 400; i++ {
		words[strings.Repeat("x", i%7)+fmt.Sprint(i)] = nested.area(i)
		n += deferred(func() int { return fib(i % 9) })
	}
	keys := []string{}
	for k := range words {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(a, b int) bool { return words[keys[a]]+len(keys[a]) < words[keys[b]]+len(keys[b]) })
	fmt.Println(n, len(keys), words[keys[0]], fib(20))
}
