package localpg

import (
	"os/exec"
	"syscall"
)

// process is a running program of PostgreSQL.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) wait() error {
	<-p.done
	return p.err
}

// signal asks the process to end as mode says.
func (p *process) signal(mode Mode) error {
	switch mode {
	case Immediate:
		return p.cmd.Process.Signal(syscall.SIGQUIT)
	case Kill:
		return p.cmd.Process.Kill()
	default:
		return p.cmd.Process.Signal(syscall.SIGINT)
	}
}

// kill ends the process at once and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.done
}
