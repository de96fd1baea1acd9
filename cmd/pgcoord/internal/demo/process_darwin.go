package demo

import "syscall"

// ownGroup keeps the terminal's Ctrl-C from a worker, which its parent ends.
// Should the parent be killed, the kernel continues and hangs up the group.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
