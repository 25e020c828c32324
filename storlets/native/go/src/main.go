// The CRC-32 of standard input, in one pass.
package main

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

func main() {
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := fmt.Printf("%08x\n", sum.Sum32()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
