package main

import "fmt"

type node struct {
	next  *node
	value int
	name  [4]int32
}

//go:noinline
func walk(n *node) int {
	s := 0
	for ; n != nil; n = n.next {
		s += n.value
		n.name[s&3] = 1
	}
	return s
}

func main() {
	var head *node
	for i := 0; i < 1000; i++ {
		head = &node{next: head, value: i}
	}
	s := 0
	for i := 0; i < 1000; i++ {
		s += walk(head)
	}
	fmt.Println(s)
}
