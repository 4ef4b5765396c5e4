//go:build linux && amd64

package shellexec

import (
	"encoding/binary"
	"os"
	"testing"
)

// TestOtherCalls runs a program of a few bytes that ends by a 32-bit system call: exit(7)
// through int 0x80. When that is refused it goes on to an instruction that kills it.
func TestOtherCalls(t *testing.T) {
	code := []byte{0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80, 0x0f, 0x0b}
	elf := make([]byte, 120, 120+len(code))
	copy(elf, "\x7fELF\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(elf[16:], 2)        // executable
	le.PutUint16(elf[18:], 62)       // x86-64
	le.PutUint32(elf[20:], 1)        // version
	le.PutUint64(elf[24:], 0x400078) // entry
	le.PutUint64(elf[32:], 64)       // program headers
	le.PutUint16(elf[52:], 64)       // header size
	le.PutUint16(elf[54:], 56)       // of one program header
	le.PutUint16(elf[56:], 1)        // one of them
	le.PutUint32(elf[64:], 1)        // load
	le.PutUint32(elf[68:], 5)        // read and run
	le.PutUint64(elf[80:], 0x400000) // address
	le.PutUint64(elf[88:], 0x400000)
	le.PutUint64(elf[96:], uint64(120+len(code)))
	le.PutUint64(elf[104:], uint64(120+len(code)))
	le.PutUint64(elf[112:], 0x1000)
	elf = append(elf, code...)
	for _, confined := range []bool{false, true} {
		s := shell(t, "")
		program(t, s.Root+"/prog", elf)
		f, err := os.Open(s.Root + "/prog")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s.Program, s.Argv, s.Confined = f, []string{"prog"}, confined
		r := mustRun(t, s)
		t.Logf("confined %v: %s %v %s %s", confined, r.Termination, r.Exit, r.Signal, r.Failure)
		if !confined && (r.Exit == nil || *r.Exit != 7) {
			t.Skip("this kernel has no 32-bit calls, so there is nothing to refuse")
		}
		if confined && r.Signal != "SIGILL" {
			t.Errorf("a 32-bit call passes the filter")
		}
	}
}
