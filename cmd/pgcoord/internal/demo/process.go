package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
)

// process is one worker, seen from the parent.
type process struct {
	name   string
	cmd    *exec.Cmd
	words  io.WriteCloser
	events chan event
	told   map[kind]bool // what next has returned so far

	gone   chan struct{} // closed when it has ended
	stderr bytes.Buffer  // to be read then
}

// startWorker runs this program again as a worker. It is killed when ctx ends.
func startWorker(ctx context.Context, a assignment) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start worker %s: %w", a.Worker, err)
	}
	p := &process{
		name:   a.Worker,
		cmd:    exec.CommandContext(ctx, self, workerName),
		events: make(chan event),
		told:   map[kind]bool{},
		gone:   make(chan struct{}),
	}
	p.cmd.SysProcAttr = ownGroup()
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.words, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := onLastingThread(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start worker %s: %w", p.name, err)
	}
	go p.follow(stdout)
	if err := json.NewEncoder(p.words).Encode(a); err != nil {
		p.end()
		return nil, fmt.Errorf("worker %s: %w", p.name, err)
	}
	return p, nil
}

// follow passes the worker's events on until it ends.
func (p *process) follow(stdout io.Reader) {
	defer close(p.gone)
	defer close(p.events)
	for in := json.NewDecoder(stdout); ; {
		var e event
		if in.Decode(&e) != nil {
			break // it has ended, or says what is no event
		}
		p.events <- e
	}
	_ = p.cmd.Wait() // how it ended is in ProcessState
}

// next returns the worker's next event.
func (p *process) next(ctx context.Context) (event, error) {
	select {
	case e, ok := <-p.events:
		return p.take(e, ok)
	case <-ctx.Done():
		return event{}, fmt.Errorf("worker %s: %w", p.name, context.Cause(ctx))
	}
}

// take judges what was received from events.
func (p *process) take(e event, ok bool) (event, error) {
	if !ok {
		<-p.gone
		return e, fmt.Errorf("worker %s ended early (%v) %s", p.name, p.cmd.ProcessState, bytes.TrimSpace(p.stderr.Bytes()))
	}
	if e.Kind == kindFailed {
		return e, fmt.Errorf("worker %s: %s", p.name, e.Text)
	}
	p.told[e.Kind] = true
	return e, nil
}

// proceed says the word that the worker waits for.
func (p *process) proceed() error {
	if _, err := io.WriteString(p.words, "go\n"); err != nil {
		return fmt.Errorf("worker %s: %w", p.name, err)
	}
	return nil
}

// end kills the worker if it still runs, stopped or not, and waits for its end.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // fails when it has ended by itself
	for range p.events {     // what nobody wants to hear any more
	}
	<-p.gone
}

var thread struct {
	once sync.Once
	jobs chan func()
}

// onLastingThread runs start on an OS thread that lives as long as the program:
// on Linux the signal on the parent's death comes with the death of the thread
// that made the child.
func onLastingThread(start func() error) error {
	thread.once.Do(func() {
		thread.jobs = make(chan func())
		go func() {
			runtime.LockOSThread()
			for job := range thread.jobs {
				job()
			}
		}()
	})
	done := make(chan error)
	thread.jobs <- func() { done <- start() }
	return <-done
}

// toldAny tells whether next has returned an event of one of kinds.
func (p *process) toldAny(kinds []kind) bool {
	return slices.ContainsFunc(kinds, func(k kind) bool { return p.told[k] })
}
