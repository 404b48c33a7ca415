// Words counted in a map.
package main

import "fmt"

//go:noinline
func count(n int) map[string]int {
	words := map[string]int{}
	for i := 0; i < n; i++ {
		words[fmt.Sprint(i*7919%499)]++
	}
	return words
}

func main() {
	fmt.Println(len(count(5000)))
}
