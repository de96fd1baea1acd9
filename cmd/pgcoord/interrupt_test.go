//go:build linux || darwin

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pgcoord/pgcoord/internal/localpg"
	"github.com/pgcoord/pgcoord/internal/pgtest"
)

// TestInterruptedDemoLeavesNothing ends the demo while a worker is stopped.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	send := func(s syscall.Signal) func(*os.Process, io.Closer) error {
		return func(p *os.Process, _ io.Closer) error { return p.Signal(s) }
	}
	cases := map[string]struct {
		end    func(p *os.Process, stdout io.Closer) error
		status int
	}{
		"Ctrl-C":          {send(syscall.SIGINT), 130},
		"SIGTERM":         {send(syscall.SIGTERM), 130},
		"terminal closed": {send(syscall.SIGHUP), 1},
		"reader gone":     {func(_ *os.Process, stdout io.Closer) error { return stdout.Close() }, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := openFolder(t)
			d := startDemo(t, tmp)
			if err := c.end(d.cmd.Process, d.stdout); err != nil {
				t.Fatal(err)
			}
			if status := d.wait(t); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			requireNothingLeft(t, tmp)
		})
	}
}

// TestKilledDemoLeavesNoProcess: the folder of its server is swept by the next
// start; see package localpg.
func TestKilledDemoLeavesNoProcess(t *testing.T) {
	t.Parallel()
	tmp := openFolder(t)
	d := startDemo(t, tmp)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.wait(t)
	pgtest.Eventually(t, 10*time.Second, "end of all processes", func() bool { return len(processesOf(t, tmp)) == 0 })
}

// runningDemo is a demo one of whose workers is stopped.
type runningDemo struct {
	cmd    *exec.Cmd
	stdout io.ReadCloser
}

func startDemo(t *testing.T, tmp string) *runningDemo {
	t.Helper()
	d := &runningDemo{cmd: pgcoordCommand(t, tmp, "demo")}
	var err error
	if d.stdout, err = d.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() }) // for the case that the test failed before
	for lines := bufio.NewScanner(d.stdout); ; {
		if !lines.Scan() {
			t.Fatal("the demo ended before a worker was stopped")
		}
		if strings.Contains(lines.Text(), "STOPPED") {
			break
		}
	}
	want := 4 // itself and its workers
	if pgtest.Server(t).Kind() == localpg.KindLocal {
		want++
	}
	if running := processesOf(t, tmp); len(running) < want {
		t.Errorf("the test sees only %v", running)
	}
	return d
}

// wait returns the exit status of the demo, -1 when a signal has ended it.
func (d *runningDemo) wait(t *testing.T) int {
	t.Helper()
	ended := make(chan int, 1)
	go func() {
		_, _ = io.Copy(io.Discard, d.stdout) // fails where the test has closed it
		_ = d.cmd.Wait()
		ended <- d.cmd.ProcessState.ExitCode()
	}()
	select {
	case status := <-ended:
		return status
	case <-time.After(20 * time.Second):
		t.Fatal("the demo did not end")
		return 0
	}
}
