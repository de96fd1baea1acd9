package demo

import (
	"net/rpc"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/pgtest"
)

func TestStoreIsAnHonestLockServer(t *testing.T) {
	server, err := serveStore()
	if err != nil {
		t.Fatal(err)
	}
	client, err := rpc.Dial("tcp", server.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	set := func(value string, ttl time.Duration) (owner string) {
		call(t, client, "SetNX", SetArgs{"k", value, ttl}, &owner)
		return owner
	}
	drop := func(only string) (reply DeleteReply) {
		call(t, client, "Delete", DeleteArgs{"k", only}, &reply)
		return reply
	}

	if owner := set("A", time.Hour); owner != "A" {
		t.Errorf("a free key went to %q", owner)
	}
	if owner := set("B", time.Hour); owner != "A" {
		t.Errorf("a taken key went to %q", owner)
	}
	if got, want := drop("B"), (DeleteReply{Found: "A"}); got != want {
		t.Errorf("compare-and-delete of another's key: %+v, want %+v", got, want)
	}
	if got, want := drop(""), (DeleteReply{Found: "A", Deleted: true}); got != want {
		t.Errorf("delete: %+v, want %+v", got, want)
	}
	if got := drop("A"); got != (DeleteReply{}) {
		t.Errorf("delete of nothing: %+v", got)
	}
	set("A", time.Millisecond)
	pgtest.Eventually(t, time.Second, "end of the time to live", func() bool { return set("B", time.Hour) == "B" })
	if err := server.close(); err != nil {
		t.Error(err)
	}
	if err := client.Call("Store.Get", "k", new(string)); err == nil {
		t.Error("a closed server answers")
	}
}

func call(t *testing.T, client *rpc.Client, method string, args, reply any) {
	t.Helper()
	if err := client.Call("Store."+method, args, reply); err != nil {
		t.Fatal(err)
	}
}
