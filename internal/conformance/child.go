package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// child is a process that runs this test binary again and serves a check. It can
// be stopped and killed at any point that the check chooses.
type child struct {
	w    *world
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	mu      sync.Mutex
	last    int
	replies map[int]chan reply
}

// child starts a process with a node. It is killed at the end of the check.
func (w *world) child(o setup) *child {
	w.Helper()
	w.nodes++
	c := &child{w: w, name: fmt.Sprintf("%s child %d", w.name, w.nodes), replies: map[int]chan reply{}}
	orders, err := json.Marshal(order{DSN: w.dsn, Name: c.name, Tuning: o.tuning(c.name)})
	w.must(err, "write order")
	exe, err := os.Executable()
	w.must(err, "find the test binary")
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), childEnv+"="+w.strategy.Name, orderEnv+"="+string(orders))
	c.cmd.Stderr = os.Stderr
	// A group of its own: should this process be killed while the child is
	// stopped, the kernel hangs up on the orphaned group.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.in, err = c.cmd.StdinPipe()
	w.must(err, "make pipe")
	out, err := c.cmd.StdoutPipe()
	w.must(err, "make pipe")
	w.must(c.cmd.Start(), "start a process")
	read := make(chan struct{})
	go func() {
		defer close(read)
		c.listen(out)
	}()
	w.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-read
		_ = c.cmd.Wait()
	})
	return c
}

// listen hands out the replies; when the child ends, all that are missing fail.
func (c *child) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r reply
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			c.w.Errorf("%s says %q: %v", c.name, lines.Text(), err)
			continue
		}
		c.mu.Lock()
		c.replies[r.ID] <- r
		delete(c.replies, r.ID)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ch := range c.replies {
		ch <- reply{ID: id, Error: &remoteError{Text: "the process has ended"}}
	}
	c.replies = nil
}

// send gives the child something to do and returns where its reply will come.
func (c *child) send(r request) <-chan reply {
	c.w.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan reply, 1)
	if c.replies == nil {
		c.w.Fatalf("%s has ended", c.name)
	}
	c.last++
	r.ID = c.last
	c.replies[r.ID] = ch
	line, err := json.Marshal(r)
	c.w.must(err, "write request")
	_, err = c.in.Write(append(line, '\n'))
	c.w.must(err, "send request to "+c.name)
	return ch
}

// do has the child do something and waits for it.
func (c *child) do(op, key string) reply {
	c.w.Helper()
	return soon(c.w, patience, c.send(request{Op: op, Key: key}), c.name+" replies to "+op)
}

// mustDo is do for what must succeed.
func (c *child) mustDo(op, key string) reply {
	c.w.Helper()
	r := c.do(op, key)
	c.w.must(r.err(), c.name+" "+op+" "+key)
	return r
}

// stop suspends the child, and returns when it does not run any more.
func (c *child) stop() {
	c.w.Helper()
	pid := c.cmd.Process.Pid
	c.w.must(syscall.Kill(pid, syscall.SIGSTOP), "SIGSTOP")
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		if err == syscall.EINTR {
			continue
		}
		c.w.must(err, "wait for the process to stop")
		if status.Stopped() {
			return
		}
		c.w.Fatalf("%s has ended: %v", c.name, status)
	}
}

// resume lets a stopped child go on.
func (c *child) resume() {
	c.w.Helper()
	c.w.must(c.cmd.Process.Signal(syscall.SIGCONT), "SIGCONT")
}

// kill ends the child without a chance to say goodbye.
func (c *child) kill() {
	c.w.Helper()
	c.w.must(c.cmd.Process.Kill(), "SIGKILL")
}
