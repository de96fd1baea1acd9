//go:build linux || darwin

package demo

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// supported fails on systems where a process cannot be stopped and continued.
func supported() error { return nil }

// onContinue returns a channel that gets a value when this process is continued.
func onContinue() (continued <-chan os.Signal, forget func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGCONT)
	return ch, func() { signal.Stop(ch) }
}

// stopSignals also end the demo in good order: a closed terminal, and a reader
// of its output that went away.
var stopSignals = []os.Signal{syscall.SIGHUP, syscall.SIGPIPE}

// freeze stops the whole process and returns when the kernel has done so.
func (p *process) freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop worker %s: %w", p.name, err)
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for worker %s to stop: %w", p.name, err)
		}
		if !status.Stopped() {
			return fmt.Errorf("worker %s ended instead of stopping", p.name)
		}
		return nil
	}
}

// thaw lets a stopped process go on.
func (p *process) thaw() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue worker %s: %w", p.name, err)
	}
	return nil
}
