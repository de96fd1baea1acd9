package localpg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// accounts are those that this test can run a child as.
func accounts(t *testing.T) map[string]*syscall.SysProcAttr {
	t.Helper()
	all := map[string]*syscall.SysProcAttr{"this user": nil}
	if os.Geteuid() == 0 {
		const nobody = 65534
		all["an ordinary user"] = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return all
}

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	for name, attr := range accounts(t) {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(ownBinary(t))
			privateTemp(t)
			cmd.SysProcAttr = attr
			c := startChild(t, cmd)
			folder := c.folder(t)
			if len(processesIn(folder)) == 0 {
				t.Fatal("no server runs")
			}
			sweep(t.Logf)
			if !exists(folder) || len(processesIn(folder)) == 0 {
				t.Fatal("a living process's server was swept")
			}
			c.kill()
			eventually(t, "the server's end", func() bool { return len(processesIn(folder)) == 0 })
			start(t, Options{})
			if exists(folder) {
				t.Error("the next start left the folder")
			}
		})
	}
}

func TestNothingOutlivesAProcessKilledWhileStarting(t *testing.T) {
	binary := ownBinary(t)
	dir := privateTemp(t)
	for delay := time.Duration(0); delay < 600*time.Millisecond; delay = delay*2 + 10*time.Millisecond {
		c := startChild(t, exec.Command(binary))
		time.Sleep(delay) //nolint:forbidigo // where in its start the child is killed, not a wait for it
		c.kill()
		eventually(t, fmt.Sprintf("the end of all processes, after %v", delay), func() bool { return len(processesIn(dir)) == 0 })
	}
	sweep(t.Logf)
	left, err := filepath.Glob(filepath.Join(dir, folderPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		// Killed before it could lock its folder: swept when old enough.
		if exists(filepath.Join(path, "data")) {
			t.Errorf("the sweep left %s", path)
		}
	}
}

func TestSweepEndsAServerWithoutOwner(t *testing.T) {
	privateTemp(t)
	server, err := Start(t.Context(), Options{Own: true})
	if err != nil {
		t.Fatal(err)
	}
	l := server.backend.(*local)
	if err := l.folder.owner.release(); err != nil { // as if this process had ended
		t.Fatal(err)
	}
	sweep(t.Logf)
	if exists(l.folder.path) || len(processesIn(l.folder.path)) != 0 {
		t.Errorf("left: folder %v, processes %v", exists(l.folder.path), processesIn(l.folder.path))
	}
}

func TestSweepLeavesWhatIsNotOurs(t *testing.T) {
	dir := privateTemp(t)
	precious := filepath.Join(dir, "precious")
	fresh, old := filepath.Join(dir, folderPrefix+"fresh"), filepath.Join(dir, folderPrefix+"old")
	link, file := filepath.Join(dir, folderPrefix+"link"), filepath.Join(dir, folderPrefix+"file")
	for _, path := range []string{precious, fresh, old} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(precious, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(precious, filepath.Join(old, "link")); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-2 * strayAge)
	for _, path := range []string{old, precious} {
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	sweep(t.Logf)
	for _, path := range []string{precious, fresh, link, file} {
		if !exists(path) {
			t.Errorf("%s was removed", path)
		}
	}
	if exists(old) {
		t.Error("an old folder without owner was left")
	}
}

// TestOrdinaryUser runs the tests of local servers once more as an ordinary
// user, where this one is root; elsewhere they have run as one already.
func TestOrdinaryUser(t *testing.T) {
	attr := accounts(t)["an ordinary user"]
	if attr == nil {
		return
	}
	binary, dir := ownBinary(t), privateTemp(t)
	tests := []string{"TestStartAndStop", "TestLog", "TestRestart", "TestStandby", "TestURL", "TestSweepEndsAServerWithoutOwner", "TestEmbedded"}
	cmd := exec.Command(binary, "-test.run=^("+strings.Join(tests, "|")+")$", "-test.v")
	cmd.SysProcAttr = attr
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as an ordinary user: %v\n%s", err, out)
	}
	for _, test := range tests {
		if !strings.Contains(string(out), "--- PASS: "+test+" ") {
			t.Errorf("%s did not run:\n%s", test, out)
		}
	}
}

// processesIn returns the processes that work in dir or below.
func processesIn(dir string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		cwd, err := os.Readlink(link)
		if err != nil || cwd != dir && !strings.HasPrefix(cwd, dir+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
