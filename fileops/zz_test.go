package fileops
import ("testing";"bytes";"time";"strings";"holdpoint/op")
func TestZZ(t *testing.T){
 for _, l := range []string{"a line of some text that is not very long\n","\té ligne “x” text that is not very long\n", "}\n"} {
 b := bytes.Repeat([]byte(l), (30<<20)/len(l))
 for _, p := range []string{"foo\nbar", strings.Repeat("}\n",3000)+"x", "\tnothing here that is like it"} {
 s:=time.Now(); _, err := ApplyEdits(b, one(p,"x")); t.Log(time.Since(s), op.AsError(err).Hint)
 }}
 b := bytes.Repeat([]byte("x"), 30<<20)
 s:=time.Now(); _, err := ApplyEdits(b, one(strings.Repeat("x",1<<20)+"y","x")); t.Log(time.Since(s), len(op.AsError(err).Hint))
}
