//go:build !linux && !darwin

package demo

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

var errUnsupported = errors.New("the demo stops and continues real processes (SIGSTOP, SIGCONT), which " +
	runtime.GOOS + " cannot; run it on Linux or macOS, for instance in WSL or a container")

func supported() error { return errUnsupported }

func onContinue() (<-chan os.Signal, func()) { return nil, func() {} }

var stopSignals []os.Signal

func (p *process) freeze() error { return errUnsupported }

func (p *process) thaw() error { return errUnsupported }

func ownGroup() *syscall.SysProcAttr { return nil }
