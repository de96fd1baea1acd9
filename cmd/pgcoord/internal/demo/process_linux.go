package demo

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from a worker, which its parent ends, and
// has the kernel end it, stopped or not, should the parent be killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
