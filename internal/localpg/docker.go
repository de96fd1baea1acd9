package localpg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// EnvImage names the image that kind docker runs.
const EnvImage = "PGCOORD_POSTGRES_IMAGE"

const defaultImage = "postgres:17"

// containerFile is the file in a folder that names its container.
const containerFile = "container"

// container is a server in a Docker container. It is driven by the docker
// command, attached: when this process ends, the command is sent SIGINT, passes
// it on to the server, and the container removes itself. Its data is in a volume
// of the same name, which outlives it over a restart.
type container struct {
	folder  *folder
	name    string
	port    int
	args    []string // of docker
	command *process
}

func startDocker(ctx context.Context, o Options) (*Server, error) {
	if err := askDocker(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", errAbsent, err)
	}
	f, err := newFolder(account{}, false)
	if err != nil {
		return nil, err
	}
	image := os.Getenv(EnvImage)
	if image == "" {
		image = defaultImage
	}
	c := &container{folder: f, name: filepath.Base(f.path)}
	version, err := c.create(ctx, image, o)
	if err != nil {
		// Not having the image is not having the kind.
		return nil, fmt.Errorf("%w: %w", errAbsent, errors.Join(err, c.stop()))
	}
	return &Server{kind: KindDocker, version: version, origin: image, backend: c}, nil
}

// askDocker fails when there is no docker command or its engine does not answer.
func askDocker(ctx context.Context) error {
	const limit = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err
}

// docker runs the docker command to its end and returns what it printed.
func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// create makes the container and returns the server's version when it answers.
func (c *container) create(ctx context.Context, image string, o Options) (string, error) {
	var err error
	if c.port, err = freePort(); err != nil {
		return "", err
	}
	// Written first, so that a sweep finds the container however early we end.
	if err := os.WriteFile(filepath.Join(c.folder.path, containerFile), []byte(c.name), 0o600); err != nil {
		return "", err
	}
	c.args = []string{
		"run", "--rm", "--name", c.name, "--publish", fmt.Sprintf("127.0.0.1:%d:5432", c.port),
		"--volume", c.name + ":/pgcoord", "--env", "PGDATA=/pgcoord/data", "--shm-size", "256m",
		"--env", "POSTGRES_HOST_AUTH_METHOD=trust", "--env", "POSTGRES_INITDB_ARGS=--locale=C --encoding=UTF8", image,
	}
	settings := o.settings()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		c.args = append(c.args, "-c", name+"="+settings[name])
	}
	if err := c.run(); err != nil {
		return "", err
	}
	return c.await(ctx)
}

// run starts the container.
func (c *container) run() error {
	log, err := os.OpenFile(c.folder.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("docker", c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	c.command, err = spawn(cmd, account{})
	return err
}

// await polls until the server answers. The engine accepts connections before
// the server does, so only an answer counts.
func (c *container) await(ctx context.Context) (string, error) {
	for {
		version, err := askVersion(ctx, c.dsn("postgres"))
		if err == nil {
			return version, nil
		}
		select {
		case <-c.command.done:
			return "", fmt.Errorf("docker run ended (%v): %s", c.command.cmd.ProcessState, lastLines(c.log()))
		case <-ctx.Done():
			return "", fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(10 * pollInterval):
		}
	}
}

func lastLines(text string) string {
	const most = 10
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

func (c *container) dsn(database string) string { return loopbackDSN(c.port, database) }

func (c *container) log() string { return c.folder.readLog() }

func (c *container) restart(ctx context.Context, mode Mode) error {
	signal := map[Mode]string{Fast: "SIGINT", Immediate: "SIGQUIT", Kill: "SIGKILL"}[mode]
	if _, err := docker(ctx, "kill", "--signal", signal, c.name); err != nil {
		return err
	}
	select {
	case <-c.command.done: // the container is removed too by then
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.run(); err != nil {
		return err
	}
	_, err := c.await(ctx)
	return err
}

func (c *container) stop() error {
	err := removeContainer(c.folder.path)
	if c.command != nil {
		c.command.kill()
	}
	return errors.Join(err, c.folder.remove())
}

// removeContainer removes the container and the volume that a folder names, if
// it names them and they are still there.
func removeContainer(path string) error {
	content, err := os.ReadFile(filepath.Join(path, containerFile))
	if err != nil {
		return nil
	}
	name := string(content)
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	for {
		// The container removes itself too, when it ends; then this fails.
		_, removeErr := docker(ctx, "rm", "--force", "--volumes", name)
		left, err := docker(ctx, "ps", "--all", "--quiet", "--filter", "name=^"+name+"$")
		if err != nil {
			return err
		}
		if strings.TrimSpace(left) == "" {
			_, err := docker(ctx, "volume", "rm", "--force", name)
			return err
		}
		if ctx.Err() != nil {
			return removeErr
		}
		time.Sleep(10 * pollInterval)
	}
}
